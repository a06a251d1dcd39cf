"""Leaves of subscriptions with two bounds of which either must hold, or both: while they are few, each is tried.

Where a handful of them share their keys, that takes less time than any index. A bound is kept as the least double with
`value >= bound`, of the negative value if it is an upper one. That is right of values that are doubles; of another
number the next double is taken, on the side that gives the right answer.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.entries import Entry, Item, LeafName, Mask, number_of
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.planning import TriedLeaf

TRIED_MAX: Final = 32
"""When a leaf has so many, others are kept where many are found fast."""

_EXACT_MAX: Final = 2**53
_NAN: Final = math.nan


class Tried:
    """Items by two bounds."""

    __slots__ = ("_entries", "_every", "_rows", "_sides", "name", "node")

    waiting = False
    """Whether `settle` has something to do: never."""

    def __init__(self, name: LeafName, leaf: TriedLeaf, node: Any) -> None:
        self.name = name
        self.node = node
        self._every = leaf.every
        self._sides = [(path, operator[0] == "<", len(operator) == 1) for path, operator in leaf.bounds]
        """Of each bound the path, whether it is an upper one, and whether it is open."""
        self._entries: list[Entry] = []
        self._rows: list[tuple[Item, float, float]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, item: Item, bounds: tuple[float, float]) -> Any:
        """Take an item in; return what `remove` will need."""
        (_, *first), (_, *second) = self._sides
        self._rows.append((item, _least(bounds[0], *first), _least(bounds[1], *second)))
        self._entries.append(entry)
        return None

    def remove(self, entry: Entry, _argument: Any) -> None:
        """Forget an entry's item."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        del self._entries[index], self._rows[index]

    def settle(self) -> None:
        """Do nothing: nothing was put off."""

    def turn(self) -> None:
        """Do nothing: it holds ids of any type."""

    def match(self, get: Get) -> list[Hashable]:
        """Return the items whose bounds hold."""
        one, two = self._values(get)
        if self._every:
            return [item for item, first, second in self._rows if one >= first and two >= second]
        return [item for item, first, second in self._rows if one >= first or two >= second]

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items whose bounds hold."""
        one, two = self._values(get)
        mask = 0
        for entry, (_, first, second) in zip(self._entries, self._rows, strict=True):
            if (one >= first and two >= second) if self._every else (one >= first or two >= second):
                mask |= entry.bit
        return mask

    def _values(self, get: Get) -> list[float]:
        """Return what the bounds are compared with: NaN, of which no bound holds, for what is not a number."""
        values: list[float] = []
        for path, upper, is_open in self._sides:
            value: Any = get(path)
            if value.__class__ is not float and (value.__class__ is not int or not -_EXACT_MAX <= value <= _EXACT_MAX):
                value = _double(value, is_open is not upper)
            values.append(-value if upper else value)
        return values

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        row = getsizeof((0, 0, 0)) + 2 * getsizeof(0.0)
        return sum(map(getsizeof, (self, self._entries, self._rows, self._sides))) + 2 * 64 + row * len(self._rows)


def _least(bound: float, upper: bool, is_open: bool) -> float:
    near = -float(bound) if upper else float(bound)
    return math.nextafter(near, math.inf) if is_open else near


def _double(value: object, above: bool) -> float:
    """Return the double next to a number, above or below it if it is none; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _NAN
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if near < value and above:
        return math.nextafter(near, math.inf)
    if near > value and not above:
        return math.nextafter(near, -math.inf)
    return near
