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


def is_long(missed_s: float, window_s: float) -> bool:
    """Say whether somebody who told nothing for so long is silent."""
    return missed_s > max(SILENT_S, SILENT_WINDOWS * window_s)


def late_of(ends: Columns) -> dict[str, float]:
    """Return the brokers that told nothing for long before the latest of all, and when they did last.

    They are silent, if clocks are right (`clocks`).
    """
    rows = zip(*(ends[name].tolist() for name in ("gateway", "last_at", "window_s")), strict=True)
    end_at = float(ends["last_at"].max())
    return {str(gateway): last_at for gateway, last_at, window_s in rows if is_long(end_at - last_at, window_s)}


def without(table: Columns, silent: Collection[str]) -> Columns:
    """Return the rows of all others."""
    kept = np.array([str(each) not in silent for each in table["gateway"]], bool)
    return {name: values[kept] for name, values in table.items()}
