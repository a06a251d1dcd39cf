"""A trend with a daily pattern, and how sure it is."""

import numpy as np
import pytest

from mqloom.spark_analytics.capacity.thresholds import FULL
from mqloom.spark_analytics.capacity.trend import DAY_S, Floats, fit

START_AT = 1_772_409_600.0
SWING = 0.4


def series(
    seed: int, per_day: float = 0.03, days: int = 21, step_s: float = 3_600.0, base: float = 0.3, lasting: float = 0.0
) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    times = START_AT + np.arange(0, days * DAY_S, step_s)
    day = (times - START_AT) / DAY_S
    noise = generator.normal(0, 0.05 * np.sqrt(1 - lasting**2), len(times))
    for place in range(1, len(noise)):
        noise[place] += lasting * noise[place - 1]
    pattern = 1 + SWING * np.cos(2 * np.pi * (day % 1 - 14 / 24))
    return times, base * (1 + per_day * day) * pattern * np.exp(noise)


def truth(per_day: float = 0.03, base: float = 0.3) -> float:
    return START_AT + (FULL / ((1 + SWING) * base) - 1) / per_day * DAY_S


def test_the_stated_interval_has_the_true_date_nine_times_in_ten() -> None:
    hits = 0
    for seed in range(60):
        trend = fit(*series(seed))
        assert trend is not None
        assert trend.full_from is not None
        assert trend.full_to is not None
        hits += trend.full_from <= truth() <= trend.full_to
    assert 47 <= hits <= 60  # 54, and three standard deviations


def test_the_interval_says_something() -> None:
    trend = fit(*series(1))
    assert trend is not None
    assert trend.full_from is not None
    assert trend.full_to is not None
    assert (trend.full_to - trend.full_from) / DAY_S < 10
    assert trend.peak_hour == pytest.approx(14, abs=1)


@pytest.mark.parametrize("lasting", [0.0, 0.9, 0.99, 0.999])
def test_noise_that_wanders_is_no_growth(lasting: float) -> None:
    found = [fit(*series(seed, per_day=0.0, lasting=lasting)) for seed in range(25)]
    assert not [seed for seed, trend in enumerate(found) if trend is None or trend.is_growing]


def test_what_shrinks_is_never_full() -> None:
    trend = fit(*series(3, per_day=-0.02, base=0.6))
    assert trend is not None
    assert not trend.is_growing
    assert trend.full_at is None


def test_a_few_wild_hours_move_the_date_by_little() -> None:
    times, values = series(4)
    calm = fit(times, values)
    wild = values.copy()
    wild[[40, 41, 42, 200, 201]] = 5.0
    bent = fit(times, wild)
    assert calm is not None
    assert bent is not None
    assert calm.full_at is not None
    assert bent.full_at is not None
    assert abs(calm.full_at - bent.full_at) < 1.5 * DAY_S


def test_under_four_days_nothing_is_said() -> None:
    assert fit(*series(5, days=3)) is None
    assert fit(*series(5, days=4)) is not None


def test_lost_hours_do_no_harm() -> None:
    times, values = series(6)
    kept = np.random.default_rng(6).random(len(times)) > 0.2
    trend = fit(times[kept], values[kept])
    assert trend is not None
    assert trend.full_from is not None
    assert trend.full_to is not None
    assert trend.full_from <= truth() <= trend.full_to


def test_what_would_be_full_in_many_years_is_not_said() -> None:
    trend = fit(*series(7, per_day=0.01, base=0.05))
    assert trend is not None
    assert trend.full_at is None
    assert not trend.is_growing


def test_weekends_are_not_taken_for_a_fall() -> None:
    times, values = series(8, days=19)  # ends on a Saturday
    weekend = (np.floor(times / DAY_S) + 3) % 7 >= 5
    trend = fit(times, np.where(weekend, 0.6 * values, values))
    assert trend is not None
    assert trend.full_from is not None
    assert trend.full_to is not None
    assert trend.full_from <= truth() <= trend.full_to


def test_the_band_is_drawn_around_the_line() -> None:
    trend = fit(*series(9))
    assert trend is not None
    middle, low, high = trend.peaks(np.array([trend.start_at, trend.end_at, trend.end_at + 20 * DAY_S]))
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert middle[1] == pytest.approx(trend.peak)
