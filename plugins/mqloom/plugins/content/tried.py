"""Leaves of subscriptions with two bounds of which either must hold, or both.

While a handful of them share their keys, that takes less time than any index. A value divides the first bounds, sorted,
into those that hold and those that do not; there are only as many ways to do so as there are bounds, and one more. For
each of these ways the ids that then depend on their second bound are laid out, sorted by it, all in one array: so
little of it is touched that it may stay in the processor's cache.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from sys import getsizeof
from typing import Any, Final, NamedTuple

from mqloom.plugins.content.entries import NUMBERS, Entry, Item, Items, LeafName, Mask, container, number_of
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.planning import TriedLeaf
from mqloom.plugins.content.thresholds import SEARCH

TRIED_MAX: Final = 32
"""When a leaf has so many, others are kept where many are found fast."""


class _Row(NamedTuple):
    first: float
    second: float
    item: Item
    bit: Mask


class _Layout(NamedTuple):
    """How the rows lie: by their first bound; and for each cut of these, those that depend on their second, by that."""

    first: "array[float]"
    sure: Items
    """The ids by their first bound; empty if that is not enough for any."""
    starts: Sequence[int]
    """Where the ids for each cut begin among the following, and where the last end."""
    second: "array[float]"
    rest: Items
    rows: Sequence[_Row]
    """The rows by their first bound."""
    rest_rows: Sequence[_Row]


class Tried:
    """Items by two bounds."""

    __slots__ = ("_asked", "_entries", "_every", "_layout", "_native", "_rows", "name", "node")

    waiting = False
    """Whether `settle` has something to do: never."""

    def __init__(self, name: LeafName, leaf: TriedLeaf, node: Any, native: bool) -> None:
        self.name = name
        self.node = node
        (path, operator), (path_2, operator_2) = leaf.bounds
        (search, tail), (search_2, tail_2) = SEARCH[operator], SEARCH[operator_2]
        self._asked = path, search, tail, path_2, search_2, tail_2
        self._every = leaf.every
        self._native = native
        self._entries: list[Entry] = []
        self._rows: list[_Row] = []
        self._layout: _Layout | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, item: Item, bounds: tuple[float, float]) -> Any:
        """Take an item in; return what `remove` will need."""
        self._rows.append(_Row(*bounds, item, entry.bit))
        self._entries.append(entry)
        self._layout = None
        return None

    def remove(self, entry: Entry, _argument: Any) -> None:
        """Forget an entry's item."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        del self._entries[index], self._rows[index]
        self._layout = None

    def settle(self) -> None:
        """Do nothing: nothing was put off."""

    def turn(self) -> None:
        """Hold ids of any type from now on."""
        self._native = False
        self._layout = None

    def collect(self, get: Get, out: Items) -> None:
        """Add the items whose bounds hold."""
        path, search, tail, path_2, search_2, tail_2 = self._asked
        first, sure, starts, second, rest, _, _ = self._layout or self._lay_out()
        one = get(path)
        if (one.__class__ in NUMBERS or _is_number(one)) and one == one:  # noqa: PLR0124
            cut = search(first, one)
        else:  # none holds
            cut = len(first) if tail else 0
        if sure:
            out += sure[cut:] if tail else sure[:cut]
        start, end = starts[cut], starts[cut + 1]
        if start < end:
            two = get(path_2)
            if (two.__class__ in NUMBERS or _is_number(two)) and two == two:  # noqa: PLR0124
                cut = search_2(second, two, start, end)
                out += rest[cut:end] if tail_2 else rest[start:cut]

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items whose bounds hold."""
        path, search, tail, path_2, search_2, tail_2 = self._asked
        first, sure, starts, second, _, rows, rest_rows = self._layout or self._lay_out()
        one, two = get(path), get(path_2)
        cut = search(first, one) if _is_number(one) and one == one else len(first) if tail else 0  # noqa: PLR0124
        matching = list(rows[cut:] if tail else rows[:cut]) if sure else []
        start, end = starts[cut], starts[cut + 1]
        if _is_number(two) and two == two:  # noqa: PLR0124
            cut = search_2(second, two, start, end)
            matching += rest_rows[cut:end] if tail_2 else rest_rows[start:cut]
        mask = 0
        for row in matching:
            mask |= row.bit
        return mask

    def _lay_out(self) -> _Layout:
        rows = sorted(self._rows, key=_first)
        tail = self._asked[2]
        # If both must hold, those depend on their second bound whose first one holds; else those whose first does not.
        at_front = self._every is not tail
        parts = [sorted(rows[:cut] if at_front else rows[cut:], key=_second) for cut in range(len(rows) + 1)]
        rest_rows = [row for part in parts for row in part]
        layout = self._layout = _Layout(
            first=array("d", [row.first for row in rows]),
            sure=self._items(() if self._every else rows),
            starts=tuple(accumulate(map(len, parts), initial=0)),
            second=array("d", [row.second for row in rest_rows]),
            rest=self._items(rest_rows),
            rows=rows,
            rest_rows=rest_rows,
        )
        return layout

    def _items(self, rows: Sequence[_Row]) -> Items:
        items = container(self._native)
        items.extend([row.item for row in rows])
        return items

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        layout = self._layout or ()
        row = getsizeof(_Row(0.0, 0.0, None, 0)) + 2 * getsizeof(0.0)
        parts = (self, self._entries, self._rows, self._asked, layout, *layout)
        return sum(map(getsizeof, parts)) + row * len(self._rows)


def _first(row: _Row) -> float:
    return row.first


def _second(row: _Row) -> float:
    return row.second


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
