"""Soft links: every row of the state table as a script, what is given back, and that no deadline stays in the past."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.counters import Counters
from mqloom.core.effects import CloseLink, Effect, OpenLink, SendFrame
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ASK_S, FLOW_QUEUE_MAX, HELLO_EVERY_S, LINK_WINDOW, RESEND_S, SILENCE_S
from mqloom.core.messages import Hello
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode
from mqloom.gateway import soft_links as soft_links_module
from mqloom.gateway.custody import Duty, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.interfaces import LinkStood
from mqloom.gateway.journal import Journal
from mqloom.gateway.soft_links import CLOSE_S, SoftLink, SoftLinks, SoftState

US, FAR, OTHER = GatewayId("US"), GatewayId("FAR"), GatewayId("OTHER")
FIRST, SECOND = Conversation(1, 0), Conversation(1, 1)
UP, DOWN = LinkStood(FAR, up=True), LinkStood(FAR, up=False)
GREETING = Hello(None, True)
QUARTER = FLOW_QUEUE_MAX // 4


class Weft:
    """The soft links of one gateway, tended as the node does after every event."""

    def __init__(self, *peers: GatewayId) -> None:
        self.counters = Counters()
        self.links = SoftLinks(US, 1, Journal(self.counters))
        self.now = 0.0
        self.frames: list[Frame] = []  # of the last event
        self.effects: list[Effect] = []
        self.changes: list[LinkStood] = []
        self.returned: list[Entry] = []
        self.posted = 0
        for peer in peers:
            self.links.open(peer)
        self.tend()

    def tend(self) -> "Weft":
        self.links.check()
        self.links.sweep(self.now)
        self.changes = self.links.stood()
        self.returned = [entry for _, entry in self.links.returned()]
        self.effects = self.links.drain(self.now)
        self.frames = [decode(each.frame) for each in self.effects if isinstance(each, SendFrame)]
        self.links.check()
        return self

    def connected(self, peer: GatewayId = FAR) -> "Weft":
        self.links.connected(peer, self.now)
        return self.tend()

    def lost(self, peer: GatewayId = FAR) -> "Weft":
        self.links.lost(peer)
        return self.tend()

    def ack(
        self, received: int, done: int = 0, *, conversation: Conversation = FIRST, ahead: tuple[int, ...] = ()
    ) -> list[Entry]:
        taken = list(self.links.acknowledged(FAR, Ack(FAR, conversation, received, done, ahead), self.now))
        self.tend()
        return taken

    def post(self, count: int = 1, qos: int = 1, peer: GatewayId = FAR) -> list[Entry]:
        entries = []
        for _ in range(count):
            duty = Duty(FromBroker(self.posted)) if qos else None
            entries.append(Entry(Publication(US, 1, self.posted, 0, 1, "t", b"", qos), duty))
            self.posted += 1
        for entry in entries:
            self.links.post(peer, entry)
        self.tend()
        return entries

    def close(self, peer: GatewayId = FAR) -> "Weft":
        self.links.close(peer, self.now)
        return self.tend()

    def wait(self, seconds: float) -> "Weft":
        self.now += seconds
        self.links.wake(self.now)
        return self.tend()

    @property
    def state(self) -> SoftState | None:
        return self.links.states().get(FAR)


def opening() -> Weft:
    return Weft(FAR)


def greeting() -> Weft:
    return opening().connected()


def up() -> Weft:
    weft = greeting()
    weft.ack(1)
    assert weft.changes == [UP]
    return weft


def publications(frames: Sequence[Frame]) -> list[int]:
    return [each.sequence for frame in frames for each in frame.messages if isinstance(each, Publication)]


# ---- the state table ---------------------------------------------------------------------------------------------


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
    assert publications(weft.frames) == [0, 1]
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
    assert publications(weft.frames) == [0]
    assert weft.state is SoftState.UP


def test_frames_that_do_not_come_are_sent_again_then_given_back() -> None:
    weft = up()
    entries = weft.post()
    assert publications(weft.wait(RESEND_S).frames) == [0]
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
    assert publications(weft.wait(RESEND_S).frames) == [0]


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


# ---- too much waits ----------------------------------------------------------------------------------------------


def test_when_too_much_waits_that_is_given_back_and_it_does_not_stand_until_a_quarter_is_left() -> None:
    weft = up()
    under_way = weft.post(LINK_WINDOW)
    waiting = weft.post(FLOW_QUEUE_MAX + 1)
    assert weft.returned == waiting
    assert weft.changes == [DOWN]
    assert weft.state is SoftState.UP
    assert weft.counters.reasons("links_crowded") == {"soft": 1}
    frames = len(weft.links._links[FAR]._departures._frames)
    assert len(weft.ack(frames + 1, LINK_WINDOW - QUARTER)) == len(under_way) - QUARTER
    assert weft.changes == []
    weft.ack(frames + 1, LINK_WINDOW - QUARTER + 1)
    assert weft.changes == [UP]


@pytest.mark.parametrize("qos", [0, 1])
def test_when_all_was_given_back_and_nobody_can_acknowledge_anything_it_stands_with_the_next_event(qos: int) -> None:
    weft = up()
    assert len(weft.post(FLOW_QUEUE_MAX + 1, qos)) == len(weft.returned)
    assert weft.changes == [DOWN]
    assert weft.links.are_stirred
    assert weft.tend().changes == [UP]


def test_qos_0_goes_without_a_window_but_behind_what_came_before() -> None:
    weft = up()
    weft.post(LINK_WINDOW)
    weft.post(qos=0)
    assert publications(weft.frames) == [LINK_WINDOW]
    weft.post(1)
    weft.post(qos=0)
    assert weft.frames == []
    weft.ack(weft.links._links[FAR]._departures.sequence, LINK_WINDOW)
    assert publications(weft.frames) == [LINK_WINDOW + 1, LINK_WINDOW + 2]
    assert weft.links.holdings() == {FAR: 1}


def test_qos_0_that_waits_is_given_back_and_what_was_sent_is_not() -> None:
    weft = up()
    weft.post(1, qos=0)
    weft.post(LINK_WINDOW + 1)
    waiting = weft.post(1, qos=0)
    weft.lost()
    assert [entry for entry in weft.returned if entry.duty is None] == waiting


# ---- marks -------------------------------------------------------------------------------------------------------


def test_marks_pass_when_all_before_them_is_taken_care_of() -> None:
    weft = up()
    weft.post(2)
    marks = weft.links.marks()
    weft.post(1)
    assert not weft.links.have_passed(marks)
    weft.ack(3, 0, ahead=(2, 1))
    assert not weft.links.have_passed(marks)
    weft.ack(3, 1)
    assert weft.links.have_passed(marks)
    assert weft.links.marks() == {}


@pytest.mark.parametrize("how", ["lost", "closed"])
def test_marks_pass_when_all_before_them_was_given_back_and_taken(how: str) -> None:
    weft = up()
    weft.post(2)
    marks = weft.links.marks()
    weft.links.lost(FAR)
    if how == "closed":
        weft.links.close(FAR, weft.now)
    assert not weft.links.have_passed(marks)  # it has not gone another way
    weft.tend()
    assert weft.links.have_passed(marks)


def test_a_mark_of_a_link_that_was_opened_again_holds_up_nobody() -> None:
    weft = up()
    weft.post(2)
    marks = weft.links.marks()
    weft.close()
    weft.links.open(FAR)
    weft.wait(CLOSE_S)
    weft.connected()
    weft.ack(1, conversation=SECOND)
    weft.post(1)
    assert weft.links.have_passed(marks)


def test_a_link_that_holds_nothing_has_no_mark() -> None:
    weft = up()
    assert weft.links.marks() == {}
    assert weft.links.have_passed({})


# ---- what costs nothing ------------------------------------------------------------------------------------------


def test_only_links_to_which_something_happened_are_tended(monkeypatch: pytest.MonkeyPatch) -> None:
    peers = [GatewayId(f"P{number}") for number in range(35)]
    weft = Weft(*peers)
    for peer in peers:
        weft.connected(peer)
    looked_at: list[SoftLink] = []

    def pack(link: SoftLink, now: float) -> list[SendFrame]:
        looked_at.append(link)
        return []

    monkeypatch.setattr(SoftLink, "pack", pack)
    weft.tend()
    assert looked_at == []
    weft.lost(peers[7])
    assert looked_at == [weft.links._links[peers[7]]]


# ---- any sequence of events --------------------------------------------------------------------------------------

steps = st.tuples(
    st.sampled_from(
        ["open", "close", "connected", "lost", "post", "post", "post", "ack", "ack", "nothing", "wait", "deadline"]
    ),
    st.sampled_from([FAR, FAR, OTHER]),
    st.integers(0, 30),
)


class Chance(Weft):
    """Does anything; what goes in must come out, once."""

    def __init__(self) -> None:
        self.entered: list[Entry] = []
        self.out: list[Entry] = []  # taken care of, or given back
        self.standing: set[GatewayId] = set()
        super().__init__(FAR)

    def tend(self) -> "Chance":
        super().tend()
        self.out += self.returned
        for change in self.changes:
            assert (change.gateway in self.standing) != change.up
            self.standing ^= {change.gateway}
        return self

    def step(self, kind: str, peer: GatewayId, number: int) -> None:
        match kind:
            case "open":
                self.links.open(peer)
            case "post":
                self.entered += self.post(number, int(number % 7 > 0), peer) if peer in self.standing else []
            case "ack" | "nothing":
                self.hear(kind, peer, number)
            case "wait":
                self.wait(number / 7)
            case "deadline":
                self.wait(max(0.0, (self.links.deadline or 0.0) - self.now))
            case _:
                {"close": self.close, "connected": self.connected, "lost": self.lost}[kind](peer)
        self.tend()

    def hear(self, kind: str, peer: GatewayId, number: int) -> None:
        link = self.links._links.get(peer)
        if link is not None:
            departures = link._departures
            come = 0 if kind == "nothing" else min(departures.sequence, departures._come + number % 3)
            done = min(departures._places, departures._done + number)
            ack = Ack(peer, link._conversation, come, done, tuple(range(done + 1, departures._places, 2)))
            self.out += self.links.acknowledged(peer, ack, self.now)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=60))
def test_nothing_is_lost_and_no_deadline_stays_in_the_past(script: list[tuple[str, GatewayId, int]]) -> None:
    weft = Chance()
    for step in script:
        weft.step(*step)
        if weft.links.deadline is not None and weft.links.deadline <= weft.now:
            weft.wait(0.0)
        assert weft.links.deadline is None or weft.links.deadline > weft.now
    for peer in (FAR, OTHER):
        weft.links.close(peer, weft.now)
    weft.wait(CLOSE_S)
    kept = [id(entry) for entry in weft.entered if entry.duty is not None]
    assert sorted(kept) == sorted(id(entry) for entry in weft.out if entry.duty is not None)
    assert weft.links.states() == {}
    assert weft.links.deadline is None
