"""How often somebody may do something: a bucket for each that fills with time, and is emptied by what is done.

Time is handed in. A table of buckets is bounded: past that the one unused for longest is forgotten, and begins full.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Who = TypeVar("Who", bound=Hashable)


class RateLimiter(Generic[Who]):
    """Lets each do something `per_s` times a second, and `burst` times at once."""

    def __init__(self, per_s: float, burst: int, known_max: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._known_max = known_max
        self._buckets: dict[Who, tuple[float, float]] = {}  # how much is left, and when that was; by last use

    def take(self, who: Who, now: float) -> bool:
        """Whether it may be done now; then it counts as done."""
        left, at = self._buckets.pop(who, (float(self._burst), now))
        left = min(float(self._burst), left + max(0.0, now - at) * self._per_s)
        is_allowed = left >= 1.0
        if len(self._buckets) >= self._known_max:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[who] = (left - 1.0 if is_allowed else left, now)
        return is_allowed

    def __len__(self) -> int:
        return len(self._buckets)
