"""When which broker will be full, of which resource, and how sure that is.

Spark has put load into buckets of time; the fit of each small series is `trend`. A resource of which nothing is said
does not grow, as far as can be told, or too slowly to be full within the horizon.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from mqloom.spark_analytics.capacity.frames import Columns, split
from mqloom.spark_analytics.capacity.thresholds import FULL, RESOURCES
from mqloom.spark_analytics.capacity.trend import Trend, fit

SCHEMA: Final = (
    "gateway string, resource string, peak double, peak_hour int, growth_per_day double, growth_spread double, "
    "full_at double, full_from double, full_to double"
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One resource of one broker that grows, and will be full."""

    gateway: str
    resource: str
    trend: Trend

    @property
    def full_at(self) -> float:
        """When, in Unix time."""
        assert self.trend.full_at is not None
        return self.trend.full_at

    def row(self) -> tuple[object, ...]:
        """Return it as a row of `SCHEMA`."""
        trend = self.trend
        dates = trend.full_at, trend.full_from, trend.full_to
        return (
            self.gateway,
            self.resource,
            trend.peak,
            trend.peak_hour,
            trend.growth_per_day,
            trend.growth_spread,
            *dates,
        )


def forecasts_of(over_time: Columns, full: float = FULL) -> list[Forecast]:
    """Return what grows until it is full, the soonest first; from collected `utilisation_over_time`."""
    found = []
    for gateway, series in split(over_time, "gateway").items():
        order = np.argsort(series["bucket_at"])
        times = series["bucket_at"][order].astype(np.float64)
        for resource in RESOURCES:
            trend = fit(times, series[f"{resource}_mean"][order].astype(np.float64), full)
            if trend is not None and trend.is_growing:
                found.append(Forecast(gateway, resource, trend))
    return sorted(found, key=lambda each: (each.full_at, each.gateway, each.resource))
