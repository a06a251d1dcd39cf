"""Whole nodes with soft links between them: custody over a way that breaks, and is not the only one."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from mqloom.core.effects import (
    Acknowledge,
    CloseLink,
    Effect,
    OpenLink,
    PublishFence,
    PublishLocally,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.events import (
    AcksReceived,
    Event,
    FencePassed,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S, FLOW_QUEUE_MAX
from mqloom.core.messages import Announce, Flush, Flushed, Hello, Message
from mqloom.core.publication import Incoming, Publication
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.wire import Frame, encode
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    LinkStood,
    OpenSoftLink,
    OverlayEffect,
    OverlayEvent,
    OverlayStarted,
)
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.soft_links import SoftState
from mqloom.lab.gate import ANN, US, A, B, Gate, acknowledged, acks, key, parts_of, publication, sent
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

FAR, NEAR, GUEST = GatewayId("FAR"), GatewayId("NEAR"), GatewayId("GUEST")
FIRST = Conversation(1, 0)


class Path(TreeOverlay):
    """Knows for each gateway the way to it, opens the soft links it was told to, and goes as far as it can."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbours: Sequence[GatewayId],
        ways: dict[GatewayId, tuple[GatewayId, ...]],
        opens: Sequence[GatewayId] = (),
    ) -> None:
        super().__init__(gateway, neighbours)
        self.ways = {each: (each,) for each in neighbours} | ways
        self.opens = opens
        self.standing: set[GatewayId] = set()
        self.answers: list[OverlayEffect] = []
        self.primary = set(neighbours)

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> list[GatewayId]:
        side = self.ways[source][0] if source is not None else None
        ways = [self.ways[each] for each in wanted if each in self.ways and self.ways[each][0] != side]
        hops = {next(each for each in reversed(way) if each in self.standing | self.primary) for way in ways}
        return sorted(hop for hop in hops if not hops.intersection(self.ways[hop][:-1]))

    def knows(self, gateway: GatewayId) -> bool:
        return gateway in self.ways

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        return anchor if anchor in self.ways else neighbour

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        assert anchor is not None
        return anchor

    def handle(self, event: OverlayEvent, now: float) -> list[OverlayEffect]:
        if isinstance(event, OverlayStarted):
            return [OpenSoftLink(each) for each in self.opens]
        if isinstance(event, LinkStood) and event.gateway not in self.primary:
            (self.standing.add if event.up else self.standing.discard)(event.gateway)
            answers, self.answers = self.answers, []
            return answers
        return []


# ---- one node, all others played by hand -------------------------------------------------------------------------


class Woven(Gate):
    """A node with the neighbours A and B; behind A are NEAR, then FAR, and GUEST is behind B."""

    def __init__(self, *opens: GatewayId) -> None:
        ways = {NEAR: (A, NEAR), FAR: (A, NEAR, FAR), GUEST: (B, GUEST)}
        self.overlay = Path(US, [A, B], ways, opens)
        super().__init__(replace(parts_of(A, B), overlay=self.overlay, peers=[A, B, NEAR, FAR, GUEST]))
        self.up(A, B)
        self.guest_frames = 0
        for peer in opens:
            self.stand(peer)

    def stand(self, peer: GatewayId) -> list[Effect]:
        greeting = [each for each in self.handle(LinkConnected(neighbour=peer)) if isinstance(each, SendFrame)]
        assert [each.neighbour for each in greeting] == [peer]
        effects = self.ack(peer)
        assert self.node._soft_links.states()[peer] is SoftState.UP
        return effects

    def want(self, anchor: GatewayId, number: int = 1) -> None:
        self.hear(A, Announce(key(FAR, number), "a/#", "", anchor))

    def hear_guest(
        self, *messages: Message, conversation: Conversation = FIRST, guest: GatewayId = GUEST
    ) -> list[Effect]:
        frame = Frame(guest, conversation, self.guest_frames, messages)
        self.guest_frames += 1
        return self.handle(FramesReceived(sender=guest, frames=(encode(frame),)))

    def guests(self) -> "Woven":
        assert acks(self.hear_guest(Hello(None, True)), GUEST) == [(1, 0)]
        return self


