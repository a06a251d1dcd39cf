"""The whole node: what is parked while a neighbour is away, and how a gateway starts."""

from collections.abc import Sequence

import pytest

from mqloom.core import layout
from mqloom.core.effects import (
    AcknowledgeParked,
    ClosePark,
    Effect,
    OpenPark,
    PublishFence,
    PublishLocally,
    ReleaseIntake,
)
from mqloom.core.events import (
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import Conversation, GatewayId, SubscriptionKey
from mqloom.core.limits import FLOW_QUEUE_MAX, HELD_BYTES_MAX, HELD_MAX, LINK_GRACE_S, LINK_WINDOW, MARKER_S
from mqloom.core.messages import Announce, Hello, Message, Synced
from mqloom.core.publication import Incoming, Publication
from mqloom.core.records import Record, Wish, encode_record
from mqloom.core.wire import Frame, decode, encode
from mqloom.gateway.interfaces import Content
from mqloom.gateway.node import Node
from mqloom.lab.gate import (
    ANN,
    FIRST,
    US,
    A,
    B,
    Gate,
    acknowledged,
    acks,
    key,
    parts_of,
    payloads,
    publication,
    sent,
    with_two,
)
from mqloom.plugins.scan_matcher import ScanMatcher

BACK = Conversation(1, 1)
"""The conversation, on either side, after the link was lost once."""


def parked(effects: Sequence[Effect], neighbour: GatewayId = A) -> list[bytes]:
    """Return what is put into a park, markers included."""
    topic = layout.park(US, neighbour)
    return [each.payload for each in effects if isinstance(each, PublishLocally) and each.topic == topic]


def numbers(effects: Sequence[Effect]) -> tuple[int, ...]:
    return tuple(each.number for each in effects if isinstance(each, PublishLocally) and each.number)


def contents(data: Sequence[bytes]) -> list[bytes]:
    """Return the payloads of the publications in messages of a park."""
    messages = [message for each in data for message in decode(each).messages]
    return [message.payload for message in messages if isinstance(message, Publication)]


def forwarded(effects: Sequence[Effect], neighbour: GatewayId = A) -> list[bytes]:
    return [each.payload for each in sent(effects, neighbour) if isinstance(each, Publication)]


def settled(effects: Sequence[Effect]) -> list[int]:
    return [receipt for each in effects if isinstance(each, AcknowledgeParked) for receipt in each.receipts]


def away() -> Gate:
    """Return a node one of whose neighbours wants everything, but has been away for too long."""
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    gate.handle(LinkLost(neighbour=A))
    gate.now += LINK_GRACE_S
    assert ClosePark(neighbour=A) in gate.handle(Woke())
    return gate


def come_back(gate: Gate, *messages: Message) -> list[Effect]:
    """Let the neighbour come back, and say this."""
    effects = gate.handle(LinkConnected(neighbour=A))
    for sequence, said in enumerate([(Hello(BACK, True),), messages] if messages else [(Hello(BACK, True),)]):
        frame = encode(Frame(A, BACK, sequence, tuple(said)))
        effects += gate.handle(FramesReceived(sender=A, frames=(frame,)))
    assert OpenPark(neighbour=A) in effects
    return effects


# ---- parking -----------------------------------------------------------------------------------------------------


def test_within_the_grace_what_waits_is_not_parked_and_past_it_is() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    gate.handle(LinkLost(neighbour=A))
    gate.now = LINK_GRACE_S - 0.1
    effects = gate.publish(b"1") + gate.publish(b"2") + gate.handle(Woke())
    assert parked(effects) == []
    assert acknowledged(effects) == []
    gate.answers_local = False
    gate.now = LINK_GRACE_S
    effects = gate.handle(Woke())
    assert contents(parked(effects)) == [b"1", b"2"]
    assert acknowledged(effects) == []
    assert acknowledged(gate.handle(LocallyPublished(numbers=numbers(effects)))) == [1, 2]


def test_a_neighbours_publication_is_done_when_it_is_parked_for_another() -> None:
    gate = away()
    gate.answers_local = False
    effects = gate.hear(B, publication(origin=B))
    assert len(parked(effects)) == 1
    came = gate.node._links[B]._arrivals.came
    assert acks(effects, B) == []
    assert acks(gate.handle(LocallyPublished(numbers=numbers(effects))), B) == [(came, 1)]


def test_the_park_is_drained_in_order_before_anything_newer() -> None:
    gate = away()
    first = parked(gate.publish(b"1", b"2"))
    second = parked(gate.publish(b"3"))
    (marker,) = parked(come_back(gate))
    behind = parked(gate.publish(b"4"))  # goes on into the park
    assert forwarded(gate.unpark(A, *first)) == [b"1", b"2"]
    assert forwarded(gate.unpark(A, *second)) == [b"3"]
    effects = gate.unpark(A, marker)
    assert forwarded(effects) == []
    (marker,) = parked(effects)
    assert forwarded(gate.publish(b"5")) == []  # little is left: it waits in memory
    assert forwarded(gate.unpark(A, *behind)) == [b"4"]
    assert forwarded(gate.unpark(A, marker)) == [b"5"]
    assert forwarded(gate.publish(b"6")) == [b"6"]


def test_what_came_out_of_the_park_is_acknowledged_there_when_the_neighbour_is_done() -> None:
    gate = away()
    data = parked(gate.publish(b"1", b"2")) + parked(gate.publish(b"3"))
    come_back(gate)
    receipt = next(gate.park_receipts)
    assert settled(gate.unpark(A, *data)) == []
    assert settled(gate.ack(A, done=1, ahead=(2,))) == []
    assert settled(gate.ack(A)) == [receipt + 1, receipt + 2]


def test_what_is_parked_comes_again_after_the_next_break_and_not_twice_from_memory() -> None:
    gate = away()
    data = parked(gate.publish(b"1"))
    come_back(gate)
    assert forwarded(gate.unpark(A, *data)) == [b"1"]
    again = Conversation(1, 2)
    frames = [Frame(A, again, 0, (Hello(heard, True),)) for heard in (BACK, again)]
    effects = gate.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames))))
    assert [each for each in effects if isinstance(each, OpenPark | ClosePark)] == [
        ClosePark(neighbour=A),
        OpenPark(neighbour=A),
    ]
    assert forwarded(effects) == []
    assert forwarded(gate.unpark(A, *data)) == [b"1"]
    assert len(settled(gate.ack(A))) == 1


