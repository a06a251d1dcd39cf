"""Small leaves of thresholds that the same publications reach, as one: a search and a slice instead of one for each.

A bundle is a copy. Its leaves tell it of everything that comes and goes, until it is undone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.entries import Item, Mask
from mqloom.plugins.content.thresholds import Row, Thresholds

BUNDLED_MAX: Final = 64
"""A leaf with more is searched by itself."""


class Bundle:
    """Leaves that ask the same of the same attribute."""

    __slots__ = ("_items", "_leaves", "_thresholds", "row")

    def __init__(self, leaves: Sequence[Thresholds]) -> None:
        pairs = [pair for leaf in leaves for pair in zip(leaf.thresholds, leaf.items, strict=True)]
        pairs.sort(key=lambda pair: pair[0])
        first = leaves[0]
        self._leaves = leaves
        self._thresholds: Any = first.thresholds[:0]
        self._items: Any = first.items[:0]
        for threshold, item in pairs:
            self._thresholds.append(threshold)
            self._items.append(item)
        self.row: Row = first.name[1], first.search, self._thresholds, first.tail, self._items, self
        for leaf in leaves:
            leaf.bundles = [*(leaf.bundles or ()), self]

    def add(self, threshold: Any, item: Item) -> None:
        """One of the leaves has taken an item in."""
        index = bisect_right(self._thresholds, threshold)
        self._thresholds.insert(index, threshold)
        self._items.insert(index, item)

    def remove(self, threshold: Any, item: Item) -> None:
        """One of the leaves has forgotten an item."""
        index = self._items.index(item, bisect_left(self._thresholds, threshold))
        del self._thresholds[index], self._items[index]

    def mask(self, value: Any) -> Mask:
        """Return the destinations of those whose threshold the value passes."""
        mask = 0
        for leaf in self._leaves:
            mask |= leaf.mask(value)
        return mask

    def undo(self) -> None:
        """Let the leaves forget it."""
        for leaf in self._leaves:
            leaf.bundles = None

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return sum(map(getsizeof, (self, self._items, self._leaves, self._thresholds, self.row)))


class Bundles:
    """All bundles, each shared by the selections that have the same leaves."""

    __slots__ = ("_bundles",)

    def __init__(self) -> None:
        self._bundles: dict[tuple[int, ...], Bundle] = {}

    def rows(self, leaves: Sequence[Thresholds]) -> list[Row]:
        """Return the rows of leaves that ask the same: one for the small ones together, one for each of the others."""
        small = [leaf for leaf in leaves if len(leaf) <= BUNDLED_MAX]
        if len(small) < 2:
            return [leaf.row or leaf.make_row() for leaf in leaves]
        rows = [leaf.row or leaf.make_row() for leaf in leaves if len(leaf) > BUNDLED_MAX]
        key = tuple(map(id, small))
        bundle = self._bundles.get(key)
        if bundle is None:
            bundle = self._bundles[key] = Bundle(small)
        return [*rows, bundle.row]

    def clear(self) -> None:
        """Undo all."""
        for bundle in self._bundles.values():
            bundle.undo()
        self._bundles.clear()

    def size_bytes(self) -> int:
        """Return the memory they take."""
        bundles = sum(bundle.size_bytes() for bundle in self._bundles.values())
        return getsizeof(self._bundles) + bundles + sum(map(getsizeof, self._bundles))
