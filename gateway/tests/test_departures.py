"""The sending end, alone and joined back to back with the receiving end over a channel that loses and doubles."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ASK_S, LINK_WINDOW, RESEND_FRAMES_MAX, RESEND_S, SILENCE_S
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, decode, decode_ack, encode
from mqloom.gateway.arrivals import Arrivals
from mqloom.gateway.custody import Duty, FromBroker
from mqloom.gateway.departures import Departures, Entry

US, THEM = GatewayId("US"), GatewayId("THEM")
OURS = Conversation(1, 0)


def entry(number: int) -> Entry:
    return Entry(Publication(US, 1, number, 0, 0, "t", b"", 1), Duty(FromBroker(number)))


def send(departures: Departures, now: float = 0.0, count: int = 1) -> list[Entry]:
    """Send a frame of so many publications."""
    entries = [entry(number) for number in range(count)]
    departures.sent(b"%d" % departures.sequence, len(entries), entries, now)
    departures.check()
    return entries


def acknowledge(
    departures: Departures, come: int, done: int, now: float = 0.0, ahead: tuple[int, ...] = ()
) -> list[Entry]:
    """So many frames have come, so many publications are done, and these."""
    finished = departures.acknowledged(Ack(THEM, OURS, come, done, ahead), now)
    departures.check()
    return finished


def again(departures: Departures, now: float) -> list[bytes]:
    sent = list(departures.again(now))
    departures.check()
    return sent


def test_nothing_sent_is_nothing_to_wait_for() -> None:
    departures = Departures()
    assert departures.deadline is None
    assert again(departures, 99.0) == []
    assert not departures.are_stalled(99.0)
    assert departures.room == LINK_WINDOW


def test_the_first_frame_is_number_1_because_the_greeting_was_0() -> None:
    departures = Departures()
    assert departures.sequence == 1
    send(departures)
    assert departures.sequence == 2


def test_what_has_come_is_not_sent_again_but_kept_until_it_is_done() -> None:
    departures = Departures()
    first, second = send(departures), send(departures)
    assert acknowledge(departures, 2, 0, 0.0) == []
    assert again(departures, RESEND_S) == [b"2"]
    assert acknowledge(departures, 3, 0, 1.0) == []
    assert departures.held == 2
    assert acknowledge(departures, 3, 1, 1.0) == first
    assert acknowledge(departures, 3, 2, 1.0) == second
    assert departures.held == 0
    assert departures.deadline is None
    departures.check()


def test_each_time_in_vain_it_waits_twice_as_long_up_to_a_bound() -> None:
    departures = Departures()
    send(departures)
    times = []
    now = 0.0
    for _ in range(6):
        while not again(departures, now):
            now += RESEND_S / 2
        times.append(now)
    assert times == [RESEND_S * step for step in (1, 3, 7, 15, 23, 31)]


def test_progress_begins_the_wait_anew() -> None:
    departures = Departures()
    send(departures)
    send(departures)
    again(departures, RESEND_S)
    acknowledge(departures, 2, 1, 2.5)
    assert departures.deadline == 2.5 + RESEND_S
    assert again(departures, 2.5 + RESEND_S) == [b"2"]


def test_an_acknowledgement_that_says_nothing_new_is_no_progress() -> None:
    departures = Departures()
    send(departures)
    acknowledge(departures, 1, 0, 0.9)
    assert departures.deadline == RESEND_S


def test_no_more_than_the_bound_is_sent_again_in_one_go() -> None:
    departures = Departures()
    for _ in range(RESEND_FRAMES_MAX + 10):
        send(departures)
    assert again(departures, RESEND_S) == [b"%d" % number for number in range(1, RESEND_FRAMES_MAX + 1)]
    acknowledge(departures, 6, 5, RESEND_S)
    assert again(departures, 2 * RESEND_S)[0] == b"6"


def test_room_ends_at_the_window_and_comes_back_with_what_is_done() -> None:
    departures = Departures()
    send(departures, count=LINK_WINDOW - 1)
    assert departures.room == 1
    send(departures, count=3)
    assert departures.room == 0
    acknowledge(departures, 2, LINK_WINDOW - 1)
    assert departures.room == LINK_WINDOW - 3


def test_one_that_is_done_ahead_of_others_is_returned_by_itself_and_once() -> None:
    departures = Departures()
    first = send(departures, count=3)
    (second,) = send(departures)
    assert acknowledge(departures, 3, 0, ahead=(1, 3)) == [first[1], second]
    assert acknowledge(departures, 3, 0, ahead=(1, 3)) == []
    assert departures.held == 2
    assert acknowledge(departures, 3, 4) == [first[0], first[2]]
    assert departures.held == 0


@pytest.mark.parametrize("place", [2, 99, 2**63 - 1])
def test_a_place_at_which_nothing_was_sent_is_passed_over(place: int) -> None:
    departures = Departures()
    send(departures, count=2)
    assert acknowledge(departures, 2, 0, ahead=(place,)) == []
    assert len(acknowledge(departures, 2, 2)) == 2


def test_a_connection_made_anew_sends_again_at_once_and_bears_the_silence_anew() -> None:
    departures = Departures()
    departures.connected(0.0)
    assert departures.deadline is None
    send(departures)
    again(departures, RESEND_S)
    departures.connected(SILENCE_S - 1)
    assert again(departures, SILENCE_S - 1) == [b"1"]
    assert not departures.are_stalled(SILENCE_S)
    assert departures.are_stalled(2 * SILENCE_S - 1)


def test_silence_counts_from_the_last_progress() -> None:
    departures = Departures()
    send(departures, 0.0)
    send(departures, 10.0)
    assert not departures.are_stalled(SILENCE_S - 0.1)
    assert departures.are_stalled(SILENCE_S)
    acknowledge(departures, 2, 0, 12.0)
    assert not departures.are_stalled(12.0 + SILENCE_S - 0.1)
    assert departures.are_stalled(12.0 + SILENCE_S)
    acknowledge(departures, 3, 0, 13.0)
    assert not departures.are_stalled(1_000.0)  # it may take its time


def test_when_all_has_come_and_nothing_is_said_of_what_became_of_it_they_are_quiet() -> None:
    departures = Departures()
    send(departures)
    assert not departures.are_quiet(99.0)  # it has not come
    acknowledge(departures, 2, 0, 1.0)
    assert departures.deadline == 1.0 + ASK_S
    assert not departures.are_quiet(1.0 + ASK_S - 0.1)
    assert departures.are_quiet(1.0 + ASK_S)
    acknowledge(departures, 2, 0, 9.0)
    assert not departures.are_quiet(1.0 + ASK_S)
    acknowledge(departures, 2, 1, 10.0)
    assert not departures.are_quiet(99.0)
    assert departures.deadline is None


@pytest.mark.parametrize(("come", "done"), [(4, 2), (3, 3), (2**63 - 1, 0), (0, 2**63 - 1)])
def test_an_acknowledgement_of_more_than_was_sent_is_passed_over(come: int, done: int) -> None:
    departures = Departures()
    send(departures)
    send(departures)
    assert acknowledge(departures, come, done, ahead=(0, 1)) == []
    assert again(departures, RESEND_S) == [b"1", b"2"]
    assert len(acknowledge(departures, 3, 2)) == 2


def test_acknowledgements_out_of_order_take_nothing_back() -> None:
    departures = Departures()
    for _ in range(3):
        send(departures)
    assert len(acknowledge(departures, 4, 2)) == 2
    for come, done in ((0, 0), (1, 0), (2, 1), (3, 0), (4, 2)):
        assert acknowledge(departures, come, done, ahead=(0, 1)) == []
    assert again(departures, 99.0) == []
    assert len(acknowledge(departures, 4, 3)) == 1


def test_the_end_of_a_conversation_gives_back_what_is_not_done_in_order() -> None:
    departures = Departures()
    first = send(departures, count=2)
    second = send(departures, count=3)
    third = send(departures)
    acknowledge(departures, 3, 2, 0.0, ahead=(3,))
    departures.end()
    assert (departures.held, departures.sequence, departures.deadline) == (0, 1, None)
    send(departures)
    assert departures.take_back() == [second[0], second[2], *third]
    assert departures.take_back() == []
    assert first
    departures.check()


class Joined:
    """Departures and Arrivals of one conversation, and the channels between them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.departures = Departures()
        self.arrivals = Arrivals()
        self.arrivals.begin(OURS)
        self.frames: list[bytes] = []
        self.acks: list[bytes] = []
        self.sent: list[Entry] = []
        self.taken: list[int] = []
        self.open: list[int] = []
        self.finished: list[Entry] = []

    def send(self, counts: Iterable[int]) -> None:
        for count in counts:
            entries = [entry(len(self.sent) + number) for number in range(count)]
            self.sent += entries
            messages = tuple(each.message for each in entries)
            data = encode(Frame(US, OURS, self.departures.sequence, messages))
            self.departures.sent(data, len(entries), entries, self.now)
            self.frames.append(data)

    def receive(self, at: int) -> None:
        """One of the frames under way arrives; which one, the channel decides."""
        if self.frames:
            frame = decode(self.frames.pop(at % len(self.frames)))
            if self.arrivals.take(frame, self.now):
                for message in frame.messages:
                    assert isinstance(message, Publication)
                    self.open.append(len(self.taken))
                    self.taken.append(message.sequence)
                if not frame.messages:
                    self.arrivals.asked()
        if self.acks:
            ack = decode_ack(self.acks.pop(at % len(self.acks)))
            finished = self.departures.acknowledged(ack, self.now)
            self.finished += finished

    def take_care(self, at: int) -> None:
        if self.open:
            self.arrivals.taken_care_of(self.open.pop(at % len(self.open)))

    def step(self, kind: str, amount: int) -> None:
        if kind == "send":
            self.send([amount % 3])
        elif kind == "receive":
            self.receive(0)
        elif kind == "receive out of order":
            self.receive(amount)
        elif kind == "take care":
            self.take_care(amount)
        elif kind == "lose":
            del self.frames[:amount]
            del self.acks[:1]
        elif kind == "double":
            self.frames += self.frames[:amount]
            self.acks += self.acks[-1:]
        else:
            self.now += amount / 2
        self.frames += self.departures.again(self.now)
        ack = self.arrivals.ack(THEM, self.now)
        if ack is not None:
            self.acks.append(ack)
        self.departures.check()
        self.arrivals.check()


joined_steps = st.tuples(
    st.sampled_from(["send", "receive", "receive", "receive out of order", "take care", "lose", "double", "wait"]),
    st.integers(0, 5),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(joined_steps, max_size=80))
def test_over_any_channel_every_frame_is_taken_once_in_order_and_everything_done_is_reported_once(
    script: list[tuple[str, int]],
) -> None:
    joined = Joined()
    for step in script:
        joined.step(*step)
        assert joined.taken == list(range(len(joined.taken)))
        done = set(range(len(joined.taken))) - set(joined.open)
        assert {joined.sent.index(entry) for entry in joined.finished} <= done
    while joined.departures.deadline is not None or joined.frames or joined.acks:
        joined.step("receive", 0)
        joined.step("take care", 0)
        joined.step("wait", 1 if not (joined.frames or joined.acks) else 0)
        if joined.departures.are_quiet(joined.now):  # what was last said has been lost
            joined.send([0])
        assert joined.now < 1_000
    assert joined.taken == list(range(len(joined.sent)))
    assert len(joined.finished) == len(joined.sent)
    assert set(map(id, joined.finished)) == set(map(id, joined.sent))
    assert joined.departures.held == 0
