"""The receiving end: frames in order, and what is acknowledged of them."""

import pytest

from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S
from mqloom.core.messages import Message, Synced
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode_ack
from mqloom.gateway.arrivals import Arrivals

US, THEM = GatewayId("US"), GatewayId("THEM")
THEIRS = Conversation(1, 0)


def publication(qos: int = 1) -> Publication:
    return Publication(THEM, 1, 0, 0, 0, "t", b"", qos)


def frame(sequence: int, *messages: Message, conversation: Conversation = THEIRS) -> Frame:
    return Frame(THEM, conversation, sequence, messages)


def told(arrivals: Arrivals, now: float = 0.0) -> tuple[int, int] | None:
    data = arrivals.ack(US, now)
    if data is None:
        return None
    ack = decode_ack(data)
    assert ack == Ack(US, THEIRS, ack.received, ack.done)
    return ack.received, ack.done


def begun() -> Arrivals:
    arrivals = Arrivals()
    arrivals.begin(THEIRS)
    assert told(arrivals) == (1, 1)
    return arrivals


def test_before_a_conversation_nothing_is_taken_or_acknowledged() -> None:
    arrivals = Arrivals()
    assert not arrivals.take(frame(0), 0.0)
    assert told(arrivals, 99.0) is None
    assert arrivals.deadline is None


@pytest.mark.parametrize("sequence", [0, 2, 9])
def test_only_the_next_frame_is_taken_and_the_sender_told_where_we_are(sequence: int) -> None:
    arrivals = begun()
    assert not arrivals.take(frame(sequence), 3.0)
    assert arrivals.deadline == 3.0
    assert told(arrivals, 3.0) == (1, 1)
    assert arrivals.deadline is None


def test_a_frame_of_another_conversation_is_not_answered() -> None:
    arrivals = begun()
    assert not arrivals.take(frame(1, conversation=Conversation(1, 1)), 0.0)
    assert arrivals.deadline is None


def test_a_frame_without_publications_is_done_when_it_has_come() -> None:
    arrivals = begun()
    assert arrivals.take(frame(1, Synced(), publication(qos=0)), 0.0)
    assert told(arrivals) == (2, 2)


def test_that_a_frame_has_come_waits_a_while_to_be_told() -> None:
    arrivals = begun()
    assert arrivals.take(frame(1, publication()), 1.0)
    assert arrivals.take(frame(2, publication()), 1.1)
    assert arrivals.deadline == 1.0 + ACK_DELAY_S
    assert told(arrivals, 1.1) is None
    assert told(arrivals, 1.0 + ACK_DELAY_S) == (3, 1)


def test_a_frame_is_done_with_its_last_publication_and_told_at_once() -> None:
    arrivals = begun()
    arrivals.take(frame(1, publication(), Synced(), publication(), publication(qos=0)), 0.0)
    arrivals.taken_care_of(1)
    assert arrivals.done == 1
    assert told(arrivals) is None
    arrivals.taken_care_of(1)
    assert told(arrivals) == (2, 2)
    assert told(arrivals) is None
    arrivals.check()


def test_frames_are_done_in_order_and_those_without_publications_with_the_one_before() -> None:
    arrivals = begun()
    contents: list[tuple[Message, ...]] = [(publication(),), (), (publication(),), (Synced(),)]
    for sequence, messages in enumerate(contents, 1):
        arrivals.take(frame(sequence, *messages), 0.0)
    arrivals.taken_care_of(3)
    assert arrivals.done == 1
    arrivals.check()
    arrivals.taken_care_of(1)
    assert told(arrivals) == (5, 5)
    arrivals.check()


def test_a_new_conversation_forgets_what_was_open() -> None:
    arrivals = begun()
    arrivals.take(frame(1, publication()), 0.0)
    arrivals.begin(Conversation(2, 0))
    assert (arrivals.came, arrivals.done, arrivals.deadline) == (1, 1, None)
    arrivals.check()


@pytest.mark.parametrize("sequence", [1, 3])
def test_what_was_not_open_cannot_be_taken_care_of(sequence: int) -> None:
    arrivals = begun()
    for number in (1, 2, 3):
        arrivals.take(frame(number, *[publication()] * (number == 2)), 0.0)
    with pytest.raises((AssertionError, IndexError)):
        arrivals.taken_care_of(sequence)