def publications(effects: Sequence[Effect], peer: GatewayId) -> list[int]:
    return [each.sequence for each in sent(effects, peer) if isinstance(each, Publication)]


def numbers(effects: Sequence[Effect]) -> tuple[int, ...]:
    return tuple(each.number for each in effects if isinstance(each, PublishLocally) and each.number)


def test_a_publication_goes_over_a_soft_link_without_its_mark_and_is_acknowledged_when_that_end_is_done() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.publish(b"0")
    assert acknowledged(gate.ack(FAR, done=0)) == []
    assert acknowledged(gate.ack(FAR)) == [1]
    for _ in range(2):  # a fence, so that the mark rises
        gate.now += 1.0
        for effect in gate.handle(Woke()):
            if isinstance(effect, PublishFence):
                gate.handle(FencePassed(number=effect.number))
    effects = gate.publish(b"1")
    assert [each.low_water for each in sent(effects, FAR) if isinstance(each, Publication)] == [0]
    assert publications(effects, A) == []


def test_a_soft_link_that_breaks_gives_its_publications_to_the_primary_way() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.publish(b"0", b"1")
    assert acknowledged(gate.ack(FAR, done=1)) == [1]
    effects = gate.handle(LinkLost(neighbour=FAR))
    assert publications(effects, A) == [1]
    assert acknowledged(effects) == []
    assert acknowledged(gate.ack(A)) == [2]
    assert publications(gate.publish(b"2"), A) == [2]
    assert gate.counted("publications_rerouted") == {"": 1}


def test_what_a_guest_sent_is_done_when_it_is_delivered_and_not_before() -> None:
    gate = Woven().guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.answers_local = False
    effects = gate.hear_guest(publication(origin=GUEST))
    gate.now += ACK_DELAY_S
    assert acks(gate.handle(Woke()), GUEST) == [(2, 0)]
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), GUEST) == [(2, 1)]


def test_what_comes_again_another_way_while_we_hold_it_is_not_acknowledged_before_we_are_done() -> None:
    """Its sender has given the soft link up: if we crashed now, only the other way would bring it again."""
    gate = Woven().guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.answers_local = False
    effects = gate.hear_guest(publication(origin=GUEST))
    gate.hear(B, publication(origin=GUEST, hops=2))
    gate.now += ACK_DELAY_S
    came = gate.node._links[B]._arrivals.came
    assert acks(gate.handle(Woke()), B) == [(came, 0)]
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), B) == [(came, 1)]


def test_from_a_guest_only_publications_are_obeyed() -> None:
    gate = Woven().guests()
    effects = gate.hear_guest(Announce(key(GUEST, 1), "a/#", ""), Flush(GUEST, 1, 1))
    assert sent(effects, A) == sent(effects, B) == []
    assert gate.node.subscription_counts() == (0, 0)


def test_a_stranger_and_whoever_is_urgent_is_no_guest() -> None:
    gate = Woven()
    data = encode(Frame(GUEST, FIRST, 0, (Hello(None, True),)))
    assert acks(gate.handle(FramesReceived(sender=GUEST, frames=(data,), urgent=True)), GUEST) == []
    assert acks(gate.hear_guest(Hello(None, True), guest=GatewayId("NOBODY")), GatewayId("NOBODY")) == []
    assert gate.counted("frames_refused") == {"stranger": 2}


def test_a_gateway_without_a_map_takes_no_guests_for_it_would_send_back_what_they_bring() -> None:
    gate = Gate(replace(parts_of(A, B), peers=[A, B, GUEST])).up(A, B)
    data = encode(Frame(GUEST, FIRST, 0, (Hello(None, True),)))
    assert acks(gate.handle(FramesReceived(sender=GUEST, frames=(data,))), GUEST) == []
    assert gate.counted("frames_refused") == {"stranger": 1}


def test_soft_links_to_gateways_that_are_not_configured_are_refused() -> None:
    overlay = Path(US, [A], {}, [GatewayId("NOBODY")])
    gate = Gate(replace(parts_of(A), overlay=overlay, peers=[FAR]))
    assert gate.counted("links_refused") == {"unknown": 1}


