"""Conversations with neighbours: what of the publications in them is taken care of, and what is given back."""

from collections.abc import Sequence

import pytest

from mqloom.core.counters import Counters
from mqloom.core.effects import SendAck, SendFrame
from mqloom.core.ids import Conversation, GatewayId, PublicationId
from mqloom.core.limits import ACK_DELAY_S, ASK_S, LINK_WINDOW, RESEND_S
from mqloom.core.messages import Flush, Hello, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode, decode_ack
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkChange

US, THEM = GatewayId("US"), GatewayId("THEM")
OURS = Conversation(1, 0)
THEIRS = Conversation(1, 0)
LATER = Conversation(1, 1)
PUBLICATION = Publication(THEM, 1, 0, 0, 0, "t", b"")
OPEN, CLOSE, DOUBT, GIVE_UP = LinkChange.OPEN, LinkChange.CLOSE, LinkChange.DOUBT, LinkChange.GIVE_UP


def new_link(*, connected: bool = True) -> Link:
    link = Link(US, THEM, Conversation(1, 0), 0.0, Journal(Counters()))
    if connected:
        link.connected(0.0)
        link.pack((), (), 0.0)
    return link


def frame(sequence: int, *messages: Message, conversation: Conversation = THEIRS) -> Frame:
    return Frame(THEM, conversation, sequence, messages)


def asking(heard: Conversation | None) -> Hello:
    return Hello(heard, True)


def frames_of(sent: Sequence[SendFrame]) -> list[Frame]:
    return [decode(each.frame) for each in sent]


def entry(sequence: int, qos: int = 1) -> Entry:
    publication = Publication(US, 1, sequence, 0, 1, "t", b"", qos)
    duty = Custody().begin(FromBroker(sequence), PublicationId(US, 1, sequence)) if qos else None
    return Entry(publication, duty)


def acknowledge(link: Link, come: int, done: int, now: float = 0.0) -> Sequence[Entry]:
    return link.acknowledged(Ack(THEM, link._conversation, come, done), now)


def up() -> Link:
    """A link that is up; its own greeting, the frame 1 of ours, has come."""
    link = new_link()
    assert link.receive(frame(0, asking(OURS)), 0.0)[0] == [DOUBT, OPEN]
    link.pack((), (), 0.0)
    link.pack_ack(0.0)
    acknowledge(link, 2, 0)
    return link


def total(link: Link, counter: str) -> int:
    return link._journal.counters.total(counter)


def ack_of(sent: SendAck | None) -> Ack:
    assert sent is not None
    assert sent.neighbour == THEM
    return decode_ack(sent.ack)


def test_what_is_taken_care_of_is_returned_once_and_gives_room() -> None:
    link = up()
    entries = [entry(number) for number in range(3)]
    for each in entries:
        link.pack((), [each], 0.0)
    assert (link.held, link.room) == (3, LINK_WINDOW - 3)
    assert acknowledge(link, 5, 1) == entries[:1]
    assert acknowledge(link, 5, 1) == []
    assert acknowledge(link, 5, 3) == entries[1:]
    assert (link.held, link.room) == (0, LINK_WINDOW)
    assert link.deadline is None


def test_of_publications_of_which_nothing_more_is_said_the_neighbour_is_asked() -> None:
    link = up()
    link.pack((), [entry(0)], 1.0)
    acknowledge(link, 3, 0, 2.0)  # and that it is done was said too, but lost
    assert link.deadline == 2.0 + ASK_S
    assert link.wake(2.0 + ASK_S) == []
    assert frames_of(link.pack((), (), 2.0 + ASK_S)) == [Frame(US, OURS, 3, (Hello(THEIRS, False),))]
    acknowledge(link, 4, 0, 30.0)  # it has not done it yet
    assert link.deadline == 30.0 + ASK_S
    link.lost(31.0)
    link.connected(32.0)
    link.pack((), (), 32.0)
    assert len(acknowledge(link, 5, 1, 33.0)) == 1
    assert link.deadline is None


