"""Conversations with neighbours: every row of the state table as a script."""

from collections.abc import Sequence

import pytest

from mqloom.core.counters import Counters
from mqloom.core.effects import SendAck, SendFrame
from mqloom.core.ids import Conversation, GatewayId, PublicationId
from mqloom.core.limits import HELLO_EVERY_S, LINK_GRACE_S, RESEND_S, SILENCE_S
from mqloom.core.messages import Control, Flush, Hello, Message, Synced
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode, decode_ack
from mqloom.gateway.custody import Custody, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkChange, LinkState

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


def said(link: Link, messages: Sequence[Message] = (), now: float = 0.0) -> list[Message]:
    return [message for packed in frames_of(link.pack(messages, (), now)) for message in packed.messages]


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


def down() -> Link:
    link = new_link()
    assert link.wake(LINK_GRACE_S) == [GIVE_UP]
    link.wake(LINK_GRACE_S)
    link.pack((), (), 0.0)
    return link


def total(link: Link, counter: str) -> int:
    return link._journal.counters.total(counter)


def ack_of(sent: SendAck | None) -> Ack:
    assert sent is not None
    assert sent.neighbour == THEM
    return decode_ack(sent.ack)


# ---- the rows of the table ---------------------------------------------------------------------------------------


def test_connecting_a_hello_that_follows_us_opens() -> None:
    link = new_link()
    changes, _ = link.receive(frame(0, asking(OURS)), 1.0)
    assert changes == [DOUBT, OPEN]
    assert link.state is LinkState.UP
    assert link.deadline is None
    assert frames_of(link.pack([Synced()], (), 1.0)) == [Frame(US, OURS, 1, (Hello(THEIRS, False), Synced()))]
    assert link.deadline == 1.0 + RESEND_S
    link.check()


def test_connecting_a_hello_that_does_not_follow_us_is_greeted() -> None:
    link = new_link()
    changes, _ = link.receive(frame(0, asking(None)), 1.0)
    assert changes == [DOUBT]
    assert link.state is LinkState.CONNECTING
    assert frames_of(link.pack((), (), 0.0)) == [Frame(US, OURS, 0, (Hello(THEIRS, True),))]
    assert link.deadline == 1.0 + HELLO_EVERY_S
    link.check()


def test_connecting_past_the_grace_gives_up() -> None:
    link = new_link()
    assert link.wake(LINK_GRACE_S - 0.1) == []
    assert link.wake(LINK_GRACE_S) == [GIVE_UP]
    assert link.state is LinkState.DOWN
    link.check()


def test_connecting_a_second_new_conversation_does_not_prolong_the_wait() -> None:
    link = up()
    assert link.receive(frame(0, asking(None), conversation=LATER), 1.0)[0] == [DOUBT, CLOSE]
    assert link.receive(frame(0, asking(None), conversation=Conversation(2, 0)), 4.0)[0] == [DOUBT]
    assert link.wake(1.0 + LINK_GRACE_S) == [GIVE_UP]


def test_up_a_hello_that_follows_us_changes_nothing() -> None:
    link = up()
    assert link.receive(frame(1, Hello(OURS, False)), 1.0) == ([], (Hello(OURS, False),))
    assert link.state is LinkState.UP
    assert said(link) == []


def test_up_a_hello_that_asks_is_greeted_because_it_may_have_missed_ours() -> None:
    link = up()
    assert link.receive(frame(0, asking(OURS)), 1.0)[0] == []
    assert said(link) == [Hello(THEIRS, False)]


def test_up_a_hello_that_does_not_follow_us_was_said_before_the_one_that_did() -> None:
    link = up()
    assert link.receive(frame(0, asking(None)), 1.0) == ([], ())
    assert link.state is LinkState.UP
    assert said(link) == []


@pytest.mark.parametrize("heard", [OURS, None, Conversation(0, 5)])
def test_up_a_new_conversation_begins_anew_even_if_it_follows_us(heard: Conversation | None) -> None:
    # The other side gave up on us and came back: unless we greet, it is never up again.
    link = up()
    changes, _ = link.receive(frame(0, asking(heard), conversation=LATER), 1.0)
    assert changes == [DOUBT, CLOSE]
    assert link.state is LinkState.CONNECTING
    assert frames_of(link.pack([Synced()], (), 0.0)) == [Frame(US, LATER, 0, (Hello(LATER, True),))]
    assert link._journal.counters.reasons("link_resets") == {"restarted": 1}
    link.check()


