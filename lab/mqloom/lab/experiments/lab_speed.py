"""How fast the lab itself is: hops a second of processor time.

A hop is a publication on a connection: from its publisher to the broker, from there to the gateway, from a gateway to
a neighbour's broker and on to that neighbour, and at the end by way of the broker to the subscriber. Frames with
several publications are several hops; acknowledgements, greetings and everything else are none. How many hops there
are is counted on the map: of the tree, what lies between a publication and those who want it. So a lab that does more
than it should, or a gateway that sends where nobody wants it, only gets slower.

The workload is that of paper 001, smaller: a random tree, topics of Zipf-distributed popularity, a publication wanted
by a quarter of the brokers, Poisson publishers at every broker. In a quiet federation they publish one by one, and each
publication is handled alone at every gateway; in a busy one they publish fifty at a time, and what comes within a
millisecond comes together, as with a busy event loop. The target is that of the busy one.

Nodes are those of production: the content engine matches, the overlay is a tree. As in `timeit`, the garbage collector
rests. The clock counts processor time, so that a machine that is busy with something else does not look like a slow
one; still this is the one experiment whose figures differ from run to run, and its target is one for a machine of
today.
"""

import gc
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.arrivals import constant, poisson
from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_least, exactly
from mqloom.lab.interests import Interests, zipf_interests
from mqloom.lab.node_builders import DATA
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan, links_of
from mqloom.lab.world import Options, World
from mqloom.plugins import json_codec
from mqloom.plugins.content_matcher import ContentMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

SHARE: Final = 0.25
TOPICS: Final = 100
ESTABLISHED_S: Final = 20.0
"""When everybody's subscriptions count, and publishing begins."""

TARGET: Final = 50_000
TARGET_QUICK: Final = 10_000
"""The small one runs where others run tests beside it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated."""

    gateways: int
    bursts_s: float
    burst: int
    lasts_s: float
    tick_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out of it; `entries` are those of the lab's clock."""

    hops: int
    took_s: float
    entries: int
    deliveries: int
    expected: int


