"""Soft links: every row of the state table as a script, and what is given back."""

import pytest

from mqloom.core.effects import CloseLink, OpenLink
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ASK_S, HELLO_EVERY_S, LINK_WINDOW, RESEND_S, SILENCE_S
from mqloom.core.messages import Hello
from mqloom.core.wire import Frame
from mqloom.gateway import soft_links as soft_links_module
from mqloom.gateway.soft_links import CLOSE_S, SoftState
from mqloom.lab.gate import FIRST, US
from mqloom.lab.woven import DOWN, FAR, SECOND, UP, Weft, greeting, opening, publications_in, up

OTHER = GatewayId("OTHER")
GREETING = Hello(None, True)


def test_opening_asks_for_a_connection_and_says_nothing() -> None:
    weft = opening()
    assert weft.effects == [OpenLink(neighbour=FAR)]
    assert weft.state is SoftState.OPENING
    assert weft.links.deadline is None
    assert not weft.links.are_stirred


def test_once_connected_it_greets_and_greets_again() -> None:
    weft = greeting()
    assert weft.state is SoftState.GREETING
    assert weft.frames == [Frame(US, FIRST, 0, (GREETING,))]
    assert weft.wait(HELLO_EVERY_S / 2).frames == []
    assert weft.wait(HELLO_EVERY_S / 2).frames == [Frame(US, FIRST, 0, (GREETING,))]
    assert weft.changes == []


def test_connected_twice_greets_no_sooner() -> None:
    assert greeting().connected().frames == []


def test_once_acknowledged_it_stands_and_carries() -> None:
    weft = up()
    assert weft.state is SoftState.UP
    assert weft.links.deadline is None
    weft.post(2)
    assert publications_in(weft.frames) == [0, 1]
    assert weft.frames[0].sequence == 1
    assert weft.links.holdings() == {FAR: 2}
    assert weft.counters.total("publications_softly") == weft.counters.total("publications_forwarded") == 2


def test_what_is_taken_care_of_is_named_once() -> None:
    weft = up()
    first, second = weft.post(2)
    assert weft.ack(2, 0, ahead=(1,)) == [second]
    assert weft.ack(2, 2) == [first]
    assert weft.ack(2, 2) == []
    assert weft.links.holdings() == {FAR: 0}


def test_when_the_connection_is_lost_everything_is_given_back_and_a_new_conversation_begins() -> None:
    weft = up()
    entries = weft.post(3)
    weft.ack(2, 1)
    weft.lost()
    assert weft.state is SoftState.OPENING
    assert weft.changes == [DOWN]
    assert weft.returned == entries[1:]
    assert weft.links.holdings() == {FAR: 0}
    assert weft.links.deadline is None
    assert weft.connected().frames == [Frame(US, SECOND, 0, (GREETING,))]
    assert weft.ack(1, conversation=FIRST) == []  # of the conversation before
    assert weft.changes == []
    weft.ack(1, conversation=SECOND)
    assert weft.changes == [UP]


def test_connected_again_without_a_loss_sends_again_what_has_not_come() -> None:
    weft = up()
    weft.post()
    weft.connected()
    assert publications_in(weft.frames) == [0]
    assert weft.state is SoftState.UP


def test_frames_that_do_not_come_are_sent_again_then_given_back() -> None:
    weft = up()
    entries = weft.post()
    assert publications_in(weft.wait(RESEND_S).frames) == [0]
    assert weft.counters.total("frames_resent") == 1
    weft.wait(SILENCE_S)
    assert weft.state is SoftState.GREETING
    assert weft.returned == entries
    assert weft.changes == [DOWN]
    assert weft.frames == [Frame(US, SECOND, 0, (GREETING,))]


def test_a_receiver_that_does_not_know_us_makes_it_begin_anew() -> None:
    weft = up()
    entries = weft.post()
    assert weft.ack(0) == []
    assert weft.state is SoftState.GREETING
    assert weft.returned == entries
    assert weft.frames == [Frame(US, SECOND, 0, (GREETING,))]


def test_an_acknowledgement_of_nothing_while_greeting_is_not_what_it_waits_for() -> None:
    weft = greeting()
    weft.ack(0)
    assert weft.state is SoftState.GREETING
    assert weft.wait(HELLO_EVERY_S).frames == [Frame(US, SECOND, 0, (GREETING,))]


def test_what_has_come_but_is_not_done_is_asked_for() -> None:
    weft = up()
    weft.post()
    weft.ack(2)
    weft.wait(ASK_S)
    assert [frame.messages for frame in weft.frames] == [(Hello(None, False),)]
    assert weft.state is SoftState.UP


@pytest.mark.parametrize("begin", [opening, greeting, up])
def test_to_be_closed_with_nothing_to_wait_for_it_is_gone_at_once(begin: object) -> None:
    assert callable(begin)
    weft = begin()
    weft.close()
    assert weft.state is None
    assert weft.effects == [CloseLink(neighbour=FAR)]
    assert weft.links.deadline is None
    assert not weft.links.are_stirred