def test_up_a_missing_frame_is_waited_for_and_the_sender_told_where_we_are() -> None:
    link = up()
    assert link.receive(frame(3, PUBLICATION), 1.0) == ([], ())
    assert link.state is LinkState.UP
    assert ack_of(link.pack_ack(1.0)) == Ack(US, THEIRS, 1, 0)
    assert total(link, "frames_stale") == 1
    assert total(link, "link_resets") == 0
    for sequence in (1, 2, 3):
        assert link.receive(frame(sequence, PUBLICATION), 2.0) == ([], (PUBLICATION,))
    link.check()


def test_up_connected_again_greets_and_sends_again_at_once_what_has_not_come() -> None:
    link = up()
    link.pack([Synced()], (), 0.5)
    link.lost(1.0)
    assert link.deadline == 1.0 + LINK_GRACE_S
    assert said(link, now=1.0 + RESEND_S) == []  # nobody would hear it
    link.check()
    link.connected(3.0)
    assert frames_of(link.pack((), (), 3.0)) == [
        Frame(US, OURS, 2, (Synced(),)),
        Frame(US, OURS, 3, (Hello(THEIRS, False),)),
    ]
    assert total(link, "frames_resent") == 1
    acknowledge(link, 4, 0, 3.0)
    assert link.deadline is None
    assert link.wake(10.0) == []
    assert link.state is LinkState.UP


def test_up_lost_past_the_grace_is_down() -> None:
    link = up()
    link.lost(1.0)
    link.lost(3.0)  # told again: the wait is not prolonged
    assert link.wake(1.0 + LINK_GRACE_S) == [CLOSE, GIVE_UP]
    assert link.state is LinkState.DOWN
    assert link.deadline is None
    link.connected(20.0)
    assert frames_of(link.pack((), (), 0.0)) == [Frame(US, LATER, 0, (Hello(THEIRS, True),))]


def test_up_without_acknowledgement_for_too_long_is_down() -> None:
    link = up()
    link.pack((), [entry(0)], 1.0)
    now, sent = 1.0, []
    while link.state is LinkState.UP:
        assert link.deadline is not None
        now = link.deadline
        changes = link.wake(now)
        sent += frames_of(link.pack((), (), now))
    assert (now, changes) == (1.0 + SILENCE_S, [CLOSE, GIVE_UP])
    assert sent[-1] == Frame(US, LATER, 0, (Hello(THEIRS, True),))
    assert [each.sequence for each in sent[:-1]] == [2] * 3  # after 1, 2 and 4 seconds more
    assert [each.message for each in link.take_back()] == [entry(0).message]
    link.check()


def test_a_silent_neighbour_without_a_connection_has_the_grace_and_no_more() -> None:
    link = up()
    link.pack((), [entry(0)], 1.0)
    link.lost(10.0)
    assert link.wake(1.0 + SILENCE_S - 1.1) == []
    assert link.wake(10.0 + LINK_GRACE_S) == [CLOSE, GIVE_UP]


def test_down_a_hello_that_follows_us_opens() -> None:
    link = down()
    assert link.receive(frame(0, asking(OURS)), 9.0)[0] == [DOUBT, OPEN]
    assert link.state is LinkState.UP
    assert link.deadline is None


def test_down_a_hello_that_does_not_is_waited_for_again() -> None:
    link = down()
    assert link.receive(frame(0, asking(None)), 9.0)[0] == [DOUBT]
    assert link.state is LinkState.CONNECTING
    assert said(link) == [Hello(THEIRS, True)]
    assert link.wake(9.0 + LINK_GRACE_S) == [GIVE_UP]


def test_down_a_missing_frame_is_not_a_sign_of_life() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 0.0)
    link.wake(LINK_GRACE_S)
    assert link.receive(frame(2, Synced()), 9.0) == ([], ())
    assert link.state is LinkState.DOWN