def test_a_marker_that_is_lost_is_written_again() -> None:
    gate = away()
    come_back(gate)
    gate.obliging = {A, B}
    gate.ack(A)
    gate.ack(B)
    gate.now += MARKER_S
    (marker,) = parked(gate.handle(Woke()))
    assert decode(marker).conversation.number == 3
    gate.unpark(A, marker)
    assert forwarded(gate.publish(b"{}")) == [b"{}"]


def test_what_is_too_much_for_a_slow_neighbour_is_parked() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    gate.publish(*[b"{}"] * (LINK_WINDOW + FLOW_QUEUE_MAX))
    assert gate.counted("flows_parked") == {}
    effects = gate.publish(b"last")
    assert gate.counted("flows_parked") == {"queue": 1}
    assert contents(parked(effects))[-1] == b"last"
    assert gate.node.counters.total("publications_parked") == FLOW_QUEUE_MAX + 1
    assert acknowledged(effects) == []  # behind those that are on their way
    assert len(acknowledged(gate.ack(A))) == LINK_WINDOW + FLOW_QUEUE_MAX + 1


def test_a_publication_of_qos_0_in_the_park_does_not_shift_the_places_of_the_others() -> None:
    gate = with_two()
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    forged = tuple(Publication(US, 1, number, 0, 1, "a/b", b"%d" % qos, qos) for number, qos in ((90, 0), (91, 1)))
    gate.unpark(A, encode(Frame(US, Conversation(1, 0), 1_000, forged)))
    gate.publish(b"2")
    assert acknowledged(gate.ack(A, done=1)) == []  # of two publications of QoS 1 one is done, and not the last
    assert acknowledged(gate.ack(A, done=2)) == [1]


