"""Whole nodes of a federation with a key, and a hostile client that can write to every topic and has recorded all."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from mqloom.core import layout
from mqloom.core.effects import Effect, Heard, Log, OpenPark, PublishLocally, SendAck, SendFrame, WakeAt
from mqloom.core.events import (
    AcksReceived,
    Asked,
    Event,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Ordered,
    Parked,
    ParkedReceived,
    PlaceRead,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import ClientId, Conversation, GatewayId
from mqloom.core.limits import ANSWERS_BURST
from mqloom.core.messages import Hello, Parting
from mqloom.core.publication import Incoming
from mqloom.core.records import Order, Question, Record, Status, Wish, encode_order, encode_question, encode_record
from mqloom.core.seals import Key, Keyring, key_of, seal_kept, seal_request
from mqloom.core.wire import Ack, Frame, encode, encode_ack
from mqloom.gateway.links import LinkState
from mqloom.gateway.node import Node
from mqloom.gateway.pace import Pace
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.gateway.sealing import SealParts
from mqloom.lab.gate import ANN, parts_of
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

A, B = GatewayId("A"), GatewayId("B")
KEY = key_of(b"k" * 32)
RECORD = encode_record(Record(subscriptions={"all": Wish(topics="a/#")}))
OPERATOR = ClientId("operator")


def node_of(name: GatewayId, other: GatewayId, epoch: int, now: float, key: Key | None = KEY) -> Node:
    parts = replace(
        parts_of(),
        gateway=name,
        epoch=epoch,
        neighbours=(other,),
        matcher=ScanMatcher(),
        overlay=TreeOverlay(name, (other,)),
        seals=None if key is None else SealParts(Keyring(key), f"{name}{epoch}".encode().ljust(16, b".")),
    )
    return Node(parts, now)


@dataclass
class Pair:
    """Two gateways joined back to back; everything that crosses is recorded, as events of its receiver."""

    now: float = 0.0
    nodes: dict[GatewayId, Node] = field(default_factory=dict)
    recorded: list[tuple[GatewayId, Event]] = field(default_factory=list)
    delivered: list[bytes] = field(default_factory=list)
    wakes: dict[GatewayId, float] = field(default_factory=dict)
    waiting: list[tuple[GatewayId, Event]] = field(default_factory=list)
    parked: dict[GatewayId, list[bytes]] = field(default_factory=dict)
    receipts: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def start(self, name: GatewayId, epoch: int, key: Key | None = KEY) -> None:
        other = B if name == A else A
        self.nodes[name] = node_of(name, other, epoch, self.now, key)
        self.happen(name, Started())
        self.happen(name, PlaceRead(data=b""))
        if name == B:
            self.happen(name, RecordReceived(client=ANN, data=RECORD))
        self.happen(name, RecordsRead())
        self.happen(name, LinkConnected(neighbour=other))

    def happen(self, name: GatewayId, event: Event) -> list[Effect]:
        """Let something happen, and everything that follows; return what its gateway did at first."""
        self.waiting.append((name, event))
        firsts: list[list[Effect]] = []
        while self.waiting:
            name, event = self.waiting.pop(0)
            if name not in self.nodes:
                continue
            effects = self.nodes[name].handle(event, self.now)
            self.nodes[name].check()
            firsts.append(effects)
            for effect in effects:
                self.carry_out(name, effect)
        return firsts[0] if firsts else []

    def carry_out(self, name: GatewayId, effect: Effect) -> None:
        match effect:
            case SendFrame():
                frames = FramesReceived(sender=name, frames=(effect.frame,), urgent=effect.urgent)
                self.cross(effect.neighbour, frames)
            case SendAck():
                self.cross(effect.neighbour, AcksReceived(neighbour=name, acks=(effect.ack,)))
            case PublishLocally():
                self.published(name, effect)
            case OpenPark():
                self.unpark(name, self.parked.get(name, []))
            case WakeAt():
                self.wakes[name] = effect.at

    def published(self, name: GatewayId, effect: PublishLocally) -> None:
        if "/out/" in effect.topic:
            self.delivered.append(effect.payload)
        elif "/park/" in effect.topic:
            self.parked.setdefault(name, []).append(effect.payload)
            self.unpark(name, [effect.payload])
        if effect.number:
            self.waiting.append((name, LocallyPublished(numbers=(effect.number,))))

    def unpark(self, name: GatewayId, payloads: list[bytes]) -> None:
        other = B if name == A else A
        messages = tuple(Parked(data=data, receipt=next(self.receipts)) for data in payloads)
        self.waiting.append((name, ParkedReceived(neighbour=other, messages=messages)))

    def cross(self, to: GatewayId, event: Event) -> None:
        self.recorded.append((to, event))
        self.waiting.append((to, event))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.wakes and min(self.wakes.values()) <= end:
            name = min(self.wakes, key=self.wakes.__getitem__)
            self.now = max(self.now, self.wakes.pop(name))
            self.happen(name, Woke())
        self.now = end

    def are_up(self) -> bool:
        return all(state is LinkState.UP for node in self.nodes.values() for state in node.link_states().values())

    def publish(self, payload: bytes) -> None:
        receipt = next(self.receipts)
        incoming = Incoming(topic="a/b", payload=payload, qos=1, receipt=receipt, packet=receipt)
        self.happen(A, PublishesReceived(publications=(incoming,)))


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    pair.start(A, 1)
    pair.start(B, 1)
    pair.pass_time(5.0)
    assert pair.are_up()
    pair.publish(b"first")
    assert pair.delivered == [b"first"]
    return pair


def quiet(effects: list[Effect]) -> bool:
    """Whether nothing was done: a log line at most."""
    return all(isinstance(effect, Log) for effect in effects)


def attacked(pair: Pair, name: GatewayId, event: Event) -> dict[str, int]:
    """Let a hostile client do something; return what it changed in the counters, and in nothing else."""
    node = pair.nodes[name]
    before = node.counters.snapshot()
    effects = node.handle(event, pair.now)
    assert quiet(effects), effects
    assert pair.are_up()
    after = node.counters.snapshot()
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


def test_every_recorded_message_again_changes_a_counter_and_nothing_else(pair: Pair) -> None:
    for name, event in list(pair.recorded):
        assert attacked(pair, name, event) == {"frames_refused.replayed": 1}
    pair.publish(b"second")
    assert pair.delivered == [b"first", b"second"]
    assert pair.nodes[A].counters.total("link_resets") == pair.nodes[B].counters.total("link_resets") == 0


FORGED: dict[str, Callable[[], Event]] = {
    "a greeting": lambda: frames(Hello(None, True)),
    "a farewell": lambda: frames(Parting(9)),
    "an urgent frame": lambda: FramesReceived(
        sender=A, frames=(encode(Frame(A, Conversation(1, 0), 9, ())),), urgent=True
    ),
    "an acknowledgement": lambda: acks(Ack(A, Conversation(1, 0), 1, 1)),
    "a parting": lambda: acks(Ack(A, Conversation(1, 0), 0, 0, (), 5)),
}


def frames(message: Hello | Parting) -> Event:
    return FramesReceived(sender=A, frames=(encode(Frame(A, Conversation(9, 0), 0, (message,))),))


def acks(ack: Ack) -> Event:
    return AcksReceived(neighbour=A, acks=(encode_ack(ack),))


@pytest.mark.parametrize("what", FORGED)
def test_an_unsealed_message_changes_a_counter_and_nothing_else(pair: Pair, what: str) -> None:
    assert attacked(pair, B, FORGED[what]()) == {"frames_refused.unsealed": 1}


def test_a_message_sealed_with_another_key_changes_a_counter_and_nothing_else(pair: Pair) -> None:
    stranger = node_of(A, B, 9, pair.now, key_of(b"?" * 32))
    stranger.handle(Started(), pair.now)
    stranger.handle(PlaceRead(data=b""), pair.now)
    said = stranger.handle(LinkConnected(neighbour=B), pair.now)
    [frame] = [effect.frame for effect in said if isinstance(effect, SendFrame)]
    assert attacked(pair, B, FramesReceived(sender=A, frames=(frame,))) == {"frames_refused.key": 1}
    forged = frame[:1] + KEY.id + frame[5:]
    assert attacked(pair, B, FramesReceived(sender=A, frames=(forged,))) == {"frames_refused.forged": 1}


def test_one_forged_frame_among_good_ones_does_not_hold_them_up(pair: Pair) -> None:
    sealing = pair.nodes[A].sealing
    assert sealing is not None
    good = [SendFrame(neighbour=B, frame=encode(Frame(A, Conversation(1, 0), 9, ()))) for _ in range(2)]
    first, second = (effect.frame for effect in sealing.sealed(good) if isinstance(effect, SendFrame))
    pair.nodes[B].handle(FramesReceived(sender=A, frames=(first, b"Sforged", second)), pair.now)
    assert pair.nodes[B].counters.reasons("frames_refused") == {"malformed": 1}
    assert pair.nodes[B].counters.total("frames_stale") == 2  # both came in, and were read


def test_whoever_is_in_no_configuration_is_a_stranger(pair: Pair) -> None:
    event = FramesReceived(sender=GatewayId("X"), frames=(b"S" + bytes(100),))
    assert attacked(pair, B, event) == {"frames_refused.stranger": 1}


def test_a_sealed_frame_says_that_its_sender_is_alive_and_a_forged_one_does_not(pair: Pair) -> None:
    effects = pair.nodes[B].handle(FORGED["a greeting"](), pair.now)
    assert not any(isinstance(effect, Heard) for effect in effects)
    sealing = pair.nodes[A].sealing
    assert sealing is not None
    [frame] = sealing.sealed([SendFrame(neighbour=B, frame=encode(Frame(A, Conversation(1, 0), 9, ())))])
    assert isinstance(frame, SendFrame)
    effects = pair.nodes[B].handle(FramesReceived(sender=A, frames=(frame.frame,)), pair.now)
    assert Heard(neighbour=A) in effects


@pytest.mark.parametrize("name", [A, B])
def test_after_a_restart_the_link_is_up_at_once_and_nothing_recorded_counts(pair: Pair, name: GatewayId) -> None:
    recorded = list(pair.recorded)
    pair.start(name, 2)
    assert pair.are_up()
    for receiver, event in recorded:
        assert attacked(pair, receiver, event) == {"frames_refused.replayed": 1}
    pair.pass_time(5.0)
    pair.publish(b"second")
    assert pair.delivered[-1] == b"second"


def test_recorded_greetings_to_one_that_has_just_started_are_challenged_and_no_more() -> None:
    pair = Pair()
    pair.start(A, 1)
    pair.start(B, 1)
    greeting = next(event for to, event in pair.recorded if to == B and isinstance(event, FramesReceived))
    again = Pair(now=pair.now)
    again.start(B, 2)
    effects = again.nodes[B].handle(greeting, again.now)
    assert [type(effect) for effect in effects if not isinstance(effect, Log)] == [SendAck]
    assert again.nodes[B].link_states() == {A: LinkState.CONNECTING}
    assert again.nodes[B].counters.total("frames_challenged") == 1
    assert quiet(again.nodes[B].handle(greeting, again.now))


def test_with_a_key_at_one_side_only_both_say_what_is_wrong() -> None:
    pair = Pair()
    pair.start(A, 1)
    pair.start(B, 1, key=None)
    pair.pass_time(3.0)
    assert pair.nodes[A].counters.reasons("frames_refused").keys() == {"unsealed"}
    assert pair.nodes[B].counters.reasons("frames_refused").keys() == {"sealed"}


# ---- orders, questions, and what a gateway keeps -----------------------------------------------------------------


def move(number: int, epoch: int = 1, key: Key = KEY, client: ClientId = OPERATOR) -> Ordered:
    order = encode_order(Order(number=1, move_to=GatewayId("C")))
    return Ordered(client=client, data=seal_request(key, layout.order(A, OPERATOR), epoch, number, order))


def test_an_order_is_obeyed_once_and_only_with_a_seal(pair: Pair) -> None:
    def refused() -> dict[str, int]:
        return pair.nodes[A].counters.reasons("moves_refused")

    pair.happen(A, Ordered(client=OPERATOR, data=encode_order(Order(number=1, move_to=GatewayId("C")))))
    assert refused() == {"unsealed": 1}
    pair.happen(A, move(10))
    assert refused() == {"unsealed": 1, "order": 1}  # it came in; there is no C
    pair.happen(A, move(10))
    pair.happen(A, move(11, epoch=2))
    pair.happen(A, move(12, client=ClientId("another")))
    pair.happen(A, move(13, key=key_of(b"?" * 32)))
    assert refused() == {"unsealed": 1, "order": 1, "replayed": 1, "outdated": 1, "forged": 1, "key": 1}


def test_who_orders_or_asks_without_a_seal_is_told_what_to_do(pair: Pair) -> None:
    question = encode_question(Question(number=1, topic="a/b"))
    for event in (Asked(client=OPERATOR, data=question), Ordered(client=OPERATOR, data=b"{}")):
        [answer] = [each for each in pair.happen(A, event) if isinstance(each, PublishLocally)]
        assert answer.topic == layout.control(A, OPERATOR)
        assert b"key_file" in answer.payload
    sealed = seal_request(KEY, layout.question(A, OPERATOR), 1, 1, question)
    [answer] = [
        each for each in pair.happen(A, Asked(client=OPERATOR, data=sealed)) if isinstance(each, PublishLocally)
    ]
    assert b'"answer":"route"' in answer.payload
    assert pair.nodes[A].counters.reasons("questions_refused") == {"unsealed": 1}


def test_orders_and_questions_without_a_seal_are_answered_at_a_pace_and_not_by_qos_1() -> None:
    parts = replace(parts_of(), seals=SealParts(Keyring(KEY), b"n" * 16), pace=Pace())
    node = Node(parts, 0.0)
    answers: list[PublishLocally] = []
    for number in range(ANSWERS_BURST):
        client = ClientId(f"hostile-{number}")
        for event in (Ordered(client=client, data=b"{}"), Asked(client=client, data=b"{}")):
            answers += (each for each in node.handle(event, 0.0) if isinstance(each, PublishLocally))
    assert len(answers) == ANSWERS_BURST
    assert {each.qos for each in answers} == {0}
    assert node.counters.value("moves_refused", "unsealed") == ANSWERS_BURST
    assert node.counters.value("questions_refused", "unsealed") == ANSWERS_BURST
    later = node.handle(Ordered(client=OPERATOR, data=b"{}"), 1.0)
    assert [each.topic for each in later if isinstance(each, PublishLocally)] == [
        layout.control(parts.gateway, OPERATOR)
    ]


def test_what_somebody_else_put_into_a_park_or_a_place_is_not_used() -> None:
    pair = Pair()
    pair.nodes[A] = node_of(A, B, 1, 0.0)
    for data in (b"{}", seal_kept(KEY, layout.place(B), b"{}")):
        pair.happen(A, PlaceRead(data=data))
    assert pair.nodes[A].counters.reasons("places_refused") == {"unsealed": 1, "forged": 1}


def test_what_is_parked_comes_back_and_what_somebody_else_parked_does_not(pair: Pair) -> None:
    del pair.nodes[B]
    pair.parked.clear()
    pair.happen(A, LinkLost(neighbour=B))
    pair.pass_time(10.0)
    pair.publish(b"kept")
    assert any(b"kept" in data for data in pair.parked[A])
    pair.parked[A].insert(0, encode(Frame(A, Conversation(1, 0), 0, ())))
    pair.start(B, 2)
    pair.happen(A, LinkConnected(neighbour=B))
    pair.pass_time(40.0)
    assert pair.delivered.count(b"kept") == 1
    assert pair.nodes[A].counters.reasons("frames_refused")["unsealed"] >= 1


def test_what_was_recorded_in_a_park_and_is_written_there_again_reaches_nobody(pair: Pair) -> None:
    del pair.nodes[B]
    pair.parked.clear()
    pair.happen(A, LinkLost(neighbour=B))
    pair.pass_time(10.0)
    pair.publish(b"kept")
    recorded = list(pair.parked[A])
    pair.start(B, 2)
    pair.happen(A, LinkConnected(neighbour=B))
    pair.pass_time(40.0)
    assert pair.delivered.count(b"kept") == 1
    pair.start(B, 3)  # who has forgotten whatever it had
    pair.parked.clear()
    pair.happen(A, LinkLost(neighbour=B))
    pair.happen(A, LinkConnected(neighbour=B))
    pair.pass_time(40.0)
    assert pair.are_up()
    before = pair.nodes[A].counters.value("frames_refused", "replayed")
    pair.unpark(A, recorded)
    pair.pass_time(1.0)
    pair.publish(b"next")
    assert pair.delivered.count(b"next") == 1
    assert pair.delivered.count(b"kept") == 1
    assert pair.nodes[A].counters.value("frames_refused", "replayed") == before + len(recorded)
    pair.start(A, 9)  # and so it is when we have forgotten it, too
    pair.start(B, 4)
    for name, other in ((A, B), (B, A)):
        pair.happen(name, LinkConnected(neighbour=other))
    pair.pass_time(40.0)
    pair.unpark(A, recorded)
    pair.pass_time(1.0)
    pair.publish(b"last")
    assert pair.delivered.count(b"last") == 1
    assert pair.delivered.count(b"kept") == 1


def test_a_status_is_believed_with_its_seal_only(pair: Pair) -> None:
    sealing, other = pair.nodes[A].sealing, pair.nodes[B].sealing
    assert sealing is not None
    assert other is not None
    status = Status(alive=True, gateway=A, version="1", epoch=1)
    signed = sealing.signed(status)
    assert other.believes(signed)
    assert not other.believes(status)
    assert not other.believes(Status(alive=False, gateway=A, version="1", epoch=1, seal=signed.seal))
    assert pair.nodes[B].counters.reasons("frames_refused") == {"forged": 1, "unsealed": 1}


def test_keys_change_while_a_conversation_goes_on(pair: Pair) -> None:
    new = key_of(b"n" * 32)
    for keyring in (Keyring(KEY, (new,)), Keyring(new, (KEY,)), Keyring(new, retired=(KEY,))):
        for name in (A, B):
            codecs = parts_of().codecs
            again = Reconfigured(codecs=codecs, standing=(), federate=(), data=("#",), keyring=keyring)
            for effect in pair.nodes[name].handle(again, pair.now):
                pair.carry_out(name, effect)
            pair.publish(f"{name} has {keyring.sending.name}".encode())
    assert len(pair.delivered) == 7
    assert pair.nodes[A].counters.total("frames_refused") == pair.nodes[B].counters.total("frames_refused") == 0