# ---- greetings ---------------------------------------------------------------------------------------------------


def test_a_greeting_is_repeated_while_nobody_answers_even_when_down() -> None:
    link = new_link()
    greeted: list[float] = []
    now = 0.0
    for _ in range(8):
        assert link.deadline is not None
        now = max(now, link.deadline)
        link.wake(now)
        sent = frames_of(link.pack((), (), now))
        assert sent in ([], [Frame(US, OURS, 0, (Hello(None, True),))])
        greeted += [now] * len(sent)
    # Giving up greets too, and the next one follows from there.
    assert greeted == [2.0, 4.0, LINK_GRACE_S, *(LINK_GRACE_S + HELLO_EVERY_S * step for step in range(1, 6))]


def test_without_a_connection_no_greeting_is_due() -> None:
    link = new_link(connected=False)
    assert link.deadline == LINK_GRACE_S
    assert said(link) == []
    link.wake(LINK_GRACE_S)
    assert link.deadline is None


def test_a_lost_connection_ends_the_greetings() -> None:
    link = new_link()
    link.lost(1.0)
    assert link.deadline == LINK_GRACE_S


def test_a_neighbour_heard_before_we_can_write_is_waited_for_no_longer_than_the_grace() -> None:
    link = new_link(connected=False)
    assert link.receive(frame(0, asking(OURS)), 2.0)[0] == [DOUBT, OPEN]
    link.check()
    assert link.wake(2.0 + LINK_GRACE_S) == [CLOSE, GIVE_UP]


def test_many_greetings_in_a_frame_are_answered_by_one() -> None:
    link = up()
    link.receive(frame(0, *[asking(OURS)] * 1_000), 1.0)
    assert len(said(link)) == 1


def test_a_greeting_is_acknowledged_at_once() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 1.0)
    assert ack_of(link.pack_ack(1.0)) == Ack(US, THEIRS, 1, 0)
    assert link.pack_ack(1.0) is None


# ---- what is obeyed ----------------------------------------------------------------------------------------------


def test_messages_of_a_followed_conversation_are_obeyed_in_order() -> None:
    link = up()
    assert link.receive(frame(1, PUBLICATION), 1.0) == ([], (PUBLICATION,))
    assert link.receive(frame(2, Synced()), 1.0) == ([], (Synced(),))
    assert total(link, "frames_received") == 3


@pytest.mark.parametrize("sequence", [0, 1])
def test_a_repeated_frame_is_dropped_and_acknowledged_again(sequence: int) -> None:
    link = up()
    link.receive(frame(1, PUBLICATION), 1.0)
    link.pack_ack(1.0)
    assert link.receive(frame(sequence, PUBLICATION), 1.0) == ([], ())
    assert total(link, "frames_stale") == 1
    assert ack_of(link.pack_ack(1.0)) == Ack(US, THEIRS, 2, 0)


def test_a_greeting_that_is_late_is_dropped() -> None:
    link = up()
    link.receive(frame(1, Hello(OURS, False)), 1.0)
    assert link.receive(frame(0, asking(OURS)), 1.0) == ([], ())
    assert total(link, "frames_stale") == 1
    assert said(link) == []


def test_what_a_greeting_that_asks_has_behind_it_is_not_obeyed() -> None:
    link = new_link()
    assert link.receive(frame(0, asking(OURS), PUBLICATION), 1.0) == ([DOUBT, OPEN], ())


def test_an_empty_frame_keeps_the_place() -> None:
    link = up()
    assert link.receive(frame(1), 1.0) == ([], ())
    assert link.receive(frame(2, Synced()), 1.0) == ([], (Synced(),))


@pytest.mark.parametrize("messages", [(), (PUBLICATION,), (Hello(OURS, False), PUBLICATION)])
@pytest.mark.parametrize("sequence", [0, 1, 7])
def test_a_conversation_whose_beginning_was_missed_is_not_followed(
    messages: tuple[Message, ...], sequence: int
) -> None:
    link = new_link()
    assert link.receive(frame(sequence, *messages), 1.0) == ([], ())
    assert link.state is LinkState.CONNECTING
    assert link.pack_ack(1.0) is None
    assert total(link, "frames_stale") == 1


