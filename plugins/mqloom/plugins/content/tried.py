"""Leaves of subscriptions with two bounds of which either must hold, or both.

While a handful of them share their keys, that takes less time than any index. A value divides the first bounds, sorted,
into those that hold and those that do not; there are only as many ways to do so as there are bounds, and one more. For
each of these ways the ids that then depend on their second bound are laid out, sorted by it, all in one array: so
little of it is touched that it may stay in the processor's cache.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from sys import getsizeof
from typing import Any, Final, NamedTuple

from mqloom.plugins.content.entries import Code, Item, Items, LeafName, Mask, container
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.laid_out import LaidOut
from mqloom.plugins.content.planning import TriedLeaf
from mqloom.plugins.content.thresholds import SEARCH, is_number

TRIED_MAX: Final = 32
"""When a leaf has so many, others are kept where many are found fast."""


class _Row(NamedTuple):
    first: float
    second: float
    item: Item
    bit: Mask


TriedRow = tuple[
    Callable[..., int], bool, Callable[..., int], bool, bool, int, Sequence[int], "array[float]", Sequence[Any]
]
"""What a match needs: of each bound its search and tail; whether every bound must hold; and the layout:

count   how many there are
starts  where the part for each cut of the first bounds begins, and where the last ends
bounds  the first bounds, sorted; then for each cut of these the second bounds of those that depend on them, sorted
items   the ids, each beside its bound
"""


class Tried(LaidOut[TriedLeaf, _Row]):
    """Items by two bounds. `row` is right after `settle`."""

    __slots__ = ("paths",)

    def __init__(self, name: LeafName, leaf: TriedLeaf, node: Any, code: Code) -> None:
        super().__init__(name, leaf, node, code, _Row)
        self.paths = [path for path, _ in leaf.bounds]
        """The attributes of both bounds."""

    def settle(self) -> None:
        """Lay bounds and ids out."""
        self.waiting = False
        (search, tail), (search_2, tail_2) = [SEARCH[operator] for _, operator in self._leaf.bounds]
        rows = sorted(self._rows, key=_first)
        # If both must hold, those depend on their second bound whose first one holds; else those whose first does not.
        at_front = self._leaf.every is not tail
        parts = [sorted(rows[:cut] if at_front else rows[cut:], key=_second) for cut in range(len(rows) + 1)]
        rest = [row for part in parts for row in part]
        self._laid_out = rows + rest
        starts = tuple(accumulate(map(len, parts), initial=len(rows)))
        bounds = array("d", [row.first for row in rows] + [row.second for row in rest])
        items = container(self._code, [row.item for row in self._laid_out])
        every = self._leaf.every
        self.row[:] = [(search, tail, search_2, tail_2, every, len(rows), starts, bounds, items)]

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items whose bounds hold."""
        values = [value if is_number(value) and value == value else None for value in map(get, self.paths)]  # noqa: PLR0124
        [row] = self.row
        found: list[int] = []
        collect_tried([(0, 1, [(*row[:-1], range(len(self._laid_out)))])], values, found)
        return self._mask_of(found)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        row = getsizeof(_Row(0.0, 0.0, None, 0)) + 2 * getsizeof(0.0)
        parts = (self, self._entries, self._rows, self._laid_out, self.row, *self.row)
        layout = [part for each in self.row for part in each[6:]]
        return sum(map(getsizeof, (*parts, *layout))) + row * len(self._rows)


def collect_tried(leaves: Iterable[tuple[int, int, list[TriedRow]]], values: Sequence[Any], out: Items) -> None:
    """Add the items whose bounds hold; for each leaf the places of its two values, which are numbers or None."""
    for place, place_2, [(search, tail, search_2, tail_2, every, count, starts, bounds, items)] in leaves:
        value = values[place]
        cut = search(bounds, value, 0, count) if value is not None else count if tail else 0
        if not every:
            out += items[cut:count] if tail else items[:cut]
        start, end = starts[cut], starts[cut + 1]
        if start < end:
            value = values[place_2]
            if value is not None:
                cut = search_2(bounds, value, start, end)
                out += items[cut:end] if tail_2 else items[start:cut]


def _first(row: _Row) -> float:
    return row.first


def _second(row: _Row) -> float:
    return row.second
