"""Frames that come out of a park: each is taken once, and nothing that was not done is refused."""

import random

from mqloom.core.limits import EARLIER_PARKED_S, PARKED_RANGES_MAX
from mqloom.gateway.taken_frames import TakenFrames

NOW, OLD = 7, 5


def take(frames: TakenFrames, number: int, receipt: int, epoch: int = NOW, now: float = 0.0) -> str:
    return frames.take(epoch, number, b"%d %d" % (epoch, number), receipt, now)


def test_what_is_done_is_not_taken_again_and_what_comes_behind_higher_numbers_is() -> None:
    frames = TakenFrames(NOW)
    for number in (1, 2, 4):  # the broker refused 3, which is put in again
        assert take(frames, number, number) == "new"
        assert frames.settle(number) == [number]
    assert [take(frames, number, 9) for number in (1, 2, 4)] == ["done"] * 3
    assert take(frames, 3, 3) == "new"
    frames.settle(3)
    assert take(frames, 3, 10) == "done"
    frames.check()


def test_a_copy_of_what_is_under_way_is_acknowledged_with_it_and_not_before() -> None:
    frames = TakenFrames(NOW)
    assert (take(frames, 1, 11), take(frames, 1, 12)) == ("new", "copy")
    assert frames.settle(11) == [11, 12]
    assert frames.settle(12) == [12]  # settled already: whoever asks passes it over
    frames.check()


def test_what_was_not_done_when_the_link_was_lost_is_taken_again() -> None:
    frames = TakenFrames(NOW)
    frames.marked(0.0, comes_in_order=True)
    take(frames, 1, 11)
    take(frames, 2, 12)
    frames.settle(11)
    frames.void()
    assert (take(frames, 1, 21), take(frames, 2, 22)) == ("done", "new")
    frames.check()


def test_earlier_epochs_count_until_our_first_marker_and_what_of_them_is_not_done_after_it_too() -> None:
    frames = TakenFrames(NOW)
    assert [take(frames, number, number, OLD) for number in (3, 4)] == ["new", "new"]
    frames.marked(0.0, comes_in_order=True)
    frames.settle(3)
    assert take(frames, 2, 5, OLD) == "done"  # written by somebody who has it from before
    assert take(frames, 3, 6, OLD) == "done"
    assert take(frames, 4, 7, OLD) == "copy"
    frames.void()
    assert take(frames, 4, 8, OLD) == "new"
    frames.settle(8)
    assert take(frames, 4, 9, OLD) == "done"
    frames.check()


def test_a_broker_that_sends_again_late_has_time_for_it() -> None:
    frames = TakenFrames(NOW)
    frames.marked(1.0, comes_in_order=False)
    frames.marked(500.0, comes_in_order=False)  # the first counts
    assert take(frames, 1, 1, OLD, EARLIER_PARKED_S) == "new"
    assert take(frames, 2, 2, OLD, EARLIER_PARKED_S + 1.0) == "done"


def test_frames_of_an_earlier_release_which_have_no_number_are_told_apart() -> None:
    frames = TakenFrames(NOW)
    assert [frames.take(OLD, 0, data, receipt, 0.0) for receipt, data in enumerate((b"a", b"b"), 1)] == ["new", "new"]


def test_of_an_earlier_park_for_the_same_neighbour_nothing_counts() -> None:
    frames = TakenFrames(NOW, numbered=9)
    assert frames.next_number() == 10
    assert (take(frames, 9, 1), take(frames, 10, 2)) == ("done", "new")


def test_in_any_order_each_is_taken_once_and_what_is_kept_is_bounded() -> None:
    chance = random.Random(4)
    frames = TakenFrames(NOW)
    numbers = list(range(1, 2_000))
    chance.shuffle(numbers)
    for number in numbers:
        assert take(frames, number, number) == "new"
        frames.settle(number)
        frames.check()
    assert {take(frames, number, number) for number in numbers} == {"done"}
    gaps = TakenFrames(NOW)
    for number in range(2, 10 * PARKED_RANGES_MAX, 2):
        take(gaps, number, number)
        gaps.settle(number)
    gaps.check()
    assert take(gaps, 10 * PARKED_RANGES_MAX - 2, 1) == "done"
    assert take(gaps, 3, 3) == "new"
