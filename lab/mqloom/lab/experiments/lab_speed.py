"""How fast the lab itself is: hops a second of processor time.

A hop is a publication on a connection: from its publisher to the broker, from there to the gateway, from a gateway to
a neighbour's broker and on to that neighbour, and at the end by way of the broker to the subscriber. Frames with
several publications are several hops; acknowledgements, greetings and everything else are none. How many hops there
are is counted on the map: of the tree, what lies between a publication and those who want it. So a lab that does more
than it should, or a gateway that sends where nobody wants it, only gets slower.

The workload is that of paper 001, smaller: a random tree, topics of Zipf-distributed popularity, a publication wanted
by a quarter of the brokers, Poisson publishers at every broker. The clock counts processor time, so that a machine
that is busy with something else does not look like a slow one; still this is the one experiment whose figures differ
from run to run, and its target is one for a machine of today.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from mqloom.lab.arrivals import constant, poisson
from mqloom.lab.experiment import Experiment, Report, Row, Tell, at_least, exactly
from mqloom.lab.interests import Interests, zipf_interests
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan, links_of
from mqloom.lab.world import World

SHARE: Final = 0.25
TOPICS: Final = 100
ESTABLISHED_S: Final = 20.0
"""When everybody's subscriptions count, and publishing begins."""

TARGET: Final = 50_000
TARGET_QUICK: Final = 5_000
"""The small one runs where others run tests beside it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is simulated."""

    gateways: int
    publications_s: float
    lasts_s: float


FULL: Final = Size(gateways=40, publications_s=4_000.0, lasts_s=5.0)
QUICK: Final = Size(gateways=10, publications_s=1_000.0, lasts_s=1.0)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Simulate, and look at the clock."""
    size = QUICK if quick else FULL
    randomness = random.Random(f"{seed} lab-speed")  # noqa: S311 - an experiment, not a secret
    gateways = tuple(f"G{number}" for number in range(size.gateways))
    links = links_of("tree", gateways, randomness)
    interests = zipf_interests(randomness, brokers=size.gateways, topics=TOPICS, share=SHARE)
    plan = _plan(seed, size, links, interests, randomness)
    world = World(plan)
    world.run(ESTABLISHED_S)
    begun, events = time.process_time(), world.clock.events
    steps = 50
    for step in range(1, steps + 1):
        world.run(ESTABLISHED_S + (size.lasts_s + 2.0) * step / steps)
        tell(step / steps, f"{world.clock.now - ESTABLISHED_S:.1f} s of virtual time")
    took_s = time.process_time() - begun
    delivered = sum(len(life.delivered) for each in world.subscribers.values() for life in each.lives)
    hops, expected = _count(plan, interests)
    rows = (
        Row(name="publications", ours=len(plan.publications)),
        exactly("deliveries", delivered, expected),
        Row(name="hops", ours=hops),
        Row(name="entries in the lab's clock for a hop", ours=(world.clock.events - events) / hops),
        at_least("hops a second", hops / took_s, TARGET_QUICK if quick else TARGET),
        Row(name="virtual seconds for a second", ours=(size.lasts_s + 2.0) / took_s),
    )
    return Report(rows=rows)


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
    times = takewhile(lambda at: at < size.lasts_s, poisson(constant(size.publications_s), randomness))
    topics = interests.publications(randomness)
    publications = tuple(
        PublicationPlan(
            at=ESTABLISHED_S + at,
            publisher=f"p{randomness.randrange(size.gateways)}",
            number=number,
            topic=f"stocks/{next(topics)}",
            attributes={},
        )
        for number, at in enumerate(times)
    )
    return Plan(
        seed=seed,
        topology="tree",
        gateways=gateways,
        links=links,
        publishers={f"p{number}": gateway for number, gateway in enumerate(gateways)},
        subscribers=subscribers,
        publications=publications,
        faults=(),
        length_s=ESTABLISHED_S + size.lasts_s,
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
