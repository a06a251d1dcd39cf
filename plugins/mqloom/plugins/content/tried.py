"""Leaves of subscriptions with two bounds of which either must hold, or both.

While a handful of them share their keys, that takes less time than any index. The bounds divide the values into cells
in which the same ones hold; what matches in a cell is found by trying each, and remembered: values are often near each
other.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.entries import NUMBERS, Entry, Item, Items, LeafName, Mask, container, number_of
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.planning import TriedLeaf
from mqloom.plugins.content.thresholds import SEARCH

TRIED_MAX: Final = 32
"""When a leaf has so many, others are kept where many are found fast."""

CELLS_MAX: Final = 64
"""So many cells are remembered; then all are forgotten."""

_ROW: Final = 2 * TRIED_MAX
"""How far cells of different first cuts lie apart."""

_NONE: Final = -1
"""The cut of a value that is no number: no bound holds."""

_Search = Callable[[Any, Any], int]

Cell = tuple[Items, Mask]
"""What matches in a cell: the ids, not to be changed, and their destinations."""


class Tried:
    """Items by two bounds."""

    __slots__ = (
        "_asked",
        "_cells",
        "_entries",
        "_every",
        "_first",
        "_native",
        "_rows",
        "_second",
        "_tails",
        "name",
        "node",
    )

    waiting = False
    """Whether `settle` has something to do: never."""

    def __init__(self, name: LeafName, leaf: TriedLeaf, node: Any, native: bool) -> None:
        self.name = name
        self.node = node
        (path, operator), (path_2, operator_2) = leaf.bounds
        (search, tail), (search_2, tail_2) = SEARCH[operator], SEARCH[operator_2]
        self._tails = tail, tail_2
        self._every = leaf.every
        self._native = native
        self._entries: list[Entry] = []
        self._rows: list[tuple[Item, float, float]] = []
        self._first = array("d")
        self._second = array("d")
        """The bounds of all, sorted."""
        self._cells: dict[int, Cell] = {}
        self._asked = path, search, self._first, path_2, search_2, self._second, self._cells.get

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, item: Item, bounds: tuple[float, float]) -> Any:
        """Take an item in; return what `remove` will need."""
        self._rows.append((item, *bounds))
        self._entries.append(entry)
        insort(self._first, bounds[0])
        insort(self._second, bounds[1])
        self._cells.clear()
        return None

    def remove(self, entry: Entry, _argument: Any) -> None:
        """Forget an entry's item."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        _, first, second = self._rows[index]
        del self._entries[index], self._rows[index]
        del self._first[bisect_left(self._first, first)], self._second[bisect_left(self._second, second)]
        self._cells.clear()

    def settle(self) -> None:
        """Do nothing: nothing was put off."""

    def turn(self) -> None:
        """Hold ids of any type from now on."""
        self._native = False
        self._cells.clear()

    def find(self, get: Get) -> Cell:
        """Return what matches."""
        path, search, first, path_2, search_2, second, known = self._asked
        one = get(path)
        cut = search(first, one) if one.__class__ in NUMBERS and one == one else _cut(search, first, one)  # noqa: PLR0124
        two = get(path_2)
        cut_2 = search_2(second, two) if two.__class__ in NUMBERS and two == two else _cut(search_2, second, two)  # noqa: PLR0124
        cell = known(cut * _ROW + cut_2)
        return self._fill(cut, cut_2) if cell is None else cell

    def _fill(self, cut: int, cut_2: int) -> Cell:
        """Try each with the values of a cell."""
        holding, holding_2 = _holding(self._first, cut, self._tails[0]), _holding(self._second, cut_2, self._tails[1])
        items = container(self._native)
        mask = 0
        for entry, (item, first, second) in zip(self._entries, self._rows, strict=True):
            holds = first in holding, second in holding_2
            if all(holds) if self._every else any(holds):
                items.append(item)
                mask |= entry.bit
        if len(self._cells) >= CELLS_MAX:
            self._cells.clear()
        cell = self._cells[cut * _ROW + cut_2] = items, mask
        return cell

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        parts = (self, self._entries, self._rows, self._asked, self._first, self._second, self._cells)
        row = getsizeof((0, 0, 0)) + 2 * getsizeof(0.0)
        cells = sum(getsizeof(cell) + getsizeof(cell[0]) for cell in self._cells.values())
        return sum(map(getsizeof, parts)) + row * len(self._rows) + cells


def _holding(bounds: "array[float]", cut: int, tail: bool) -> frozenset[float]:
    if cut == _NONE:
        return frozenset()
    return frozenset(bounds[cut:] if tail else bounds[:cut])


def _cut(search: _Search, bounds: "array[float]", value: Any) -> int:
    """Return where a value that is nobody's usual number cuts the bounds; NaN is not equal to itself."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124
        return _NONE
    return search(bounds, value)
