"""What waits on soft links: too much of it, marks behind it, and that nothing is lost whatever happens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.effects import SendFrame
from mqloom.core.ids import GatewayId
from mqloom.core.limits import FLOW_QUEUE_MAX, LINK_WINDOW
from mqloom.core.wire import Ack
from mqloom.gateway.departures import Entry
from mqloom.gateway.soft_links import CLOSE_S, SoftLink, SoftState
from mqloom.lab.woven import DOWN, FAR, SECOND, UP, Weft, publications_in, up

OTHER = GatewayId("OTHER")
QUARTER = FLOW_QUEUE_MAX // 4


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
    assert publications_in(weft.frames) == [LINK_WINDOW]
    weft.post(1)
    weft.post(qos=0)
    assert weft.frames == []
    weft.ack(weft.links._links[FAR]._departures.sequence, LINK_WINDOW)
    assert publications_in(weft.frames) == [LINK_WINDOW + 1, LINK_WINDOW + 2]
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