class Poisoned(ScanMatcher):
    """A matcher that fails on one topic, once it is told to."""

    fails = False

    def match(self, batch: Sequence[Content]) -> list[list[SubscriptionKey]]:
        if self.fails and any(content.topic == "a/poison" for content in batch):
            raise RuntimeError("a bug")
        return super().match(batch)


def test_a_dead_letter_out_of_the_park_is_acknowledged_there_when_our_own_broker_has_it() -> None:
    matcher = Poisoned()
    gate = Gate(parts_of(A, matcher=matcher)).up(A)
    gate.hear(A, Announce(key(A, 1), "a/#", ""))
    gate.ack(A)
    gate.handle(LinkLost(neighbour=A))
    gate.now += LINK_GRACE_S
    gate.handle(Woke())
    data = parked(gate.publish(b"bad", topic="a/poison"))
    come_back(gate)
    gate.answers_local = False
    matcher.fails = True
    effects = gate.unpark(A, *data)
    assert forwarded(effects) == []
    assert settled(effects) == []
    assert gate.node.counters.total("publications_dead") == 1
    assert len(settled(gate.handle(LocallyPublished(numbers=numbers(effects))))) == 1


# ---- neighbours from which we have not heard ---------------------------------------------------------------------


def test_a_neighbour_that_has_not_said_everything_gets_everything_of_qos_1() -> None:
    gate = Gate(parts_of(A))
    gate.handle(LinkConnected(neighbour=A))
    gate.handle(FramesReceived(sender=A, frames=(encode(Frame(A, FIRST, 0, (Hello(FIRST, True),))),)))
    gate.marker_back(A)
    assert forwarded(gate.publish(b"{}", topic="nobody/asked")) == [b"{}"]
    effects = gate.handle(PublishesReceived(publications=(Incoming(topic="nobody/asked", payload=b"0"),)))
    assert forwarded(effects) == []
    gate.handle(FramesReceived(sender=A, frames=(encode(Frame(A, FIRST, 1, (Synced(),))),)))
    assert forwarded(gate.publish(b"{}", topic="nobody/asked")) == []


def test_what_was_parked_for_a_neighbour_that_had_said_nothing_is_sifted_when_it_has() -> None:
    gate = Gate(parts_of(A))
    gate.now = LINK_GRACE_S
    gate.handle(Woke())
    data = parked(gate.publish(b'{"x": 1}', b'{"x": 9}') + gate.publish(b'{"x": 2}'))
    assert len(data) == 2
    gate.handle(LinkConnected(neighbour=A))
    frames = [
        Frame(A, FIRST, 0, (Hello(FIRST, True),)),
        Frame(A, FIRST, 1, (Announce(key(A, 1), "a/#", "x > 5"), Synced())),
    ]
    gate.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames))))
    effects = gate.unpark(A, *data)
    assert forwarded(effects) == [b'{"x": 9}']
    assert settled(effects) == []
    assert len(settled(gate.ack(A))) == 2


def test_what_comes_out_of_the_park_before_a_neighbour_has_said_everything_all_goes_out() -> None:
    gate = Gate(parts_of(A))
    gate.now = LINK_GRACE_S
    gate.handle(Woke())
    data = parked(gate.publish(b"{}"))
    gate.handle(LinkConnected(neighbour=A))
    gate.handle(FramesReceived(sender=A, frames=(encode(Frame(A, FIRST, 0, (Hello(FIRST, True),))),)))
    assert forwarded(gate.unpark(A, *data)) == [b"{}"]


