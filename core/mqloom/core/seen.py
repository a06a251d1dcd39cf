"""Duplicate removal: which publications have come before, in memory bounded by origins x window.

A publication carries its origin's low-water mark: everything below it is done with. So of each origin's epoch we keep
a floor and the sequences above it, and whatever comes from below the floor is a duplicate.
"""

from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.core.limits import SEEN_ORIGINS_MAX, SEEN_WINDOW

TRIM_MIN: Final = 16
"""Sequences of an origin at which those below its floor are forgotten; later whenever their number has doubled."""


class Seen:
    """The publications that have come to one gateway, or to one client."""

    def __init__(self, *, window: int = SEEN_WINDOW, origins_max: int = SEEN_ORIGINS_MAX) -> None:
        self._window = window
        self._origins_max = origins_max
        self._origins: dict[tuple[GatewayId, int], _Origin] = {}

    def first_time(self, origin: GatewayId, epoch: int, sequence: int, low_water: int) -> bool:
        """Whether this publication is new; remembers it."""
        key = (origin, epoch)
        known = self._origins.pop(key, None)
        if known is None:
            known = _Origin()
            if len(self._origins) >= self._origins_max:
                del self._origins[next(iter(self._origins))]
        self._origins[key] = known  # at the end: the first is the one unheard of for longest
        return known.first_time(sequence, low_water, self._window)

    def __len__(self) -> int:
        """How many sequences are remembered, over all origins."""
        return sum(len(origin.above) for origin in self._origins.values())


class _Origin:
    """One epoch of one origin."""

    __slots__ = ("above", "floor", "trim_at")

    def __init__(self) -> None:
        self.floor = 0
        self.above: set[int] = set()
        self.trim_at = TRIM_MIN

    def first_time(self, sequence: int, low_water: int, window: int) -> bool:
        if sequence < self.floor or sequence in self.above:
            return False
        self.above.add(sequence)
        # The window holds also against an origin whose mark stands still.
        self.floor = max(self.floor, min(low_water, sequence), sequence - window)
        if len(self.above) >= self.trim_at:
            self.above = {known for known in self.above if known >= self.floor}
            self.trim_at = max(TRIM_MIN, 2 * len(self.above))
        return True