QUIET: Final = Size(gateways=40, bursts_s=2_000.0, burst=1, lasts_s=2.0)
BUSY: Final = Size(gateways=40, bursts_s=200.0, burst=50, lasts_s=2.0, tick_s=0.001)
QUIET_QUICK: Final = Size(gateways=10, bursts_s=500.0, burst=1, lasts_s=1.0)
BUSY_QUICK: Final = Size(gateways=10, bursts_s=50.0, burst=50, lasts_s=1.0, tick_s=0.001)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Simulate a quiet federation and a busy one, and look at the clock."""
    sizes = {"quiet": QUIET_QUICK if quick else QUIET, "busy": BUSY_QUICK if quick else BUSY}
    rows: list[Row] = []
    for index, (name, size) in enumerate(sizes.items()):

        def tell_half(share: float, text: str, done: float = index / 2) -> None:
            tell(done + share / 2, text)

        measured = _measure(seed, size, tell_half)
        speed = measured.hops / measured.took_s
        rows += [
            Row(name=f"{name}: hops", ours=measured.hops),
            exactly(f"{name}: deliveries", measured.deliveries, measured.expected),
            Row(name=f"{name}: entries in the lab's clock for a hop", ours=measured.entries / measured.hops),
            Row(name=f"{name}: hops a second", ours=speed),
        ]
    rows[-1] = at_least("busy: hops a second", speed, TARGET_QUICK if quick else TARGET)
    return Report(rows=tuple(rows))


def _measure(seed: int, size: Size, tell: Tell) -> Measured:
    randomness = random.Random(f"{seed} lab-speed")  # noqa: S311 - an experiment, not a secret
    gateways = tuple(f"G{number}" for number in range(size.gateways))
    links = links_of("tree", gateways, randomness)
    interests = zipf_interests(randomness, brokers=size.gateways, topics=TOPICS, share=SHARE)
    plan = _plan(seed, size, links, interests, randomness)
    world = World(plan, Options(build=build_node, tick_s=size.tick_s))
    world.run(ESTABLISHED_S)
    entries = world.clock.events
    took_s = _run(world, size.lasts_s + 2.0, tell)
    deliveries = sum(len(life.delivered) for each in world.subscribers.values() for life in each.lives)
    hops, expected = _count(plan, interests)
    return Measured(hops, took_s, world.clock.events - entries, deliveries, expected)


def _run(world: World, lasts_s: float, tell: Tell) -> float:
    """Let time pass; return how much of ours it took."""
    gc.collect()
    gc.disable()
    begun, steps = time.process_time(), 50
    try:
        for step in range(1, steps + 1):
            world.run(ESTABLISHED_S + lasts_s * step / steps)
            tell(step / steps, f"{world.clock.now - ESTABLISHED_S:.1f} s of virtual time")
    finally:
        gc.enable()
    return time.process_time() - begun


def build_node(gateway: GatewayId, epoch: int, neighbours: Sequence[GatewayId], now: float) -> Node:
    """Return a node as production has it by default."""
    parts = NodeParts(
        gateway=gateway,
        epoch=epoch,
        neighbours=neighbours,
        matcher=ContentMatcher(),
        overlay=TreeOverlay(gateway, neighbours),
        codecs=[("#", json_codec.mqloom_codec())],
        data=DATA,
    )
    return Node(parts, now)


def _plan(
    seed: int, size: Size, links: tuple[tuple[str, str], ...], interests: Interests, randomness: random.Random
) -> Plan:
    gateways = tuple(f"G{number}" for number in range(size.gateways))
    subscribers = tuple(
        SubscriberPlan(
            name=f"s{number}",
            gateway=gateway,
            wishes={f"w{topic}": (f"stocks/{topic}", "") for topic in interests.wanted[number]},
            starts_at=1.0,
        )
        for number, gateway in enumerate(gateways)
        if interests.wanted[number]
    )
    times = takewhile(lambda at: at < size.lasts_s, poisson(constant(size.bursts_s), randomness))
    topics = interests.publications(randomness)
    bursts = [(at, f"p{randomness.randrange(size.gateways)}") for at in times]
    publications = tuple(
        PublicationPlan(
            at=ESTABLISHED_S + at, publisher=publisher, number=number, topic=f"stocks/{next(topics)}", attributes={}
        )
        for number, (at, publisher) in enumerate(burst for burst in bursts for _ in range(size.burst))
    )
    return Plan(
        seed=seed,
        topology="tree",
        gateways=gateways,
        links=links,
        publishers={f"p{number}": gateway for number, gateway in enumerate(gateways)},
        subscribers=subscribers,
        publications=publications,
        window=1_000,
    )


def _count(plan: Plan, interests: Interests) -> tuple[int, int]:
    """Return how many hops and how many deliveries there should be."""
    parents = {link[1]: link[0] for link in plan.links}
    hops = deliveries = 0
    crossed: dict[tuple[str, str], tuple[int, int]] = {}
    for publication in plan.publications:
        key = (plan.publishers[publication.publisher], publication.topic)
        if key not in crossed:
            wanting = [plan.gateways[each] for each in interests.brokers_of(int(publication.topic.split("/")[1]))]
            crossed[key] = (_links_between(key[0], wanting, parents), len(wanting))
        links, wanting_count = crossed[key]
        hops += 2 + 2 * links + 2 * wanting_count
        deliveries += wanting_count
    return hops, deliveries


def _links_between(source: str, others: Sequence[str], parents: dict[str, str]) -> int:
    """Return how many links of the tree lie between one and all the others."""

    def links_up(gateway: str) -> set[str]:
        found = set()
        while gateway in parents:
            found.add(gateway)
            gateway = parents[gateway]
        return found

    up = links_up(source)
    return len(set().union(*(up ^ links_up(other) for other in others)))


experiment: Final = Experiment(
    name="lab-speed",
    summary="how many hops a second the simulator makes on this machine",
    source="our promise: a study of 500 brokers takes minutes",
    run=run,
    measures_time=True,
)