def test_an_acknowledgement_of_an_earlier_conversation_is_dropped() -> None:
    link = up()
    link.pack((), [entry(0)], 0.0)
    assert link.acknowledged(Ack(THEM, Conversation(0, 9), 3, 1), 0.0) == ()
    assert link.held == 1
    assert total(link, "frames_stale") == 1


@pytest.mark.parametrize(("come", "done"), [(99, 99), (3, 2), (2**63 - 1, 2**63 - 1), (0, 2**63 - 1), (4, 1)])
def test_an_acknowledgement_of_more_than_was_sent_is_passed_over(come: int, done: int) -> None:
    link = up()
    sent = link.pack((), [entry(0)], 0.0)
    assert list(acknowledge(link, come, done)) == []
    assert link.held == 1
    link.check()
    assert link.pack((), (), RESEND_S) == sent
    assert len(acknowledge(link, 3, 1)) == 1


def test_a_publication_is_acknowledged_as_done_when_it_is_taken_care_of_and_not_before() -> None:
    link = up()
    waiting = Publication(THEM, 1, 0, 0, 0, "t", b"", 1)
    link.receive(frame(1, waiting), 1.0)
    assert link.pack_ack(1.0) is None
    assert link.deadline == 1.0 + ACK_DELAY_S
    assert ack_of(link.pack_ack(1.0 + ACK_DELAY_S)) == Ack(US, THEIRS, 2, 0)
    assert link.places == 1
    link.taken_care_of(THEIRS, 0)
    assert ack_of(link.pack_ack(2.0)) == Ack(US, THEIRS, 2, 1)
    link.check()


def test_what_is_taken_care_of_of_an_earlier_conversation_concerns_nobody() -> None:
    link = up()
    link.receive(frame(1, Publication(THEM, 1, 0, 0, 0, "t", b"", 1)), 1.0)
    link.receive(frame(0, asking(None), conversation=LATER), 1.0)
    link.pack_ack(1.0)
    link.taken_care_of(THEIRS, 0)
    assert link.pack_ack(9.0) is None
    link.check()


def test_what_was_not_taken_care_of_is_taken_back_in_order_when_a_conversation_ends() -> None:
    link = up()
    entries = [entry(number) for number in range(4)]
    link.pack((), entries[:1], 0.0)
    link.pack((), [*entries[1:3], Entry(Flush(US, 1, 1), None)], 0.0)
    link.pack((), entries[3:], 0.0)
    acknowledge(link, 5, 1)
    assert link.take_back() == []
    link.receive(frame(0, asking(None), conversation=LATER), 1.0)
    assert link.held == 0
    assert link.take_back() == entries[1:]
    assert link.take_back() == []


# ---- links that end ------------------------------------------------------------------------------------------------


def test_the_last_acknowledgement_is_said_whether_it_is_due_or_not() -> None:
    link = up()
    assert ack_of(link.pack_ack(0.0) or link.last_ack(0.0)[0]).received == 1
    link.receive(frame(1, PUBLICATION), 0.0)
    (last,) = link.last_ack(0.0)
    assert ack_of(last).received == 2


def test_one_who_never_spoke_needs_no_last_acknowledgement() -> None:
    assert new_link().last_ack(0.0) == []


def test_a_link_that_ends_gives_back_what_was_not_taken_care_of() -> None:
    link = up()
    entries = [entry(number) for number in range(3)]
    link.pack((), entries, 0.0)
    said = link.said
    assert not link.has_heard(said)
    acknowledge(link, 3, 1)
    assert link.has_heard(said)
    assert link.end() == entries[1:]
    assert link.end() == []


def test_a_later_link_to_the_same_neighbour_has_another_conversation() -> None:
    link = Link(US, THEM, Conversation(1, 4), 0.0, Journal(Counters()))
    assert link.next_number == 5
    link.connected(0.0)
    assert {each.conversation for each in frames_of(link.pack((), (), 0.0))} == {Conversation(1, 4)}
