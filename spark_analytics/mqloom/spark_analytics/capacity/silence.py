"""Brokers that tell nothing any more: they were taken away, or are down, or what they tell does not arrive.

What such a broker was like says nothing of what can be put on it: it stays in what was, and not in what is to come.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from mqloom.spark_analytics.capacity.frames import Columns

SILENT_S: Final = 3_600.0
"""Who told nothing in the last hour is silent: a restart does not take as long."""

SILENT_WINDOWS: Final = 10.0
"""Nor is anybody silent who has missed fewer windows than that."""


def silent_of(utilisation: Columns) -> dict[str, float]:
    """Return the brokers that are silent, and when they told something last; from collected `utilisation`."""
    last = utilisation["last_at"].astype(np.float64)
    missed = last.max() - last
    is_silent = missed > np.maximum(SILENT_S, SILENT_WINDOWS * utilisation["window_s"].astype(np.float64))
    return {str(utilisation["gateway"][place]): float(last[place]) for place in np.flatnonzero(is_silent)}


def without(table: Columns, silent: Collection[str]) -> Columns:
    """Return the rows of all others."""
    kept = np.array([str(each) not in silent for each in table["gateway"]], bool)
    return {name: values[kept] for name, values in table.items()}
