"""Times of publication: their number, their spread, and changes of the rate."""

import random
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.lab.arrivals import Rate, constant, periodic, poisson


def until(end: float, times: Iterator[float]) -> list[float]:
    return list(takewhile(lambda time: time < end, times))


def test_periodic_times_are_evenly_apart_and_begin_with_their_phase() -> None:
    assert list(islice(periodic(constant(4.0), phase=0.5), 4)) == [0.125, 0.375, 0.625, 0.875]


def test_a_million_periods_later_the_times_are_still_exact() -> None:
    assert next(islice(periodic(constant(1_000.0)), 1_000_000, None)) == 1_000.0


def test_a_period_in_which_the_rate_doubles_is_shortened_by_the_rest_of_it_only() -> None:
    rate = Rate(((0.0, 1.0), (2.5, 2.0)))
    assert list(islice(periodic(rate), 6)) == [0.0, 1.0, 2.0, 2.75, 3.25, 3.75]


def test_a_rate_of_nothing_is_a_pause_and_at_the_end_it_is_the_end() -> None:
    rate = Rate(((0.0, 1.0), (2.5, 0.0), (10.0, 1.0), (12.0, 0.0)))
    assert list(periodic(rate)) == [0.0, 1.0, 2.0, 10.5, 11.5]
    assert list(poisson(constant(0.0), random.Random(1))) == []


def test_poisson_intervals_have_the_mean_and_the_deviation_of_exponential_ones() -> None:
    times = list(islice(poisson(constant(50.0), random.Random(1)), 20_000))
    intervals = [later - earlier for earlier, later in pairwise(times)]
    assert fmean(intervals) == pytest.approx(0.02, rel=0.03)
    assert pstdev(intervals) == pytest.approx(0.02, rel=0.03)
    assert sum(interval > 0.02 for interval in intervals) / len(intervals) == pytest.approx(0.368, abs=0.015)


def test_poisson_counts_vary_as_much_as_their_mean() -> None:
    times = until(2_000.0, poisson(constant(10.0), random.Random(2)))
    counts = [0] * 2_000
    for time in times:
        counts[int(time)] += 1
    assert fmean(counts) == pytest.approx(10.0, rel=0.03)
    assert pstdev(counts) ** 2 == pytest.approx(10.0, rel=0.1)


def test_poisson_follows_a_rate_that_changes() -> None:
    rate = Rate(((0.0, 10.0), (1_000.0, 20.0)))
    times = until(2_000.0, poisson(rate, random.Random(3)))
    assert sum(time < 1_000 for time in times) == pytest.approx(10_000, rel=0.05)
    assert sum(time >= 1_000 for time in times) == pytest.approx(20_000, rel=0.05)


def test_the_same_seed_gives_the_same_times_to_the_last_bit() -> None:
    times = [list(islice(poisson(constant(3.0), random.Random(7)), 100)) for _ in range(2)]
    assert times[0] == times[1]
    assert times[0] != list(islice(poisson(constant(3.0), random.Random(8)), 100))


rates = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=5)


@given(rates, st.floats(0, 1, exclude_max=True))
def test_there_are_as_many_as_expected_in_rising_order(steps: list[tuple[int, int]], phase: float) -> None:
    starts = [0.0]
    for length, _ in steps[:-1]:
        starts.append(starts[-1] + length)
    rate = Rate(tuple((start, float(each)) for start, (_, each) in zip(starts, steps, strict=True)))
    times = until(100.0, periodic(rate, phase))
    assert abs(len(times) - rate.expected(100.0)) <= 1
    assert all(earlier < later for earlier, later in pairwise(times))
    assert all(rate.at(time) > 0 for time in times)


@pytest.mark.parametrize("steps", [(), ((1.0, 1.0),), ((0.0, 1.0), (0.0, 2.0)), ((0.0, -1.0),), ((0.0, float("inf")),)])
def test_what_is_no_rate_is_refused(steps: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValueError, match="rate"):
        Rate(steps)
