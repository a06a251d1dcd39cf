"""Whether a difference lasts: one that is hardly over its trigger may be no more than what windows fluctuate by.

The detector decides by the mean since it ran last, and "in the presence of temporary load spikes" that "can lead to
unnecessary load balancing, which may prevent convergence"; the paper's remedy is a longer interval (3.3.3, last
paragraph), with which overload is met later, too. Here only small differences wait. What the few clients of a narrow
broker get swings by as much as a trigger, and two brokers that are even on average are apart by one now and then: a
session at that moment makes them even for that moment, and uneven for all others.
"""

from collections.abc import Hashable, Mapping
from statistics import fmean
from typing import Final, Generic, TypeVar

CLEAR: Final = 1.5
"""So many triggers begin a session at once: what fluctuates by as much is worth one."""

Key = TypeVar("Key", bound=Hashable)


class Lasting(Generic[Key]):
    """The differences of the last detections, by whom they are to and in what."""

    def __init__(self, detections: int) -> None:
        self._detections = detections
        self._found: dict[Key, tuple[float, ...]] = {}

    def note(self, differences: Mapping[Key, float]) -> None:
        """Take what a detection has found; who is not among these begins anew: it has been busy with somebody else."""
        self._found = {
            key: (*self._found.get(key, ()), found)[-self._detections :] for key, found in differences.items()
        }

    def clear(self) -> None:
        """Begin anew with all: our own load has changed."""
        self._found.clear()

    def is_over(self, key: Key, trigger: float) -> bool:
        """Tell whether a difference is over its trigger and will be: by far, or by the mean of the last detections."""
        found = self._found[key]
        if found[-1] <= trigger:
            return False
        return found[-1] > CLEAR * trigger or (len(found) == self._detections and fmean(found) > trigger)