def test_a_gateway_that_is_a_guest_may_have_a_soft_link_from_us_too() -> None:
    gate = Woven(GUEST).guests()
    gate.record(ANN, {"one": ("a/#", "")})
    gate.hear(B, Announce(key(GUEST, 1), "a/#", "", GUEST))
    effects = gate.publish(b"0")
    assert publications(effects, GUEST) == [0]
    effects = gate.hear_guest(publication(origin=GUEST))
    assert acks(effects, GUEST) == [(2, 1)]
    assert publications(effects, GUEST) == []
    assert acknowledged(gate.ack(GUEST)) == [1]


def test_what_leaves_the_map_is_matched_again_but_does_not_go_back_to_where_it_came_from() -> None:
    gate = Woven(FAR).guests()
    gate.want(FAR)
    gate.hear(B, Announce(key(B, 1), "a/#", ""))
    assert publications(gate.hear_guest(publication(7, origin=GUEST)), FAR) == [7]
    gate.hear(A, Announce(key(FAR, 1), "a/#", "", A))
    del gate.overlay.ways[FAR]
    effects = gate.handle(LinkLost(neighbour=FAR))
    assert publications(effects, A) == [7]
    assert publications(effects, B) == []
    assert acks(gate.ack(A), GUEST) == [(2, 1)]


def test_what_is_given_back_while_it_is_sent_another_way_goes_on_in_the_same_event() -> None:
    gate = Woven(FAR, NEAR)
    gate.want(FAR)
    gate.obliging.clear()
    incoming = tuple(Incoming(topic="a/b", payload=b"{}", qos=0) for _ in range(FLOW_QUEUE_MAX + 1))
    effects = gate.handle(PublishesReceived(publications=incoming))
    # Too much for FAR, then for NEAR; all of it goes to A at last.
    assert len(publications(effects, A)) == FLOW_QUEUE_MAX + 1
    assert publications(effects, FAR) == publications(effects, NEAR) == []
    assert gate.counted("links_crowded") == {"soft": 2}
    assert publications(gate.publish(b"1"), FAR) == []  # they stand again from now on
    assert publications(gate.publish(b"2"), FAR) == [FLOW_QUEUE_MAX + 2]


def test_an_overlay_that_names_a_link_that_it_closed_in_the_same_event_loses_nothing() -> None:
    gate = Woven(FAR, NEAR)
    gate.want(FAR)
    gate.publish(b"0")
    gate.overlay.answers = [CloseSoftLink(NEAR), AnchorsChanged()]
    effects = gate.handle(LinkLost(neighbour=FAR))  # told of this, it closes NEAR, and still names it
    assert CloseLink(neighbour=NEAR) in effects
    assert publications(effects, A) == [0]
    assert acknowledged(gate.ack(A)) == [1]


def test_a_wave_is_answered_behind_what_went_over_soft_links_before_the_last_answer() -> None:
    gate = Woven(FAR)
    gate.want(FAR)
    gate.hear(A, Flush(FAR, 1, 1))
    gate.hear(B, publication(3, origin=B))
    assert Flushed(FAR, 1, 1) not in sent(gate.hear(B, Flushed(FAR, 1, 1)), A)
    effects = gate.handle(LinkLost(neighbour=FAR))
    last = [each for each in sent(effects, A) if isinstance(each, Publication | Flushed)]
    assert [type(each) for each in last] == [Publication, Flushed]


@pytest.mark.parametrize("count", [0, 35])
def test_soft_links_that_an_event_does_not_touch_are_not_looked_at(count: int) -> None:
    peers = [GatewayId(f"P{number}") for number in range(count)]
    overlay = Path(US, [A], {peer: (A, peer) for peer in peers}, peers)
    gate = Gate(replace(parts_of(A), overlay=overlay, peers=peers)).up(A)
    for peer in peers:
        gate.handle(LinkConnected(neighbour=peer))
        gate.ack(peer)
    assert len(overlay.standing) == count
    gate.node._soft_links._links = dict.fromkeys(peers)  # type: ignore[assignment]
    gate.node.handle(LocallyPublished(numbers=()), gate.now)


# ---- several nodes, joined ---------------------------------------------------------------------------------------


