"""How far a line through days can be wrong when days err together."""

import numpy as np
import pytest

from mqloom.spark_analytics.capacity.wandering import SEPARATE, SHARES, Floats, drawn_lines

DAYS = np.arange(21.0)
LINE = np.column_stack([np.ones_like(DAYS), DAYS])


def left_over(errors: Floats) -> Floats:
    return np.asarray(errors - LINE @ np.linalg.lstsq(LINE, errors, rcond=None)[0], np.float64)


def wandering(seed: int, share: float) -> Floats:
    generator = np.random.default_rng(seed)
    found = generator.normal(size=len(DAYS))
    for place in range(1, len(found)):
        found[place] = share * found[place - 1] + np.sqrt(1 - share**2) * found[place]
    return found


def held(of_series: Floats, shares: Floats) -> int:
    """Return in how many of a hundred series without growth the middle 90% of slopes have none in it."""
    count = 0
    for seed in range(100):
        errors = wandering(seed, of_series[seed % len(of_series)])
        slopes = np.polyfit(DAYS, errors, 1)[0] + drawn_lines(DAYS, LINE, left_over(errors), shares)[:, 1]
        low, high = np.quantile(slopes, (0.05, 0.95))
        count += bool(low <= 0 <= high)
    return count


@pytest.mark.parametrize("of_series", [SEPARATE, np.full(1, 0.5), SHARES], ids=["separate", "half", "any"])
def test_the_middle_of_the_draws_has_the_truth_nine_times_in_ten(of_series: Floats) -> None:
    assert held(of_series, SHARES) >= 87  # 90, less a standard deviation


def test_of_days_that_wander_far_the_draws_claim_much_less_than_if_they_were_separate() -> None:
    far = np.full(1, 0.9)
    assert held(far, SHARES) >= held(far, SEPARATE) + 20


def test_separate_days_give_the_spread_of_the_textbook() -> None:
    errors = left_over(wandering(1, 0.0))
    low, high = np.quantile(drawn_lines(DAYS, LINE, errors, SEPARATE)[:, 1], (0.05, 0.95))
    error = np.sqrt((errors**2).sum() / 19 / ((DAYS - DAYS.mean()) ** 2).sum())
    assert (high - low) / 2 == pytest.approx(1.729 * error, rel=0.06)  # Student's 95% quantile of 19 degrees


def test_the_same_days_give_the_same_draws() -> None:
    errors = left_over(wandering(2, 0.5))
    assert (drawn_lines(DAYS, LINE, errors) == drawn_lines(DAYS, LINE, errors)).all()


def test_days_that_are_exactly_on_a_line_leave_no_doubt() -> None:
    assert np.abs(drawn_lines(DAYS, LINE, np.zeros_like(DAYS))).max() < 1e-6
