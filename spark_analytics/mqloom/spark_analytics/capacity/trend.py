"""A trend with a daily pattern, and how sure it is: numpy on a small series, no clock, no randomness but a fixed seed.

The model. A resource at time t (days) and hour h of the day is A(h) + B(h) t: a level and a growth, each with a smooth
daily pattern (harmonics), so that the busiest hour may grow faster than the night. From a week on weekends have a level
of their own, and from two weeks on a growth, a swing and a growth of that. Outliers count less (Huber's weights), so a
night's backup or a lost hour does not bend the line.

How sure. What the model leaves over is summed up by day: of the whole day, and of the busiest hour as far as it does
not follow the day. Hours err together, so a day is one sample. Days err together, too, where load comes in slow waves:
lines that the days allow are drawn with that in mind (`wandering`). The date at which the busiest hour is full is
worked out for each draw, and the middle 90% of these dates are the interval that is stated.

What is no trend. Growth counts only if it is several times its own spread, and large enough to matter; under four days
nothing is said, because a trend could not be told from the time of day.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.spark_analytics.capacity.thresholds import FULL
from mqloom.spark_analytics.capacity.wandering import SEPARATE, drawn_lines

DAY_S: Final = 86_400.0
DAYS_LEAST: Final = 4.0
WEEKEND_DAYS: Final = 7.0
"""From here on weekends have a level of their own; from twice as many days on a growth and a swing, too."""
HARMONICS: Final = 3
GROWING_HARMONICS: Final = 2
SURE: Final = 3.0
"""How many times its own spread growth must be: by chance that comes once in 700 series, if it is that large at all."""
GROWTH_LEAST: Final = 0.03
"""How much must be added while we look: less is no growth that matters."""
INTERVAL: Final = (0.05, 0.95)
HORIZON_DAYS: Final = 365.0
HORIZON_SPANS: Final = 6.0
"""How far ahead a date is told: a year, and six times as long as was looked at."""
DAY_SHARE_LEAST: Final = 0.5
"""Of a day less than that says nothing of how far days err."""
NORMAL: Final = 1.645
"""How many standard deviations of a normal distribution it is from its middle to an end of the interval."""
_HUBER: Final = 2.0
_WILD: Final = 3.5
_PHASES: Final = np.arange(96) / 96.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Line:
    """The busiest hour: when it is, as a share of the day, its level at the beginning and its growth a day."""

    phase: float
    level: float
    slope: float


@dataclass(frozen=True, slots=True)
class Trend:
    """What a series does: a level, a growth a day, and when its busiest hour is full. Times are Unix times."""

    start_at: float
    end_at: float
    growth_per_day: float
    """Of the busiest hour."""
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
    """The busiest hour at the beginning, of each draw, the first being the middle; with `slope` for plots."""
    slope: Floats

    def peaks(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the busiest hour's level at some times: the middle, and the bounds of the interval."""
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
    coefficients = _robust(design, values)
    line = _busiest(coefficients, days[-1])
    draws = _draws(days, values - design @ coefficients, phase - line.phase, weekend)
    if draws is None:
        return None
    # Where days err together the middle of the draws is nearer to the truth than the fit, which took days for separate.
    middle = np.median(draws[:, :2], axis=0)
    level = line.level + np.concatenate([[middle[0]], draws[:, 0]])
    slope = line.slope + np.concatenate([[middle[1]], draws[:, 1]])
    low, high = np.quantile(slope[1:], INTERVAL)
    growth, spread = float(slope[0]), float(high - low) / (2 * NORMAL)
    is_growing = growth > SURE * spread and growth * days[-1] >= GROWTH_LEAST
    full_at = full_from = full_to = None
    if is_growing:
        full_at, full_from, full_to = _dates(level, slope, days[-1], full, times[0])
    return Trend(
        start_at=float(times[0]),
        end_at=float(times[-1]),
        growth_per_day=growth,
        growth_spread=spread,
        peak=float(level[0] + growth * days[-1]),
        peak_hour=int(line.phase * 24),
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
            swing = _waves(phase, 1)
            columns += [weekend * each for each in (days, *swing, *(days * wave for wave in swing))]
    return np.column_stack(columns)


def _robust(design: Floats, values: Floats) -> Floats:
    """Return the coefficients, by Huber's weights."""
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
    return coefficients


def _draws(days: Floats, residuals: Floats, after_busiest: Floats, weekend: Floats | None) -> Floats | None:
    """Return by how much level and growth of the busiest hour may be other than fitted; None of too few days."""
    usual = 1.4826 * float(np.median(np.abs(residuals)))
    residuals = np.clip(residuals, -_WILD * usual, _WILD * usual)  # what counts little in the fit does so here, too
    step = float(np.median(np.diff(days)))
    number = np.floor(days + 1e-9).astype(np.int64)
    turns = 2 * np.pi * after_busiest  # what a day's own harmonics would make of the busiest hour:
    kernel = 1 + 2 * np.sum([np.cos(each * turns) for each in range(1, GROWING_HARMONICS + 1)], axis=0)
    enough = np.bincount(number) * step >= DAY_SHARE_LEAST
    whole = np.bincount(number, residuals * step)[enough].astype(np.float64)
    busiest = np.bincount(number, kernel * residuals * step)[enough].astype(np.float64)
    weekends = None if weekend is None else np.bincount(number, weekend * step)[enough] > 0.5
    found = np.flatnonzero(enough).astype(np.float64)
    design = _line(found, weekends, is_long=days[-1] >= 2 * WEEKEND_DAYS)
    if len(design) <= design.shape[1]:
        return None
    # Slow waves show in whole days, where less noise hides them. What is left of the busiest hour has no part in them.
    follows = float(whole @ busiest) / max(float(whole @ whole), 1e-18)
    wave, rest = drawn_lines(found, design, whole), drawn_lines(found, design, busiest - follows * whole, SEPARATE)
    return follows * wave + rest


def _profile(coefficients: Floats, day: float) -> Floats:
    """Return the level at each phase of a working day."""
    design = _design(np.full(len(_PHASES), day), _PHASES, None)
    return np.asarray(design @ coefficients[: design.shape[1]], np.float64)


def _line(days: Floats, weekend: NDArray[np.bool_] | None, *, is_long: bool) -> Floats:
    """Return the columns for one value a day: level and growth, and those of weekends."""
    columns = [np.ones_like(days), days]
    if weekend is not None and 0 < weekend.sum() < len(days):
        columns.append(weekend.astype(np.float64))
        if is_long:
            columns.append(weekend * days)
    return np.column_stack(columns)


def _busiest(coefficients: Floats, last_day: float) -> _Line:
    """Return the hour that will be the busiest as long ahead as was looked at, its level at first, and growth."""
    place = int(np.argmax(_profile(coefficients, last_day * 2)))
    first, last = _profile(coefficients, 0.0)[place], _profile(coefficients, last_day)[place]
    return _Line(float(_PHASES[place]), float(first), float((last - first) / last_day))


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
