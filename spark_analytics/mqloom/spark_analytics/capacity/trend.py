"""A trend with a daily pattern, and how sure it is: numpy on a small series, no clock, no randomness but a fixed seed.

The model. A resource at time t (days) and hour h of the day is A(h) + B(h) t: a level and a growth, each with a smooth
daily pattern (harmonics), so that the busiest hour may grow faster than the night. From a week on weekends have a level
of their own, and from two weeks on a growth and a swing. Outliers count less (Huber's weights), so a night's backup or
a lost hour does not bend the line.

How sure. What the model leaves over is drawn again in blocks of whole days (a block bootstrap), because neighbouring
hours err together. Where neighbouring days err together, too, the spread is widened by their correlation; few days
widen it by Student's quantile. The date at which the busiest hour is full is worked out for each draw, and the middle
90% of these dates are the interval that is stated.

What is no trend. Growth counts only if it is several times its own spread, and large enough to matter; under four days
nothing is said, because a trend could not be told from the time of day.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.spark_analytics.capacity.thresholds import FULL

DAY_S: Final = 86_400.0
DAYS_LEAST: Final = 4.0
WEEKEND_DAYS: Final = 7.0
"""From here on weekends have a level of their own; from twice as many days on a growth and a swing, too."""
HARMONICS: Final = 3
GROWING_HARMONICS: Final = 2
DRAWS: Final = 400
SURE: Final = 4.0
"""How many times its own spread growth must be: by chance that comes once in 30,000 series."""
GROWTH_LEAST: Final = 0.03
"""How much must be added while we look: less is no growth that matters."""
INTERVAL: Final = (0.05, 0.95)
HORIZON_DAYS: Final = 365.0
HORIZON_SPANS: Final = 6.0
"""How far ahead a date is told: a year, and six times as long as was looked at."""
CORRELATION_MAX: Final = 0.8
_HUBER: Final = 2.0
_WILD: Final = 3.5
_HOURS: Final = np.arange(24) / 24.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trend:
    """What a series does: a level, a growth a day, and when its busiest hour is full. Times are Unix times."""

    start_at: float
    end_at: float
    growth_per_day: float
    growth_spread: float
    """One standard error of it."""
    peak: float
    """The busiest hour of an ordinary day now, as the model has it."""
    peak_hour: int
    is_growing: bool
    full_at: float | None
    full_from: float | None
    full_to: float | None
    """None, where the growth counts: later than can be said."""
    level: Floats
    """The busiest hour at the beginning, of each draw, the first being the fit itself; with `slope` for plots."""
    slope: Floats

    def peaks(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the busiest hour's level at some times: as fitted, and the bounds of the interval."""
        days = (at - self.start_at) / DAY_S
        lines = self.level[:, np.newaxis] + self.slope[:, np.newaxis] * days
        low, high = np.quantile(lines[1:], INTERVAL, axis=0)
        return lines[0], low, high


def fit(times: Floats, values: Floats, full: float = FULL) -> Trend | None:
    """Return what a series of means by bucket does; None if it is too short to say. Times are sorted."""
    if len(times) < 24 or times[-1] - times[0] < (DAYS_LEAST - 0.1) * DAY_S:
        return None
    days = (times - times[0]) / DAY_S
    phase = (times % DAY_S) / DAY_S
    weekend = _weekend(times) if days[-1] >= WEEKEND_DAYS else None
    design = _design(days, phase, weekend)
    weights, coefficients = _robust(design, values)
    draws = _draws(design, weights, values - design @ coefficients, days, len(values))
    all_of_them = np.vstack([coefficients, coefficients + draws])
    growth, spread = float(coefficients[1]), float(draws[:, 1].std())
    is_growing = growth > SURE * spread and growth * days[-1] >= GROWTH_LEAST
    level, slope = _busiest(all_of_them, days[-1])
    hour = int(np.argmax(_profile(coefficients[np.newaxis], days[-1])[0]))
    peak = float(level[0] + slope[0] * days[-1])
    full_at = full_from = full_to = None
    if is_growing:
        full_at, full_from, full_to = _dates(level, slope, days[-1], full, times[0])
    return Trend(
        start_at=float(times[0]),
        end_at=float(times[-1]),
        growth_per_day=growth,
        growth_spread=spread,
        peak=peak,
        peak_hour=hour,
        is_growing=is_growing and full_at is not None,
        full_at=full_at,
        full_from=full_from,
        full_to=full_to,
        level=level,
        slope=slope,
    )


def _weekend(times: Floats) -> Floats:
    """Return 1 for Saturday and Sunday (the first day of Unix time was a Thursday), else 0."""
    return ((np.floor(times / DAY_S) + 3) % 7 >= 5).astype(np.float64)


def _waves(phase: Floats, number: int) -> list[Floats]:
    return [wave(2 * np.pi * harmonic * phase) for harmonic in range(1, number + 1) for wave in (np.sin, np.cos)]