# ---- the start ---------------------------------------------------------------------------------------------------


def test_the_intake_is_released_when_records_are_read_and_every_neighbour_has_said_everything() -> None:
    gate = Gate(parts_of(A, B))
    for neighbour in (A, B):
        gate.handle(LinkConnected(neighbour=neighbour))
        hello = encode(Frame(neighbour, FIRST, 0, (Hello(FIRST, True),)))
        assert ReleaseIntake() not in gate.handle(FramesReceived(sender=neighbour, frames=(hello,)))
    effects = gate.handle(FramesReceived(sender=A, frames=(encode(Frame(A, FIRST, 1, (Synced(),))),)))
    assert ReleaseIntake() not in effects
    effects = gate.handle(FramesReceived(sender=B, frames=(encode(Frame(B, FIRST, 1, (Synced(),))),)))
    assert [each for each in effects if isinstance(each, ReleaseIntake | PublishFence)] == [
        PublishFence(number=0),
        ReleaseIntake(),
    ]


def test_the_intake_is_released_when_the_others_are_given_up() -> None:
    gate = Gate(parts_of(A, B)).up(A)
    gate.now = LINK_GRACE_S
    assert ReleaseIntake() in gate.handle(Woke())


def test_without_its_records_a_gateway_waits_however_long_it_takes() -> None:
    node = Node(parts_of(), 0.0)
    assert ReleaseIntake() not in node.handle(Started(), 0.0)
    assert ReleaseIntake() not in node.handle(Woke(), 10 * LINK_GRACE_S)
    assert ReleaseIntake() in node.handle(RecordsRead(), 10 * LINK_GRACE_S)
    assert ReleaseIntake() not in node.handle(RecordsRead(), 10 * LINK_GRACE_S)


def starting(*publications: Publication) -> tuple[Node, list[Effect]]:
    """Return a node that has not read its records, and what it did about what a neighbour sent."""
    node = Node(parts_of(A), 0.0)
    node.handle(Started(), 0.0)
    node.handle(LinkConnected(neighbour=A), 0.0)
    frames = (Frame(A, FIRST, 0, (Hello(FIRST, True),)), Frame(A, FIRST, 1, publications))
    return node, node.handle(FramesReceived(sender=A, frames=tuple(map(encode, frames))), 0.0)


def test_what_neighbours_send_before_the_records_are_read_waits_for_them() -> None:
    node, effects = starting(publication(0, b"1"), publication(1, b"2"))
    assert payloads(effects) == []
    assert acks(effects, A) == [(2, 0)]
    record = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame")
    node.handle(RecordReceived(client=ANN, data=encode_record(record)), 0.1)
    effects = node.handle(RecordsRead(), 0.2)
    assert payloads(effects) == [b"1", b"2"]
    assert acks(node.handle(LocallyPublished(numbers=numbers(effects)), 0.3), A) == [(2, 2)]


@pytest.mark.parametrize(("bound", "count"), [("HELD_MAX", 3), ("HELD_BYTES_MAX", 3)])
def test_past_the_bound_only_publications_of_qos_0_are_dropped_at_the_start(
    bound: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert min(HELD_MAX, HELD_BYTES_MAX) > count
    monkeypatch.setattr(f"mqloom.gateway.early.{bound}", count)
    lost = [Publication(A, 1, number, 0, 1, "a/b", b"0", 0) for number in range(5)]
    node, _ = starting(*lost, publication(7, b"1"))
    record = Record(subscriptions={"one": Wish(topics="a/#")}, format="frame")
    node.handle(RecordReceived(client=ANN, data=encode_record(record)), 0.1)
    assert payloads(node.handle(RecordsRead(), 0.2)) == [b"0"] * count + [b"1"]
    assert node.counters.reasons("publications_dropped") == {"start": 5 - count}
