"""Conversations with neighbours: every row of the state table as a script, and two sides joined back to back."""

from collections.abc import Sequence

import pytest

from mqloom.core.counters import Counters
from mqloom.core.effects import SendFrame
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import HELLO_EVERY_S, LINK_GRACE_S
from mqloom.core.messages import Control, Hello, Message, Synced
from mqloom.core.publication import Publication
from mqloom.core.wire import Frame, decode
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkChange, LinkState

US, THEM = GatewayId("US"), GatewayId("THEM")
OURS = Conversation(1, 0)
THEIRS = Conversation(1, 0)
LATER = Conversation(1, 1)
PUBLICATION = Publication(THEM, 1, 0, 0, 0, "t", b"")
OPEN, CLOSE, DOUBT, GIVE_UP = LinkChange.OPEN, LinkChange.CLOSE, LinkChange.DOUBT, LinkChange.GIVE_UP


def new_link(*, connected: bool = True) -> Link:
    link = Link(US, THEM, 1, 0.0, Journal(Counters()))
    if connected:
        link.connected(0.0)
        link.pack((), 0.0)
    return link


def frame(sequence: int, *messages: Message, conversation: Conversation = THEIRS) -> Frame:
    return Frame(THEM, conversation, sequence, messages)


def asking(heard: Conversation | None) -> Hello:
    return Hello(heard, True)


def said(link: Link, messages: Sequence[Message] = ()) -> list[Message]:
    return [message for sent in link.pack(messages, 0.0) for message in decode(sent.frame).messages]


def up() -> Link:
    link = new_link()
    assert link.receive(frame(0, asking(OURS)), 0.0)[0] == [DOUBT, OPEN]
    link.pack((), 0.0)
    return link


def down() -> Link:
    link = new_link()
    assert link.wake(LINK_GRACE_S) == [GIVE_UP]
    link.wake(LINK_GRACE_S)
    link.pack((), 0.0)
    return link


def total(link: Link, counter: str) -> int:
    return link._journal.counters.total(counter)


# ---- the rows of the table ---------------------------------------------------------------------------------------


def test_connecting_a_hello_that_follows_us_opens() -> None:
    link = new_link()
    changes, _ = link.receive(frame(0, asking(OURS)), 1.0)
    assert changes == [DOUBT, OPEN]
    assert link.state is LinkState.UP
    assert link.deadline is None
    assert said(link, [Synced()]) == [Hello(THEIRS, False), Synced()]
    link.check()


def test_connecting_a_hello_that_does_not_follow_us_is_greeted() -> None:
    link = new_link()
    changes, _ = link.receive(frame(0, asking(None)), 1.0)
    assert changes == [DOUBT]
    assert link.state is LinkState.CONNECTING
    assert said(link) == [Hello(THEIRS, True)]
    assert link.deadline == 1.0 + HELLO_EVERY_S
    link.check()


def test_connecting_a_missing_frame_begins_a_new_conversation() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 1.0)
    link.pack((), 0.0)
    changes, messages = link.receive(frame(2, Synced()), 1.5)
    assert (changes, messages) == ([], ())
    (sent,) = link.pack((), 0.0)
    assert decode(sent.frame) == Frame(US, LATER, 0, (Hello(None, True),))
    assert link.wake(LINK_GRACE_S) == [GIVE_UP]  # the wait is not prolonged


def test_connecting_past_the_grace_gives_up() -> None:
    link = new_link()
    assert link.wake(LINK_GRACE_S - 0.1) == []
    assert link.wake(LINK_GRACE_S) == [GIVE_UP]
    assert link.state is LinkState.DOWN
    link.check()


def test_up_a_hello_that_follows_us_changes_nothing() -> None:
    link = up()
    assert link.receive(frame(1, Hello(OURS, False)), 1.0) == ([], (Hello(OURS, False),))
    assert link.state is LinkState.UP
    assert said(link) == []


def test_up_a_hello_that_asks_is_greeted_because_it_may_have_missed_ours() -> None:
    link = up()
    assert link.receive(frame(1, asking(OURS)), 1.0)[0] == []
    assert said(link) == [Hello(THEIRS, False)]


