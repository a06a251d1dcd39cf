"""Leaves of subscriptions that ask for one of a few values of an attribute within an object, and perhaps a bound.

Such an attribute could be one more key. But then there would be as many selections as it has values, times those of the
other keys, with a handful of subscriptions behind each: too many to be kept ready, or to stay in the processor's cache.
Here all of them lie in one array, by value and bound.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import groupby
from sys import getsizeof
from typing import Any, Final, NamedTuple

from mqloom.plugins.content.entries import Code, Item, Items, LeafName, Mask, container
from mqloom.plugins.content.keys import SCALARS, Get, key_of
from mqloom.plugins.content.laid_out import LaidOut
from mqloom.plugins.content.planning import CaseLeaf
from mqloom.plugins.content.thresholds import SEARCH, is_number

CASES_MAX: Final = 256
"""When a leaf has so many, others are kept by one more key."""


class _Row(NamedTuple):
    value: Hashable
    bound: float
    item: Item
    bit: Mask


CaseRow = tuple[Mapping[Hashable, tuple[int, int]], Callable[..., int], bool, "array[float]", Items]
"""What a match needs: where those for a value begin and end; the bound's search and tail; bounds and ids, side by side.

Those without a bound have 0.
"""


class Cases(LaidOut[CaseLeaf, _Row]):
    """Items by value and bound. `row` is right after `settle`."""

    __slots__ = ("bound_path", "path")

    def __init__(self, name: LeafName, leaf: CaseLeaf, node: Any, code: Code) -> None:
        super().__init__(name, leaf, node, code, _Row)
        self.path = leaf.path
        self.bound_path = leaf.bound_path

    def settle(self) -> None:
        """Lay bounds and ids out."""
        self.waiting = False
        search, tail = SEARCH[self._leaf.operator]
        numbers = {value: number for number, value in enumerate(dict.fromkeys(row.value for row in self._rows))}
        self._laid_out = sorted(self._rows, key=lambda row: (numbers[row.value], row.bound))
        places: dict[Hashable, tuple[int, int]] = {}
        start = 0
        for value, several in groupby(self._laid_out, key=lambda row: row.value):
            end = start + len(list(several))
            places[value] = start, end
            start = end
        bounds = array("d", [row.bound for row in self._laid_out])
        items = container(self._code, [row.item for row in self._laid_out])
        self.row[:] = [(places, search, tail, bounds, items)]

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items for a publication's value, and whose bounds hold."""
        value = get(self.bound_path) if self.bound_path else None
        values = [value if is_number(value) and value == value else None]  # noqa: PLR0124
        [row] = self.row
        found: list[int] = []
        place = 0 if self.bound_path else None
        collect_cases([(self.path, place, [(*row[:-1], range(len(self._laid_out)))])], get, values, found)
        return self._mask_of(found)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        row = getsizeof(_Row(None, 0.0, None, 0)) + getsizeof(0.0)
        parts = [self, self._entries, self._rows, self._laid_out, self.row, *self.row]
        for places, _, _, bounds, items in self.row:
            parts += [places, bounds, items, *places.values()]
        return sum(map(getsizeof, parts)) + row * len(self._rows)


CasePlace = tuple[str, int | None, list[CaseRow]]
"""An attribute; which of the values the bounds of a leaf are for, None if it has none; and its row."""


def collect_cases(leaves: Iterable[CasePlace], get: Get, values: list[Any], out: Items) -> None:
    """Add the items for a publication's value, and whose bounds hold; the values for bounds are numbers or None."""
    for path, place, [(places, search, tail, bounds, items)] in leaves:
        value: Any = get(path)
        found = places.get(value if value.__class__ in SCALARS else key_of(value))
        if found is None:
            continue
        start, end = found
        if place is None:
            out += items[start:end]
            continue
        value = values[place]
        if value is not None:
            cut = search(bounds, value, start, end)
            out += items[cut:end] if tail else items[start:cut]
