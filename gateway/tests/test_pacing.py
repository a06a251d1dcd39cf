"""A line of bounded speed: order, rate, and when it is crowded."""

import random

from mqloom.gateway.pacing import LATE_S, OUTPUT_QUEUE_S, SLICE_S, Pacer


def test_an_idle_line_sends_at_once_and_then_no_faster_than_it_may() -> None:
    sent: list[int] = []
    pacer = Pacer(100.0)
    for number in range(3):
        pacer.put(50, lambda number=number: sent.append(number))  # type: ignore[misc]
    pacer.send(10.0)
    assert sent == [0]
    assert pacer.next_at is not None
    assert 10.4 < pacer.next_at <= 10.5
    pacer.send(10.4)
    assert sent == [0]
    pacer.send(10.5)
    assert sent == [0, 1]
    pacer.send(11.0)
    assert sent == [0, 1, 2]
    assert pacer.next_at is None


def test_more_than_a_moment_is_not_made_up_for() -> None:
    sent: list[float] = []
    pacer = Pacer(1_000.0)
    for _ in range(1_000):
        pacer.put(10, lambda: sent.append(0.0))
    pacer.send(0.0)
    pacer.send(5.0)
    assert len(sent) <= 2 + 2 * LATE_S * 100


def test_over_a_long_time_the_rate_is_kept_however_late_it_is_called() -> None:
    rng, sent, now = random.Random(1), [0], 0.0
    pacer = Pacer(10_000.0)
    for _ in range(5_000):
        pacer.put(100, lambda: sent.__setitem__(0, sent[0] + 100))
    while now < 20.0:
        pacer.send(now)
        now += rng.uniform(0.001, LATE_S * 0.9)
    assert 0.98 <= sent[0] / (10_000 * 20.0) <= 1.02


def test_it_is_crowded_past_its_bound_and_has_room_at_a_quarter_of_it() -> None:
    pacer = Pacer(100.0)
    bound = 100.0 * OUTPUT_QUEUE_S
    assert not pacer.is_crowded
    assert pacer.has_room
    for _ in range(11):
        pacer.put(10, lambda: None)
    assert pacer.waiting_bytes > bound
    assert pacer.is_crowded
    now = 0.0
    while not pacer.has_room:
        pacer.send(now)
        now += 0.1
    assert not pacer.is_crowded
    assert pacer.waiting_bytes <= bound / 4


def test_what_has_to_wait_leaves_many_at_once_and_not_one_by_one() -> None:
    sent: list[float] = []
    pacer, now, wakings = Pacer(100_000.0), 0.0, 0
    for _ in range(1_000):
        pacer.put(100, lambda: sent.append(0.0))
    while pacer.next_at is not None:
        now = max(now, pacer.next_at)
        pacer.send(now)
        wakings += 1
    assert len(sent) == 1_000
    assert 1.0 - LATE_S - SLICE_S <= now <= 1.0 + SLICE_S
    assert wakings <= 1.0 / SLICE_S + 1
