"""The mean of several loads: of one broker over time, or of the edges of a cluster (3.3.2, 3.3.3)."""

from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from msgspec.structs import astuple

from mqloom.core.load import Load

AVERAGE_WINDOWS_MAX: Final = 100
"""Windows that count in a mean over time unless fewer are asked for; past that the oldest are forgotten."""

IDLE: Final = Load(
    input_ratio=0.0,
    delay_s=0.0,
    output_ratio=0.0,
    input_rate=0.0,
    output_bytes_s=0.0,
    output_bytes_s_max=0.0,
    subscriptions=0,
)
"""What a broker has that does nothing."""

FIGURE_MAX: Final = 1e15
"""A larger figure of a load was not measured: whoever tells it is not believed."""


def mean_load(loads: Sequence[Load]) -> Load:
    """Return the mean of every figure; there must be one load at least."""
    assert loads, "the mean of nothing"
    deliveries = [load.deliveries_s for load in loads]
    return Load(
        input_ratio=fmean(load.input_ratio for load in loads),
        delay_s=fmean(load.delay_s for load in loads),
        output_ratio=fmean(load.output_ratio for load in loads),
        input_rate=fmean(load.input_rate for load in loads),
        output_bytes_s=fmean(load.output_bytes_s for load in loads),
        output_bytes_s_max=fmean(load.output_bytes_s_max for load in loads),
        subscriptions=round(fmean(load.subscriptions for load in loads)),
        cpu_ratio=fmean(load.cpu_ratio for load in loads),
        memory_ratio=fmean(load.memory_ratio for load in loads),
        deliveries_s=None if None in deliveries else fmean(each for each in deliveries if each is not None),
    )


def is_sound(load: Load) -> bool:
    """Tell whether every figure is one that a meter can have measured: a number, not less than nothing, nor absurd."""
    return all(figure is None or 0 <= figure <= FIGURE_MAX for figure in astuple(load))


class Average:
    """The mean of what was measured since it was last taken, of the last windows at most.

    Decisions and PIE are about such means (3.3.2, 3.3.3): one window may be a spike. PIE is about its last period: over
    all that was not worth a PIE, a change would be spread thin, and noticed late.
    """

    def __init__(self, windows_max: int = AVERAGE_WINDOWS_MAX) -> None:
        self._windows: deque[Load] = deque(maxlen=windows_max)

    def add(self, load: Load) -> None:
        """Count what a window has brought; every window weighs the same."""
        self._windows.append(load)

    @property
    def load(self) -> Load | None:
        """The mean since it was last taken, or None when nothing was measured."""
        return mean_load(self._windows) if self._windows else None

    def take(self) -> Load | None:
        """Return the mean, and begin anew."""
        load = self.load
        self._windows.clear()
        return load