class Chain:
    """Nodes in a row, each linked to the next, and a soft link from the first to the last.

    Frames and acknowledgements arrive in their order, brokers answer at once unless they are in `slow`; what is between
    two gateways in `cut` is lost. A broker keeps what its gateway has not acknowledged.
    """

    def __init__(self, *names: GatewayId) -> None:
        self.names = names
        self.now = 0.0
        self.cut: set[tuple[GatewayId, GatewayId]] = set()
        self.slow: set[GatewayId] = set()
        self.unanswered: dict[GatewayId, list[int]] = {name: [] for name in names}
        self.delivered: list[bytes] = []
        self.waiting: list[tuple[GatewayId, Event]] = []
        self.epochs = dict.fromkeys(names, 0)
        self.nodes: dict[GatewayId, Node] = {}
        self.done: list[int] = []
        self.receipts = 0
        self.answers_fences = True
        self.wakes: dict[GatewayId, float] = {}
        for name in names:
            self.start(name)
        self.pass_time(6.0)

    def start(self, name: GatewayId) -> None:
        self.epochs[name] += 1
        place = self.names.index(name)
        neighbours = self.names[max(0, place - 1) : place] + self.names[place + 1 : place + 2]
        ways = {each: self.names[place + 1 : place + 1 + hops] for hops, each in enumerate(self.names[place + 1 :], 1)}
        ways |= {each: self.names[index:place][::-1] for index, each in enumerate(self.names[:place])}
        opens = self.names[-1:] if place == 0 else ()
        self.nodes[name] = Node(
            NodeParts(
                gateway=name,
                epoch=self.epochs[name],
                neighbours=neighbours,
                matcher=ScanMatcher(),
                overlay=Path(name, neighbours, ways, opens),
                codecs=parts_of().codecs,
                peers=[each for each in self.names if each != name],
            ),
            self.now,
        )
        self.wakes.pop(name, None)
        self.unanswered[name] = []
        self.happen(name, Started())
        for neighbour in neighbours:
            self.happen(name, LinkConnected(neighbour=neighbour))
        if name == self.names[-1]:
            wishes = {"one": Wish(topics="a/#", where="")}
            self.happen(name, RecordReceived(client=ANN, data=encode_record(Record(subscriptions=wishes))))
        self.happen(name, RecordsRead())

    def happen(self, name: GatewayId, event: Event) -> None:
        self.waiting.append((name, event))

    def run(self) -> None:
        while self.waiting:
            name, event = self.waiting.pop(0)
            for effect in self.nodes[name].handle(event, self.now):
                self.carry_out(name, effect)
            self.nodes[name].check()

    def carry_out(self, name: GatewayId, effect: Effect) -> None:
        match effect:
            case SendFrame() if (name, effect.neighbour) not in self.cut:
                frames = FramesReceived(sender=name, frames=(effect.frame,), urgent=effect.urgent)
                self.happen(effect.neighbour, frames)
            case SendAck() if (effect.neighbour, name) not in self.cut:
                self.happen(effect.neighbour, AcksReceived(neighbour=name, acks=(effect.ack,)))
            case OpenLink() if (name, effect.neighbour) not in self.cut:
                self.happen(name, LinkConnected(neighbour=effect.neighbour))
            case PublishLocally():
                self.publish_locally(name, effect)
            case PublishFence() if self.answers_fences:
                self.happen(name, FencePassed(number=effect.number))
            case Acknowledge():
                self.done += effect.receipts
            case WakeAt():
                self.wakes[name] = effect.at

    def publish_locally(self, name: GatewayId, effect: PublishLocally) -> None:
        if "/park/" in effect.topic:
            peer = GatewayId(effect.topic.rsplit("/", 1)[1])
            self.receipts += 1
            self.happen(
                name, ParkedReceived(neighbour=peer, messages=(Parked(data=effect.payload, receipt=self.receipts),))
            )
        elif "/out/" in effect.topic and name not in self.slow:
            self.delivered.append(effect.payload)
        if effect.number and name in self.slow and "/out/" in effect.topic:
            self.unanswered[name].append(effect.number)
        elif effect.number:
            self.happen(name, LocallyPublished(numbers=(effect.number,)))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        self.run()
        while self.wakes and min(self.wakes.values()) <= end:
            name = min(self.wakes, key=lambda each: self.wakes[each])
            self.now = max(self.now, self.wakes.pop(name))
            self.happen(name, Woke())
            self.run()
        self.now = end

    def publish(self, payload: bytes, receipt: int, *, again: bool = False) -> None:
        incoming = Incoming(topic="a/b", payload=payload, qos=1, receipt=receipt, packet=receipt, again=again)
        self.happen(self.names[0], PublishesReceived(publications=(incoming,)))
        self.run()

    @property
    def first(self) -> Node:
        return self.nodes[self.names[0]]