def _design(days: Floats, phase: Floats, weekend: Floats | None) -> Floats:
    """Return the columns: level, growth, daily pattern, its growth, and weekends."""
    columns = [np.ones_like(days), days, *_waves(phase, HARMONICS)]
    columns += [days * wave for wave in _waves(phase, GROWING_HARMONICS)]
    if weekend is not None:
        columns.append(weekend)
        if days[-1] >= 2 * WEEKEND_DAYS:
            columns += [weekend * days, *(weekend * wave for wave in _waves(phase, 1))]
    return np.column_stack(columns)


def _robust(design: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return Huber's weights, and the coefficients that they give."""
    weights: Floats = np.ones_like(values)
    coefficients: Floats = np.zeros(design.shape[1])
    for _ in range(12):
        root = np.sqrt(weights)
        solved = np.linalg.lstsq(design * root[:, np.newaxis], values * root, rcond=None)[0]
        coefficients = solved.astype(np.float64)
        residuals = values - design @ coefficients
        scale = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
        if scale < 1e-12:
            break
        weights = np.minimum(1.0, _HUBER * scale / np.maximum(np.abs(residuals), 1e-12)).astype(np.float64)
    return weights, coefficients


def _draws(design: Floats, weights: Floats, residuals: Floats, days: Floats, count: int) -> Floats:
    """Return by how much the coefficients change when whole days of what is left over are drawn again."""
    usual = 1.4826 * float(np.median(np.abs(residuals)))
    residuals = np.clip(residuals, -_WILD * usual, _WILD * usual)  # what counts little in the fit does so here, too
    weighted = design * weights[:, np.newaxis]
    solve = np.linalg.pinv(design.T @ weighted) @ weighted.T
    number = np.floor(days + 1e-9).astype(np.int64)
    slots = np.round((days - number) / np.median(np.diff(days))).astype(np.int64)
    table = np.zeros((int(number[-1]) + 1, int(slots.max()) + 1))
    table[number, slots] = residuals
    generator = np.random.default_rng(20_010)
    found = np.empty((DRAWS, design.shape[1]))
    widen = _widening(table, number)
    for draw in range(DRAWS):
        chosen = generator.integers(0, len(table), len(table))
        signs = generator.choice((-1.0, 1.0), len(table))  # so that a few odd days do not lean all one way
        found[draw] = solve @ (signs[number] * table[chosen[number], slots])
    assert count == len(residuals)
    return found * widen


def _widening(table: Floats, number: NDArray[np.int64]) -> float:
    """Return by how much the spread is more: few days, and days that err together."""
    days = len(table)
    freedom = max(1.0, days - 3.0)
    student = 1 + (1.96**2 + 1) / (4 * freedom)  # Student's 97.5% quantile over that of the normal distribution
    counts = np.bincount(number, minlength=days)
    means = table.sum(axis=1) / np.maximum(counts, 1)
    spread = float((means * means).sum())
    together = float((means[1:] * means[:-1]).sum()) / spread if spread > 1e-18 else 0.0
    correlation = min(CORRELATION_MAX, max(0.0, together + 1 / days))  # a short series looks less correlated than it is
    return float(student * np.sqrt(days / max(1.0, days - 2)) * np.sqrt((1 + correlation) / (1 - correlation)))


def _profile(coefficients: Floats, day: float) -> Floats:
    """Return the level of each hour of a working day, a row for each row of coefficients."""
    design = _design(np.full(24, day), _HOURS, None)
    return coefficients[:, : design.shape[1]] @ design.T


def _busiest(coefficients: Floats, last_day: float) -> tuple[Floats, Floats]:
    """Return level at the beginning and growth a day of that hour which will be the busiest, of each draw."""
    ahead = _profile(coefficients, last_day * 2)
    hours = np.argmax(ahead, axis=1)
    rows = np.arange(len(coefficients))
    first = _profile(coefficients, 0.0)[rows, hours]
    last = _profile(coefficients, last_day)[rows, hours]
    return first, (last - first) / last_day


def _dates(
    level: Floats, slope: Floats, last_day: float, full: float, start_at: float
) -> tuple[float | None, float | None, float | None]:
    """Return when the busiest hour is full, and the interval; None for what is beyond the horizon."""
    with np.errstate(divide="ignore", invalid="ignore"):
        days = np.where(slope > 0, (full - level) / slope, np.inf)
    days = np.maximum(days, last_day)  # what is full already is full now
    horizon = last_day + min(HORIZON_DAYS, HORIZON_SPANS * last_day)
    low, high = np.quantile(days[1:], INTERVAL, method="nearest")
    if days[0] > horizon:
        return None, None, None
    return tuple(start_at + float(day) * DAY_S if day <= horizon * 2 else None for day in (days[0], low, high))  # type: ignore[return-value]
