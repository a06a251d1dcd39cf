"""Which brokers were overloaded, for so long that it was no spike: of all the time, or of its last day.

Telemetry is kept for months, and a share of these is many hours: by that alone a broker that has been overloaded since
this morning would not be told of.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from mqloom.spark_analytics.alerts import Limits
from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.dates import DAY_S
from mqloom.spark_analytics.capacity.frames import split
from mqloom.spark_analytics.capacity.thresholds import RESOURCES

WINDOWS_LEAST: Final = Limits().windows
"""Those of an alert."""
OVERLOAD_SHARE: Final = 0.005
"""A broker that was overloaded in a smaller share of its windows, or in fewer than an alert takes, had a spike."""
STILL_SHARE: Final = 0.1
"""Overload goes on if there was some in the last tenth of the time, or the last day of more than ten."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One resource of one broker that was used by too much."""

    gateway: str
    resource: str
    windows: int
    """In so many windows."""
    share: float
    """Of so many of those that were looked at."""
    is_of_last_day: bool
    """Whether these two are of the last day alone: on the whole it would be a spike."""
    last_at: float
    is_lasting: bool


def overloads_of(analysis: Analysis) -> Iterator[Overload]:
    """Return what was overloaded, by broker."""
    table = analysis.utilisation
    recent = analysis.daily["bucket_at"].astype(np.float64) >= analysis.end_at - DAY_S
    days = split({name: values[recent] for name, values in analysis.daily.items()}, "gateway")
    late_at = analysis.end_at - min(DAY_S, STILL_SHARE * analysis.seconds)
    for place, broker in enumerate(analysis.brokers):
        day = days.get(broker)
        for name in RESOURCES:
            column = f"{name}_overloaded"
            whole = int(table[column][place]), int(table["windows"][place])
            lately = (0, 0) if day is None else (int(day[column].sum()), int(day["windows"].sum()))
            if not (_is_long(*whole) or _is_long(*lately)):
                continue
            count, windows = whole if _is_long(*whole) else lately
            last_at = float(table[f"{column}_at"][place])
            yield Overload(
                broker,
                name,
                count,
                count / windows,
                is_of_last_day=not _is_long(*whole),
                last_at=last_at,
                is_lasting=last_at >= late_at and _is_long(*lately),
            )


def _is_long(count: int, windows: int) -> bool:
    return count >= max(WINDOWS_LEAST, OVERLOAD_SHARE * windows)