def test_lost_greetings_are_not_missed() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 1.0)
    assert link.receive(frame(0, asking(OURS)), 2.0)[0] == [OPEN]
    assert total(link, "link_resets") == 0


def test_an_earlier_conversation_is_dropped() -> None:
    link = new_link()
    link.receive(frame(0, asking(None), conversation=LATER), 1.0)
    assert link.receive(frame(0, asking(OURS)), 1.0) == ([], ())
    assert link.state is LinkState.CONNECTING
    assert link._journal.counters.reasons("frames_stale") == {"": 1}


def test_a_greeting_of_an_earlier_epoch_is_told_to_the_operator() -> None:
    link = new_link()
    link.receive(frame(0, asking(None), conversation=Conversation(2, 0)), 1.0)
    assert link.receive(frame(0, asking(OURS), conversation=Conversation(1, 9)), 1.0) == ([], ())
    assert link._journal.counters.reasons("frames_stale") == {"past": 1}


def test_a_restarted_neighbour_is_followed_from_its_first_greeting() -> None:
    link = up()
    restarted = Conversation(2, 0)
    assert link.receive(frame(0, asking(None), conversation=restarted), 1.0)[0] == [DOUBT, CLOSE]
    assert link.receive(frame(1, PUBLICATION), 1.0) == ([], ())  # of the epoch before, late
    assert link.receive(frame(0, asking(LATER), conversation=restarted), 1.0)[0] == [OPEN]


def test_urgent_frames_are_obeyed_in_any_order_within_the_conversation_alone() -> None:
    link = up()
    control = Control(THEM, 1, 1, 0, "pie", b"")
    assert link.receive_urgent(frame(9, control)) == (control,)
    assert link.receive_urgent(frame(3, control)) == (control,)
    assert link.receive_urgent(frame(4, control, conversation=LATER)) == ()
    assert total(link, "frames_stale") == 1


# ---- what is sent ------------------------------------------------------------------------------------------------


def test_frames_are_numbered_and_urgent_ones_by_themselves() -> None:
    link = up()
    sent: list[SendFrame] = []
    for _ in range(2):
        sent += link.pack([Synced()], (), 0.0)
        sent += link.pack_urgent([Control(US, 1, 1, 0, "pie", b"")])
    assert [(each.urgent, decode(each.frame).sequence) for each in sent] == [
        (False, 2),
        (True, 0),
        (False, 3),
        (True, 1),
    ]
    assert all(each.neighbour == THEM for each in sent)


def test_without_a_link_nothing_but_greetings_is_sent() -> None:
    link = new_link()
    assert link.pack([Synced()], (), 0.0) == []
    assert link.pack_urgent([Control(US, 1, 1, 0, "pie", b"")]) == []
    assert link.room == 0


def test_a_new_conversation_numbers_its_frames_anew() -> None:
    link = up()
    link.pack([Synced()], (), 0.0)
    link.receive(frame(0, asking(None), conversation=LATER), 1.0)
    link.pack((), (), 1.0)
    link.receive(frame(0, asking(LATER), conversation=LATER), 1.0)
    assert frames_of(link.pack([Synced()], (), 1.0)) == [Frame(US, LATER, 1, (Hello(LATER, False), Synced()))]


def test_messages_go_before_publications_and_waves_between_those_they_are_behind() -> None:
    link = up()
    wave = Flush(US, 1, 1)
    entries = [entry(0), Entry(wave, None), entry(1, qos=0)]
    assert said(link, [Synced()]) == [Synced()]
    (sent,) = frames_of(link.pack([Synced()], entries, 0.0))
    assert sent.messages == (Synced(), entries[0].message, wave, entries[2].message)
    assert link.held == 1


def test_frames_without_acknowledgement_are_sent_again_as_they_were() -> None:
    link = up()
    first = link.pack((), [entry(0)], 0.0)
    second = link.pack([Synced()], (), 0.5)
    assert link.deadline == RESEND_S
    assert link.wake(RESEND_S) == []
    assert link.pack((), (), RESEND_S) == first + second
    assert total(link, "frames_resent") == 2
    assert total(link, "frames_sent") == 4  # with both greetings