def test_closing_drains_what_is_under_way_and_gives_back_what_waits() -> None:
    weft = up()
    entries = weft.post(LINK_WINDOW + 5)
    weft.close()
    assert weft.state is SoftState.CLOSING
    assert weft.changes == [DOWN]
    assert weft.returned == entries[LINK_WINDOW:]
    assert weft.close().state is SoftState.CLOSING  # once is enough
    frames = len(weft.links._links[FAR]._departures._frames)
    assert weft.ack(frames + 1, LINK_WINDOW) == entries[:LINK_WINDOW]
    assert weft.state is None
    assert weft.returned == []


def test_while_closing_it_still_sends_again() -> None:
    weft = up()
    weft.post()
    weft.close()
    assert publications_in(weft.wait(RESEND_S).frames) == [0]


@pytest.mark.parametrize("how", ["lost", "unknown", "late", "silent"])
def test_what_a_closing_link_does_not_finish_is_given_back(how: str) -> None:
    weft = up()
    entries = weft.post()
    if how == "silent":
        weft.now += SILENCE_S - CLOSE_S / 2
    weft.close()
    assert weft.returned == []
    if how == "lost":
        weft.lost()
    elif how == "unknown":
        weft.ack(0)
    else:
        weft.wait(CLOSE_S if how == "late" else CLOSE_S / 2)
    assert weft.returned == entries
    assert weft.state is None
    assert weft.effects == [CloseLink(neighbour=FAR)]


def test_opened_again_while_it_closes_it_opens_when_it_is_closed_with_a_new_conversation() -> None:
    weft = up()
    weft.post()
    weft.close()
    weft.links.open(FAR)
    assert weft.tend().state is SoftState.CLOSING
    weft.ack(2, 1)
    assert weft.effects == [CloseLink(neighbour=FAR), OpenLink(neighbour=FAR)]
    assert weft.state is SoftState.OPENING
    assert weft.connected().frames == [Frame(US, SECOND, 0, (GREETING,))]


def test_opened_again_and_closed_again_while_it_closes_it_stays_closed() -> None:
    weft = up()
    weft.post()
    weft.close()
    weft.links.open(FAR)
    weft.close()
    weft.ack(2, 1)
    assert weft.state is None
    weft.links.open(FAR)
    assert weft.tend().connected().frames == [Frame(US, SECOND, 0, (GREETING,))]


def test_one_that_is_open_stays_as_it_is_when_opened_again() -> None:
    weft = up()
    weft.links.open(FAR)
    assert weft.tend().effects == []
    assert weft.state is SoftState.UP


def test_what_is_posted_in_the_event_that_closes_it_is_not_lost() -> None:
    weft = up()
    weft.links.close(FAR, weft.now)
    entries = weft.post()
    assert weft.returned + [each for each in entries if weft.links.holdings().get(FAR)] == entries


def test_events_of_links_that_are_not_there_are_nothing() -> None:
    weft = Weft()
    weft.connected().lost().close()
    assert weft.ack(1) == []
    assert not weft.links.are_stirred


def test_past_the_bound_links_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft_links_module, "SOFT_LINKS_MAX", 1)
    weft = Weft(FAR, OTHER)
    assert set(weft.links.states()) == {FAR}
    assert weft.counters.reasons("links_refused") == {"many": 1}


# ---- gateways that are neighbours, and are not ---------------------------------------------------------------------


def test_links_are_closing_until_they_are_gone_and_what_they_gave_back_has_gone_another_way() -> None:
    weft = up()
    assert not weft.links.are_closing
    weft.post(1)
    weft.links.close(FAR, weft.now)
    assert weft.links.are_closing
    weft.links.lost(FAR)
    weft.links.sweep(weft.now)
    assert weft.links.are_closing
    assert len(weft.links.returned()) == 1
    assert not weft.links.are_closing


def test_a_primary_link_goes_on_where_soft_links_there_ended_and_the_other_way_round() -> None:
    weft = Weft()
    assert weft.links.next_number(FAR) == 0
    weft.links.open(FAR)
    weft.tend().connected()
    assert weft.links.next_number(FAR) > 0
    weft.close().lost()
    number = weft.links.next_number(FAR)
    assert (weft.state, number) == (None, 1)
    weft.links.begin_at(FAR, 7)
    assert weft.links.next_number(FAR) == 7
    weft.links.open(FAR)
    assert weft.tend().connected().frames == [Frame(US, Conversation(1, 7), 0, (GREETING,))]


def test_orders_are_given_in_the_order_of_what_happened_and_once() -> None:
    weft = Weft()
    weft.links.orders.append(CloseLink(neighbour=OTHER, is_primary=True))
    weft.links.open(FAR)
    weft.links.orders.append(OpenLink(neighbour=OTHER, is_primary=True))
    orders = [
        CloseLink(neighbour=OTHER, is_primary=True),
        OpenLink(neighbour=FAR),
        OpenLink(neighbour=OTHER, is_primary=True),
    ]
    assert weft.tend().effects == orders
    assert weft.tend().effects == []


def test_orders_of_primary_links_do_not_wait_until_a_soft_link_stirs() -> None:
    weft = Weft()
    weft.links.orders.append(OpenLink(neighbour=OTHER, is_primary=True))
    assert not weft.links.are_stirred
    assert weft.tend().effects == [OpenLink(neighbour=OTHER, is_primary=True)]
