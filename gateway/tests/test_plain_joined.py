"""Nodes joined, each with a broker of plain clients: together they are one broker, whatever comes late or twice."""

import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Sequence

import pytest

from mqloom.core.effects import (
    Acknowledge,
    Effect,
    HoldIntake,
    PublishFence,
    PublishLocally,
    ReleaseIntake,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.events import (
    AcksReceived,
    BrokerKnown,
    Event,
    FencePassed,
    FramesReceived,
    IntakeLost,
    IntakeOpened,
    InterestLearned,
    LinkConnected,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Incoming
from mqloom.core.topics import topic_matches
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.node import Node, NodeParts
from mqloom.lab.gate import parts_of
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

A, B, C, D = (GatewayId(name) for name in "ABCD")
Links = Sequence[tuple[GatewayId, GatewayId]]
TREES: dict[str, Links] = {
    "two": [(A, B)],
    "a chain": [(A, B), (B, C)],
    "a star": [(A, B), (A, C), (A, D)],
}
RING: Links = [(A, B), (B, C), (C, A)]
"""No configuration can say this; the files of three gateways that disagree can."""
FILTERS = ["a/#", "a/+", "a/b", "+/b", "#", "a/c", "$share/g/a/#"]
TOPICS = ["a/b", "a/c", "a", "other/b"]
DATA = ("a/#",)


class PlainBroker:
    """One broker: its plain clients, and what it holds for the gateway beside it."""

    def __init__(self, *, echoes: bool) -> None:
        self.echoes = echoes
        self.clients: dict[str, set[str]] = {}
        self.inbox: dict[str, list[bytes]] = {}
        self.packets = itertools.count(1)
        self.unacknowledged: dict[int, Incoming] = {}  # by receipt
        self.is_held = True

    def wants(self, client: str, topic: str) -> bool:
        return any(topic_matches(text.removeprefix("$share/g/"), topic) for text in self.clients[client])


class Town:
    """Brokers and gateways; what is between two of them stays in order, and else comes in any order."""

    def __init__(self, links: Links, chance: random.Random, traits: Traits = USUAL) -> None:
        self.chance = chance
        self.traits = traits
        self.now = 0.0
        self.names = sorted({name for link in links for name in link})
        self.brokers = {name: PlainBroker(echoes=chance.random() < 0.5) for name in self.names}
        self.channels: dict[tuple[str, str, str], deque[Callable[[], None]]] = {}
        self.wakes: dict[GatewayId, float] = {}
        self.receipts = itertools.count(1)
        self.unread: dict[GatewayId, deque[Incoming | int]] = {name: deque() for name in self.names}
        self.unanswered: dict[GatewayId, list[PublishLocally]] = {name: [] for name in self.names}
        self.breaks = 0
        self.nodes = {name: self.node(name, links) for name in self.names}
        for name in self.names:
            self.happen(name, BrokerKnown(traits=traits))
            self.happen(name, Started())
            self.happen(name, IntakeOpened(echoes=self.brokers[name].echoes))
            for link in links:
                if name in link:
                    self.happen(name, LinkConnected(neighbour=link[link[0] == name]))
            self.happen(name, RecordsRead())
        self.settle()

    def node(self, name: GatewayId, links: Links) -> Node:
        neighbours = [link[link[0] == name] for link in links if name in link]
        overlay = TreeOverlay(name, neighbours)
        codecs = parts_of().codecs
        parts = NodeParts(
            gateway=name,
            epoch=1,
            neighbours=neighbours,
            matcher=ScanMatcher(),
            overlay=overlay,
            codecs=codecs,
            data=DATA,
        )
        return Node(parts, self.now)

    # ---- what happens --------------------------------------------------------------------------------------------

    def happen(self, name: GatewayId, event: Event) -> None:
        effects = self.nodes[name].handle(event, self.now)
        self.nodes[name].check()
        for effect in effects:
            self.carry_out(name, effect)

    def later(self, kind: str, source: str, target: str, what: Callable[[], None]) -> None:
        self.channels.setdefault((kind, source, target), deque()).append(what)

    def carry_out(self, name: GatewayId, effect: Effect) -> None:
        match effect:
            case SendFrame():
                frames = FramesReceived(sender=name, frames=(effect.frame,), urgent=effect.urgent)
                kind = "urgent" if effect.urgent else "frames"
                self.later(kind, name, effect.neighbour, lambda: self.happen(effect.neighbour, frames))
            case SendAck():
                acks = AcksReceived(neighbour=name, acks=(effect.ack,))
                self.later("acks", name, effect.neighbour, lambda: self.happen(effect.neighbour, acks))
            case PublishLocally() if effect.republished:
                self.later("republish", name, name, lambda: self.republish(name, effect))
            case PublishLocally():
                self.keep(name, effect)
            case PublishFence():
                self.unread[name].append(effect.number)
            case Acknowledge():
                for receipt in effect.receipts:
                    self.brokers[name].unacknowledged.pop(receipt, None)
            case HoldIntake() | ReleaseIntake():
                self.brokers[name].is_held = isinstance(effect, HoldIntake)
            case WakeAt():
                self.wakes[name] = effect.at

    def keep(self, name: GatewayId, effect: PublishLocally) -> None:
        if "/park/" in effect.topic:
            peer = GatewayId(effect.topic.rsplit("/", 1)[1])
            parked = ParkedReceived(
                neighbour=peer, messages=(Parked(data=effect.payload, receipt=next(self.receipts)),)
            )
            self.later("park", name, peer, lambda: self.happen(name, parked))
        if effect.number:
            self.later("kept", name, name, lambda: self.happen(name, LocallyPublished(numbers=(effect.number,))))

    def republish(self, name: GatewayId, effect: PublishLocally) -> None:
        self.spread(name, effect.topic, effect.payload, effect.qos, is_ours=True)
        if effect.number:
            self.unanswered[name].append(effect)
            self.later("answer", name, name, lambda: self.answer(name, effect))

    def answer(self, name: GatewayId, effect: PublishLocally) -> None:
        if effect in self.unanswered[name]:  # else the connection broke before
            self.unanswered[name].remove(effect)
            self.happen(name, LocallyPublished(numbers=(effect.number,)))

    def spread(self, name: GatewayId, topic: str, payload: bytes, qos: int, *, is_ours: bool) -> None:
        broker = self.brokers[name]
        for client in broker.clients:
            if broker.wants(client, topic):
                broker.inbox[client].append(payload)
        if topic_matches(DATA[0], topic) and not (is_ours and not broker.echoes):
            packet = next(broker.packets) if qos else 0
            self.unread[name].append(Incoming(topic=topic, payload=payload, qos=qos, packet=packet))

    def hand_over(self, name: GatewayId) -> None:
        each = self.unread[name].popleft()
        if isinstance(each, int):
            self.happen(name, FencePassed(number=each))
            return
        incoming = each
        if each.qos:
            receipt = next(self.receipts)
            incoming = Incoming(
                topic=each.topic, payload=each.payload, qos=1, receipt=receipt, packet=each.packet, again=each.again
            )
            self.brokers[name].unacknowledged[receipt] = incoming
        self.happen(name, PublishesReceived(publications=(incoming,)))

    def break_intake(self, name: GatewayId) -> None:
        """The gateway's connection breaks: both sides send again what the other has not acknowledged."""
        self.breaks += 1
        broker = self.brokers[name]
        again = [
            Incoming(topic=each.topic, payload=each.payload, qos=1, packet=self.packet(broker, each), again=True)
            for each in broker.unacknowledged.values()
        ]
        broker.unacknowledged.clear()
        waiting = [each for each in self.unread[name] if isinstance(each, Incoming)]
        fences = [each for each in self.unread[name] if isinstance(each, int)]
        self.unread[name] = deque([*again, *waiting, *fences])
        self.happen(name, IntakeLost())
        twice, self.unanswered[name] = self.unanswered[name], []
        first = self.channels.setdefault(("republish", name, name), deque())
        for effect in reversed(twice):
            first.appendleft(lambda effect=effect: self.republish(name, effect))  # type: ignore[misc]
        self.happen(name, IntakeOpened(echoes=broker.echoes))

    def packet(self, broker: PlainBroker, sent: Incoming) -> int:
        """Return the packet id of what is sent again."""
        return sent.packet if self.traits.keeps_packet_ids else next(broker.packets)

    # ---- people --------------------------------------------------------------------------------------------------

    def subscribe(self, name: GatewayId, client: str, filters: set[str]) -> None:
        broker = self.brokers[name]
        broker.clients[client] = filters
        broker.inbox.setdefault(client, [])
        wanted = sorted({text for each in broker.clients.values() for text in each})
        self.later("interest", name, name, lambda: self.happen(name, InterestLearned(filters=tuple(wanted))))

    # ---- time ----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let one thing happen, by lot."""
        ready: list[Callable[[], None]] = [
            (lambda channel=channel: channel.popleft()())  # type: ignore[misc]
            for channel in self.channels.values()
            if channel
        ]
        ready += [
            (lambda name=name: self.hand_over(name))  # type: ignore[misc]
            for name in self.names
            if self.unread[name] and not self.brokers[name].is_held
        ]
        if ready:
            self.chance.choice(ready)()
        return bool(ready)

    def settle(self) -> None:
        for _ in range(12):
            while self.step():
                pass
            self.now += 0.5
            for name in self.names:
                if self.wakes.get(name, self.now + 1) <= self.now:
                    del self.wakes[name]
                    self.happen(name, Woke())


def live(town: Town, *, breaks: bool = False, is_tree: bool = True) -> None:
    """Let clients change what they want and publish, and compare with one broker that has them all."""
    chance, sent = town.chance, Counter[GatewayId]()
    number = itertools.count()
    clients = [(name, f"{name}{index}") for name in town.names for index in range(2)]
    for _ in range(4):
        changed = set()
        for name, client in clients:
            town.subscribe(name, client, set(chance.sample(FILTERS, chance.randint(0, 3))))
        town.settle()
        expected: Counter[tuple[str, bytes]] = Counter()
        for _ in range(12):
            name, topic, qos = chance.choice(town.names), chance.choice(TOPICS), chance.randint(0, 1)
            payload = b"%d" % next(number)
            for home, client in clients:
                is_reached = home == name or topic_matches(DATA[0], topic)
                expected[client, payload] += is_reached and town.brokers[home].wants(client, topic)
            town.spread(name, topic, payload, qos, is_ours=False)
            sent[name] += topic_matches(DATA[0], topic)
            for _ in range(chance.randint(0, 6)):
                town.step()
            if breaks and chance.random() < 0.2:
                town.break_intake(chance.choice(town.names))
            if chance.random() < 0.1:  # who changes its mind now may or may not get what is under way
                home, client = chance.choice(clients)
                town.subscribe(home, client, set(chance.sample(FILTERS, chance.randint(0, 3))))
                changed.add(client)
        town.settle()
        if not is_tree:  # after changes some may not know of others any more: a ring is no federation
            changed = {client for _, client in clients}
        compare(town, clients, +expected, changed, at_least=breaks)
    for name in town.names:
        node = town.nodes[name]
        assert node.counters.total("publications_in") == sent[name], "something was taken in twice, or not at all"
        assert not town.brokers[name].unacknowledged
        assert node.counters.total("echoes_missed") == 0 or breaks


def compare(
    town: Town,
    clients: Sequence[tuple[GatewayId, str]],
    expected: Counter[tuple[str, bytes]],
    changed: set[str],
    *,
    at_least: bool,
) -> None:
    for home, client in clients:
        got = Counter(town.brokers[home].inbox[client])
        town.brokers[home].inbox[client].clear()
        if client in changed:
            assert at_least or max(got.values(), default=0) <= 1
            continue
        wanted = {payload for who, payload in expected if who == client}
        assert set(got) == wanted, client
        assert at_least or max(got.values(), default=0) <= 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tree", TREES)
def test_federated_brokers_are_one_broker_for_plain_clients(tree: str, seed: int) -> None:
    live(Town(TREES[tree], random.Random(f"{tree} {seed}")))


@pytest.mark.parametrize("seed", range(6))
def test_in_a_ring_nothing_goes_round_and_nothing_comes_twice(seed: int) -> None:
    live(Town(RING, random.Random(f"a ring {seed}")), is_tree=False)


@pytest.mark.parametrize("traits", [USUAL, Traits(keeps_packet_ids=False)], ids=["usual", "packet ids change"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tree", ["two", "a chain", "a star"])
def test_connections_that_break_lose_nothing_and_bring_nothing_in_twice(tree: str, seed: int, traits: Traits) -> None:
    town = Town(TREES[tree], random.Random(f"breaks {tree} {seed}"), traits)
    live(town, breaks=True)
    assert town.breaks
