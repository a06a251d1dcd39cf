"""The receiving end: frames in order, and what is acknowledged of them."""

import pytest

from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S, ACK_PLACES_MAX
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


def told(arrivals: Arrivals, now: float = 0.0) -> tuple[int, ...] | None:
    """Return how many frames have come, how many publications are done, and which are ahead of that."""
    data = arrivals.ack(US, now)
    if data is None:
        return None
    ack = decode_ack(data)
    assert ack == Ack(US, THEIRS, ack.received, ack.done, ack.ahead)
    return ack.received, ack.done, *ack.ahead


def begun() -> Arrivals:
    arrivals = Arrivals()
    arrivals.begin(THEIRS)
    assert told(arrivals) == (1, 0)
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
    assert told(arrivals, 3.0) == (1, 0)
    assert told(arrivals, 3.0) is None


def test_a_frame_of_another_conversation_is_not_answered() -> None:
    arrivals = begun()
    assert not arrivals.take(frame(1, conversation=Conversation(1, 1)), 0.0)
    assert arrivals.deadline is None


def test_that_a_frame_has_come_waits_a_while_to_be_told() -> None:
    arrivals = begun()
    assert arrivals.take(frame(1, publication()), 1.0)
    assert arrivals.take(frame(2, Synced()), 1.1)
    assert arrivals.deadline == 1.0 + ACK_DELAY_S
    assert told(arrivals, 1.1) is None
    assert told(arrivals, 1.0 + ACK_DELAY_S) == (3, 0)
    assert arrivals.deadline is None


def test_publications_of_qos_1_have_places_over_all_frames_and_nothing_else_has() -> None:
    arrivals = begun()
    contents: list[tuple[Message, ...]] = [(publication(), publication(qos=0), publication()), (), (publication(2),)]
    for sequence, messages in enumerate(contents, 1):
        arrivals.take(frame(sequence, *messages), 0.0)
    assert arrivals.places == 3
    for place in range(3):
        arrivals.taken_care_of(place)
    assert told(arrivals) == (4, 3)


def test_what_is_done_is_told_at_once_and_need_not_wait_for_what_came_before() -> None:
    arrivals = begun()
    arrivals.take(frame(1, *[publication()] * 5), 0.0)
    arrivals.taken_care_of(3)
    assert told(arrivals) == (2, 0, 3)
    arrivals.taken_care_of(1)
    assert told(arrivals) == (2, 0, 1)  # the news alone
    arrivals.taken_care_of(0)
    assert told(arrivals) == (2, 2)
    assert told(arrivals) is None
    arrivals.taken_care_of(2)
    assert told(arrivals) == (2, 4)
    arrivals.check()


@pytest.mark.parametrize("how", ["asked", "repeated"])
def test_asked_we_tell_everything_once_more(how: str) -> None:
    arrivals = begun()
    arrivals.take(frame(1, *[publication()] * 4), 0.0)
    for place in (3, 1):
        arrivals.taken_care_of(place)
        told(arrivals)
    if how == "asked":
        arrivals.asked()
    else:
        assert not arrivals.take(frame(1, *[publication()] * 4), 0.0)
    assert told(arrivals) == (2, 0, 1, 3)


def test_a_new_conversation_forgets_what_was_open() -> None:
    arrivals = begun()
    arrivals.take(frame(1, publication(), publication()), 0.0)
    arrivals.taken_care_of(1)
    arrivals.begin(Conversation(2, 0))
    assert (arrivals.came, arrivals.places, arrivals.done, arrivals.deadline) == (1, 0, 0, None)
    arrivals.check()


@pytest.mark.parametrize("place", [0, 2, 3])
def test_what_is_not_open_cannot_be_taken_care_of(place: int) -> None:
    arrivals = begun()
    arrivals.take(frame(1, *[publication()] * 3), 0.0)
    arrivals.taken_care_of(0)
    arrivals.taken_care_of(2)
    with pytest.raises(AssertionError):
        arrivals.taken_care_of(place)


def test_an_acknowledgement_names_no_more_places_than_its_reader_takes() -> None:
    arrivals = begun()
    count = ACK_PLACES_MAX + 10
    assert arrivals.take(frame(1, *(publication() for _ in range(count))), 0.0)
    for place in range(1, count):  # the first is not done, and the others need not wait for it
        arrivals.taken_care_of(place)
    arrivals.asked()
    assert told(arrivals) == (2, 0, *range(count - ACK_PLACES_MAX, count))
    arrivals.taken_care_of(0)
    assert told(arrivals) == (2, count)