def test_up_a_hello_that_does_not_follow_us_begins_anew() -> None:
    link = up()
    assert link.receive(frame(1, asking(None)), 1.0)[0] == [CLOSE]
    assert link.state is LinkState.CONNECTING
    (sent,) = link.pack([Synced()], 0.0)
    assert decode(sent.frame) == Frame(US, LATER, 0, (Hello(THEIRS, True),))
    link.check()


@pytest.mark.parametrize("heard", [OURS, None, Conversation(0, 5)])
def test_up_a_new_conversation_begins_anew_even_if_it_follows_us(heard: Conversation | None) -> None:
    # The other side gave up on us and came back: unless we greet, it is never up again.
    link = up()
    changes, _ = link.receive(frame(0, asking(heard), conversation=LATER), 1.0)
    assert changes == [DOUBT, CLOSE]
    assert link.state is LinkState.CONNECTING
    (sent,) = link.pack((), 0.0)
    assert decode(sent.frame) == Frame(US, LATER, 0, (Hello(LATER, True),))
    assert link._journal.counters.reasons("link_resets") == {"restarted": 1}


def test_up_a_missing_frame_begins_anew() -> None:
    link = up()
    changes, messages = link.receive(frame(3, PUBLICATION), 1.0)
    assert (changes, messages) == ([CLOSE], ())
    (sent,) = link.pack([Synced()], 0.0)
    assert decode(sent.frame) == Frame(US, LATER, 0, (Hello(None, True),))
    assert link._journal.counters.reasons("link_resets") == {"missing": 1}
    link.check()


def test_up_connected_again_greets_so_that_what_was_lost_is_noticed() -> None:
    link = up()
    link.lost(1.0)
    assert link.deadline == 1.0 + LINK_GRACE_S
    link.check()
    link.connected(2.0)
    assert said(link) == [Hello(THEIRS, False)]
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
    (sent,) = link.pack((), 0.0)
    assert decode(sent.frame) == Frame(US, LATER, 0, (Hello(THEIRS, True),))


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


def test_down_a_missing_frame_is_waited_for_again() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 0.0)
    link.wake(LINK_GRACE_S)
    assert link.receive(frame(2, Synced()), 9.0) == ([], ())
    assert link.state is LinkState.CONNECTING
    assert link.wake(9.0 + LINK_GRACE_S) == [GIVE_UP]


# ---- greetings ---------------------------------------------------------------------------------------------------


def test_a_greeting_is_repeated_while_nobody_answers_even_when_down() -> None:
    link = new_link()
    greeted = []
    now = 0.0
    for _ in range(8):
        assert link.deadline is not None
        now = max(now, link.deadline)
        link.wake(now)
        greeted += [now] * len(said(link))
    assert greeted == [HELLO_EVERY_S * step for step in range(1, len(greeted) + 1)]
    assert now > LINK_GRACE_S


def test_one_greeting_follows_what_was_said_so_that_a_lost_last_frame_is_noticed() -> None:
    link = up()
    link.pack([Synced()], 1.0)
    link.pack([Synced()], 2.0)
    assert link.deadline == 1.0 + HELLO_EVERY_S
    assert link.wake(1.0 + HELLO_EVERY_S) == []
    assert said(link) == [Hello(THEIRS, False)]
    assert link.deadline is None


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
    link.receive(frame(1, *[asking(OURS)] * 1_000), 1.0)
    assert len(said(link)) == 1


# ---- what is obeyed ----------------------------------------------------------------------------------------------


def test_messages_of_a_followed_conversation_are_obeyed_in_order() -> None:
    link = up()
    assert link.receive(frame(1, PUBLICATION), 1.0) == ([], (PUBLICATION,))
    assert link.receive(frame(2, Synced()), 1.0) == ([], (Synced(),))
    assert total(link, "frames_received") == 3


@pytest.mark.parametrize("sequence", [0, 1])
def test_a_repeated_frame_is_dropped(sequence: int) -> None:
    link = up()
    link.receive(frame(1, PUBLICATION), 1.0)
    assert link.receive(frame(sequence, asking(OURS), PUBLICATION), 1.0) == ([], ())
    assert total(link, "frames_stale") == 1


def test_an_empty_frame_keeps_the_place() -> None:
    link = up()
    assert link.receive(frame(1), 1.0) == ([], ())
    assert link.receive(frame(2, Synced()), 1.0) == ([], (Synced(),))


