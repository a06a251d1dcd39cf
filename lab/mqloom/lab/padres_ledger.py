"""What subscribers got, against what they should have got."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

PERIOD_S: Final = 10.0
"""The delays of deliveries are kept by periods of this length."""


class Ledger:
    """Counts deliveries and their delays, what was lost, and what came twice."""

    def __init__(self, subscribers: int) -> None:
        self.owed = 0
        self.lost = 0
        self.dropped = 0
        """Copies from a second broker to a client that moves: it knows of both, and drops them."""
        self.repeated = 0
        """Copies from a second broker to a client that has not moved since it was published."""
        self.delays: dict[int, tuple[int, float]] = {}
        """By period: how many deliveries, and the sum of their delays in seconds."""
        self._moving_until = np.full(subscribers, -np.inf)

    def begins_move(self, subscriber: int) -> None:
        """From now on a subscriber has two brokers."""
        self._moving_until[subscriber] = np.inf

    def ends_move(self, subscriber: int, now: float) -> None:
        """From now on it has one; what was published before may still have come from both."""
        self._moving_until[subscriber] = now

    def deliver(self, at: NDArray[np.float64], copies: NDArray[np.int64], delays_s: NDArray[np.float64]) -> None:
        """Note batches of copies that have come by a time, with the mean of their delays."""
        periods = (at // PERIOD_S).astype(np.int64)
        first = int(periods[0])
        counts = np.bincount(periods - first, copies)
        totals = np.bincount(periods - first, copies * delays_s)
        for period in np.flatnonzero(counts).tolist():
            count, total_s = self.delays.get(first + period, (0, 0.0))
            self.delays[first + period] = (count + int(counts[period]), total_s + float(totals[period]))

    def close_alike(self, owed: int) -> None:
        """Judge a publication for which nothing can have gone wrong: everybody had one broker, and stayed there."""
        self.owed += owed

    def close(self, at: float, matching: NDArray[np.int64], owed: NDArray[np.bool_], got: NDArray[np.uint32]) -> bool:
        """Judge a publication of this time that is on its way no longer; return whether all got it, nobody twice."""
        missed = int(np.count_nonzero(owed & (got == 0)))
        self.owed += int(np.count_nonzero(owed))
        self.lost += missed
        twice = (got & (got - (got != 0))) != 0  # more than one bit
        if not twice.any():
            return not missed
        fresh = self._moving_until[matching] < at
        self.repeated += int(np.count_nonzero(twice & fresh))
        self.dropped += int(np.count_nonzero(twice & ~fresh))
        return False

    def mean_delay_s(self, start: float, end: float) -> float:
        """Return the mean delay of deliveries between two times; 0 if there were none."""
        periods = range(int(start // PERIOD_S), int(end // PERIOD_S))
        found = [self.delays[period] for period in periods if period in self.delays]
        count = sum(number for number, _ in found)
        return sum(total_s for _, total_s in found) / count if count else 0.0