ONE, TWO, THREE = (GatewayId(name) for name in ("ONE", "TWO", "THREE"))


def three() -> Chain:
    chain = Chain(ONE, TWO, THREE)
    assert chain.first._soft_links.states() == {THREE: SoftState.UP}
    return chain


def test_joined_it_is_acknowledged_upstream_only_after_the_far_gateway_delivered() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    assert chain.nodes[TWO].counters.total("publications_received") == 0
    assert chain.nodes[THREE].counters.total("publications_received") == 1
    assert chain.done == []
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(1.0)
    assert chain.done == [1]


def test_joined_a_soft_link_that_breaks_loses_nothing_and_doubles_nothing() -> None:
    chain = three()
    chain.publish(b"0", 1)
    chain.cut.add((ONE, THREE))
    chain.publish(b"1", 2)
    chain.pass_time(2.0)
    assert chain.done == [1]
    chain.happen(ONE, LinkLost(neighbour=THREE))
    chain.pass_time(2.0)
    assert chain.done == [1, 2]
    assert Counter(chain.delivered) == {b"0": 1, b"1": 1}
    chain.cut.clear()
    chain.happen(ONE, LinkConnected(neighbour=THREE))
    chain.pass_time(5.0)
    chain.publish(b"2", 3)
    chain.pass_time(1.0)
    assert Counter(chain.delivered) == {b"0": 1, b"1": 1, b"2": 1}
    assert chain.nodes[TWO].counters.total("publications_received") == 1
    assert not any(node.holdings().duties for node in chain.nodes.values())


def test_joined_only_the_acknowledgements_are_lost_and_nothing_comes_twice() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.happen(ONE, LinkLost(neighbour=THREE))  # what we sent has come, but we shall not hear of it
    chain.pass_time(1.0)
    assert chain.nodes[THREE].counters.total("duplicates") == 1
    assert chain.done == []  # the second way waits for THREE as the first did
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(1.0)
    assert chain.done == [1]
    assert len(chain.unanswered[THREE]) == 1


def test_joined_a_receiver_that_crashes_after_its_sender_gave_the_link_up_is_sent_it_again() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.happen(ONE, LinkLost(neighbour=THREE))
    chain.pass_time(1.0)
    chain.slow.clear()  # what its broker did not get is lost with it
    chain.start(THREE)
    chain.pass_time(40.0)
    assert chain.done == [1]
    assert chain.delivered == [b"0"]


@pytest.mark.parametrize("noticed", [False, True])
def test_joined_a_receiver_that_restarts_is_sent_it_again_and_the_link_stands_once_more(noticed: bool) -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.slow.clear()
    chain.start(THREE)
    if noticed:
        chain.happen(ONE, LinkLost(neighbour=THREE))
        chain.happen(ONE, LinkConnected(neighbour=THREE))
    chain.pass_time(40.0)
    assert chain.done == [1]
    assert chain.delivered == [b"0"]
    assert chain.first._soft_links.states() == {THREE: SoftState.UP}
    chain.publish(b"1", 2)
    chain.pass_time(1.0)
    assert chain.delivered == [b"0", b"1"]


def test_joined_a_sender_that_restarts_and_goes_another_way_waits_for_the_receiver_too() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.cut.add((ONE, THREE))
    chain.answers_fences = False  # its broker sends again what was not acknowledged, before it answers anything
    chain.start(ONE)
    chain.pass_time(6.0)
    chain.publish(b"0", 1, again=True)
    chain.pass_time(2.0)
    assert chain.nodes[TWO].counters.total("publications_received") == 1
    assert chain.done == []
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(2.0)
    assert chain.done == [1]
    assert len(chain.unanswered[THREE]) == 1