@pytest.mark.parametrize("messages", [(), (PUBLICATION,), (Hello(OURS, False), PUBLICATION)])
def test_a_conversation_whose_beginning_was_missed_is_not_followed(messages: tuple[Message, ...]) -> None:
    link = new_link()
    assert link.receive(frame(7, *messages), 1.0) == ([], ())
    assert link.state is LinkState.CONNECTING
    assert total(link, "frames_stale") == 1


def test_a_conversation_may_begin_late_because_only_greetings_came_before() -> None:
    link = new_link()
    assert link.receive(frame(7, asking(OURS)), 1.0)[0] == [DOUBT, OPEN]


def test_lost_greetings_are_not_missed() -> None:
    link = new_link()
    link.receive(frame(0, asking(None)), 1.0)
    assert link.receive(frame(4, asking(OURS)), 2.0)[0] == [OPEN]
    assert total(link, "link_resets") == 0


def test_an_earlier_conversation_is_dropped() -> None:
    link = new_link()
    link.receive(frame(0, asking(None), conversation=LATER), 1.0)
    assert link.receive(frame(0, asking(OURS)), 1.0) == ([], ())
    assert link.state is LinkState.CONNECTING


def test_a_broken_conversation_is_followed_again_only_by_a_greeting_that_asks() -> None:
    link = up()
    link.receive(frame(5, Synced()), 1.0)
    assert link.receive(frame(6, PUBLICATION), 1.0) == ([], ())
    assert link.receive(frame(7, Hello(OURS, False)), 1.0) == ([], ())
    assert link.receive(frame(5, asking(LATER)), 1.0) == ([], ())  # repeated
    assert link.receive(frame(8, asking(LATER)), 1.0)[0] == [DOUBT, OPEN]


def test_an_earlier_conversation_than_a_broken_one_is_dropped() -> None:
    link = new_link()
    link.receive(frame(0, asking(OURS), conversation=LATER), 1.0)
    link.receive(frame(5, Synced(), conversation=LATER), 1.0)
    assert link.receive(frame(9, asking(LATER)), 1.0) == ([], ())


def test_a_restarted_neighbour_is_followed_from_its_first_greeting() -> None:
    link = up()
    restarted = Conversation(2, 0)
    assert link.receive(frame(0, asking(None), conversation=restarted), 1.0)[0] == [DOUBT, CLOSE]
    assert link.receive(frame(9, PUBLICATION), 1.0) == ([], ())  # of the epoch before, late
    assert link.receive(frame(1, asking(LATER), conversation=restarted), 1.0)[0] == [OPEN]


def test_urgent_frames_are_obeyed_in_any_order_within_the_conversation_alone() -> None:
    link = up()
    control = Control(THEM, 1, 1, 0, "pie", b"")
    assert link.receive_urgent(frame(9, control)) == (control,)
    assert link.receive_urgent(frame(3, control)) == (control,)
    assert link.receive_urgent(frame(4, control, conversation=LATER)) == ()
    assert total(link, "frames_stale") == 1


# ---- what is sent ------------------------------------------------------------------------------------------------


def test_without_a_link_publications_are_dropped_and_counted() -> None:
    link = new_link()
    assert link.pack([PUBLICATION, Synced(), PUBLICATION], 0.0) == []
    assert link._journal.counters.reasons("publications_dropped") == {"link down": 2}


def test_frames_are_numbered_and_urgent_ones_by_themselves() -> None:
    link = up()
    sent: list[SendFrame] = []
    for _ in range(2):
        sent += link.pack([Synced()], 0.0)
        sent += link.pack_urgent([Control(US, 1, 1, 0, "pie", b"")])
    assert [(each.urgent, decode(each.frame).sequence) for each in sent] == [
        (False, 2),
        (True, 0),
        (False, 3),
        (True, 1),
    ]
    assert all(each.neighbour == THEM for each in sent)


def test_without_a_link_nothing_urgent_is_sent() -> None:
    assert new_link().pack_urgent([Control(US, 1, 1, 0, "pie", b"")]) == []


def test_a_new_conversation_numbers_its_frames_anew() -> None:
    link = up()
    link.pack([Synced()], 0.0)
    link.receive(frame(1, asking(None)), 1.0)
    (sent,) = link.pack((), 0.0)
    assert decode(sent.frame).sequence == 0
