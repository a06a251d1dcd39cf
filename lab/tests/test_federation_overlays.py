"""Whole gateways with overlays of any strategy, soft links that are forced, and wishes that cover each other.

Every gateway where somebody wants a publication gets it exactly once, and none goes towards where it came from.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

from hypothesis import given, note, settings
from hypothesis import strategies as st

from mqloom.core.effects import Effect, OpenLink, SendFrame
from mqloom.core.events import LinkConnected, RecordsRead, Started, Woke
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.topics import topic_matches
from mqloom.core.wire import decode
from mqloom.gateway.interfaces import OpenSoftLink
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.simulation import LinkName, World, random_tree
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

STRATEGIES = ("S0", "S1", "S2", "SH")
TOPICS = ("stocks/#", "stocks/+", "stocks/a", "stocks/b")
Wish = tuple[str, int]
"""A topic filter, and the volume above which it is wanted: many cover each other."""


def is_wanted(wish: Wish, topic: str, volume: int) -> bool:
    return topic_matches(wish[0], topic) and volume > wish[1]


class Woven(World):
    """A federation whose overlays differ; every copy of a publication on a link is noted."""

    def __init__(self, count: int, seed: int) -> None:
        self.randomness = random.Random(seed)
        self.names, links = random_tree(count, self.randomness)
        self.overlays: dict[GatewayId, TreeOverlay] = {}
        self.delta = self.randomness.randint(2, 5)
        self.hops: defaultdict[bytes, list[LinkName]] = defaultdict(list)
        super().__init__(links, self.names, lambda: 0.001 * self.randomness.random())
        self.run(3.0)
        self.force(self.randomness.choice((0.0, 0.3, 0.7, 1.0)))

    def start(self, gateway: GatewayId, epoch: int) -> None:
        """Start a gateway with a strategy of its own; links are woven by force alone."""
        neighbours = self.neighbours(gateway)
        strategy = self.randomness.choice(STRATEGIES)
        chosen = {"strategy": strategy, "delta": self.delta, "weave_s": 3_600.0, "fanout": 60}
        self.overlays[gateway] = TreeOverlay(gateway, neighbours, chosen)
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            peers=[each for each in self.names if each != gateway],
            matcher=ScanMatcher(),
            overlay=self.overlays[gateway],
            codecs=[("#", json_codec.mqloom_codec())],
        )
        self.nodes[gateway] = Node(parts, self.now)
        self.happen(gateway, Started())
        self.happen(gateway, RecordsRead())
        for each in neighbours:
            self.happen(gateway, LinkConnected(neighbour=each))

    def force(self, share: float) -> None:
        """Open this share of all soft links that maps allow."""
        for gateway, overlay in self.overlays.items():
            far = [each for each in overlay._map.gateways if each not in self.neighbours(gateway)]
            for each in far:
                if self.randomness.random() < share:
                    for effect in overlay._weaving._open(each, self.now):
                        assert isinstance(effect, OpenSoftLink)
                        self.nodes[gateway]._weaver._carry_out(effect, self.now)
            self.happen(gateway, Woke())
        self.run(self.now + 3.0)

    def standing(self) -> int:
        return sum(len(overlay._weaving.up()) for overlay in self.overlays.values())

    def _carry_out(self, gateway: GatewayId, effect: Effect) -> None:
        if isinstance(effect, OpenLink):
            self._soon(gateway, LinkConnected(neighbour=effect.neighbour))
        elif isinstance(effect, SendFrame):
            for message in decode(effect.frame).messages:
                if isinstance(message, Publication):
                    self.hops[message.payload].append((gateway, effect.neighbour))
        super()._carry_out(gateway, effect)

    def side(self, here: GatewayId, other: GatewayId) -> set[GatewayId]:
        """Return everybody on the side of `here` on which `other` is."""
        for first in self.neighbours(here):
            seen, stack = {here, first}, [first]
            while stack:
                new = [each for each in self.neighbours(stack.pop()) if each not in seen]
                seen.update(new)
                stack += new
            if other in seen:
                return seen - {here}
        raise AssertionError


wishes = st.lists(st.tuples(st.integers(0, 11), st.sampled_from(TOPICS), st.integers(0, 3)), min_size=1, max_size=12)
publications = st.lists(st.tuples(st.integers(0, 11), st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(2, 12),
    seed=st.integers(0, 2**32),
    wanted=wishes,
    published=publications,
    dropped=st.sets(st.integers(0, 11)),
)
def test_every_gateway_that_wants_it_gets_a_publication_exactly_once_whatever_links_and_strategies_there_are(
    count: int,
    seed: int,
    wanted: Sequence[tuple[int, str, int]],
    published: Sequence[tuple[int, str, int]],
    dropped: set[int],
) -> None:
    note(f"seed {seed}")
    world = Woven(count, seed)
    note(f"{world.standing()} soft links")
    standing: list[tuple[GatewayId, Wish]] = []
    clients = {name: world.client(name, f"c-{name}") for name in world.names}
    for number, (where, topics, volume) in enumerate(wanted):
        clients[world.names[where % count]].subscribe(f"w{number}", topics, f"volume > {volume}")
    world.run(world.now + 2.0)
    for number, (where, topics, volume) in enumerate(wanted):  # what these covered must be announced
        if number in dropped:
            clients[world.names[where % count]].unsubscribe(f"w{number}")
        else:
            standing.append((world.names[where % count], (topics, volume)))
    world.run(world.now + 20.0)
    for number, (where, symbol, volume) in enumerate(published):
        attributes = {"id": number, "volume": volume}
        world.hops.clear()
        origin = world.names[where % count]
        topic = f"stocks/{symbol}"
        world.publish(origin, topic, attributes)
        world.run(world.now + 2.0)
        wanting = {gateway for gateway, wish in standing if is_wanted(wish, topic, volume)}
        check_journey(world, origin, wanting, [hop for hops in world.hops.values() for hop in hops])
        for name, client in clients.items():
            got = sum(received == attributes for received, _ in client.received)
            assert got == (name in wanting), f"{name} got {attributes} {got} times"
    world.check()


def check_journey(world: Woven, origin: GatewayId, wanting: set[GatewayId], hops: Sequence[LinkName]) -> None:
    reached = Counter(target for _, target in hops)
    assert set(reached.values()) <= {1}, f"more than once: {reached}"
    assert wanting <= reached.keys() | {origin}, f"not reached: {wanting - reached.keys()}"
    assert origin not in reached
    came = {target: here for here, target in hops}
    for here, target in hops:
        if here in came:
            assert target not in world.side(here, came[here]), "it went towards where it came from"
        beyond = set(world.names) - world.side(target, here)
        assert wanting & beyond, f"nobody at {target}, or beyond, wants it"
