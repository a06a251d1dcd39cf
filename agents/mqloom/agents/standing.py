"""The state of one broker or cluster through time: how long it is BUSY at most, and when its load counts as steady."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqloom.agents.averages import mean_load
from mqloom.agents.settings import BalanceSettings, Level
from mqloom.agents.states import BUSY, CLUSTER, EDGE, OK, OVERLOADED, STABILIZING, Occurrence
from mqloom.core.load import METRICS, BalanceState, Load, difference

BUSY_S_MAX: Final = 3_600.0
"""A session whose deadline was not given has ended after this; then the broker is free again."""

STABILISE_PERIODS_MAX: Final = 5
"""Stabilise durations that a broker waits for steady load. The paper has no bound; but load that always fluctuates by
more than the stabilise percentage would keep a broker out of balancing for ever. After these it counts as steady."""

WINDOWS_MAX: Final = 1_000
"""Windows of one stabilise duration that are looked at; the last ones."""


class Standing:
    """State, and the times at which it changes by itself."""

    def __init__(self, level: Level, settings: BalanceSettings) -> None:
        self._table = EDGE if level == "local" else CLUSTER
        self._settings = settings
        self._state: BalanceState = OK
        self._is_heavy = False
        self._until = 0.0
        self._periods = 0
        self._counts_from = 0.0
        self._windows: deque[Load] = deque(maxlen=WINDOWS_MAX)

    @property
    def state(self) -> BalanceState:
        """How it stands."""
        return self._state

    @property
    def next_at(self) -> float | None:
        """When it changes by itself, if it does."""
        return self._until if self._state in (BUSY, STABILIZING) else None

    def weigh(self, is_heavy: bool) -> None:
        """Take what was measured: whether a utilisation is over the lower overload threshold, or an edge is N/A."""
        self._is_heavy = is_heavy
        self._occur(Occurrence.HEAVY if is_heavy else Occurrence.LIGHT)

    def sampled(self, load: Load, now: float) -> None:
        """Take what a window has brought, to see whether load is steady.

        A window that began before the session ended tells of before and after in one.
        """
        if self._state is STABILIZING and now >= self._counts_from:
            self._windows.append(load)

    def advance(self, now: float) -> None:
        """Notice what has passed: the deadline of a session, or a stabilise duration."""
        if self._state is BUSY and now >= self._until:
            self._end(Occurrence.EXPIRED, now)
        elif self._state is STABILIZING and now >= self._until:
            self._periods += 1
            # 3.3.3: back to OK if no metric fluctuates by more than the stabilise percentage; else another period.
            steady = self._periods >= STABILISE_PERIODS_MAX or is_steady(self._windows, self._settings)
            if self._windows:
                self._is_heavy = mean_load(self._windows).utilisation > self._settings.overload_low
            self._occur(Occurrence.STEADY if steady else Occurrence.UNSTEADY)
            self._windows.clear()
            self._until = now + self._settings.stabilise_s

    def began(self, now: float, until: float | None) -> None:
        """A session began, or goes on, and ends by `until`."""
        self._until = now + BUSY_S_MAX if until is None else min(until, now + BUSY_S_MAX)
        self._occur(Occurrence.BEGAN)

    def ended(self, now: float, changed: bool) -> None:
        """A session has ended; one that had ended already changes nothing."""
        self._end(Occurrence.CHANGED if changed else Occurrence.UNCHANGED, now)

    def _end(self, ending: Occurrence, now: float) -> None:
        was_busy = self._state is BUSY
        self._occur(ending)
        if was_busy and self._state is STABILIZING:
            self._windows.clear()
            self._periods = 0
            self._counts_from = now + self._settings.window_s
            self._until = now + self._settings.stabilise_s

    def _occur(self, occurrence: Occurrence) -> None:
        self._state = self._table[self._state, occurrence]
        if self._state is OK and self._is_heavy:
            self._state = self._table[self._state, Occurrence.HEAVY]
        assert self._state is not OVERLOADED or self._is_heavy, "N/A without a reason"


def is_steady(windows: Sequence[Load], settings: BalanceSettings) -> bool:
    """Tell whether no figure fluctuated by more than the stabilise percentage; two windows are the least to tell by.

    A ratio fluctuates by so many points, a delay by as much of the normalisation factor (equation 4).
    """
    if len(windows) < 2:
        return False
    for metric in METRICS:
        figures = [load.of(metric) for load in windows]
        if difference(metric, max(figures), min(figures), settings.delay_factor_s) > settings.stabilise_share:
            return False
    return True
