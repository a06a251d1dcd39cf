"""Small leaves of thresholds that the same publications reach, as one: a search and a slice instead of one for each.

A bundle is a copy. Its leaves tell it of everything that comes and goes, until it is undone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.entries import Item, Mask
from mqloom.plugins.content.thresholds import Thresholds

BUNDLED_MAX: Final = 256
"""A leaf with more is searched by itself."""


class Bundle:
    """Leaves that ask the same of the same attribute."""

    __slots__ = ("_leaves", "items", "row", "search", "tail", "thresholds")

    def __init__(self, leaves: Sequence[Thresholds]) -> None:
        pairs = [pair for leaf in leaves for pair in zip(leaf.thresholds, leaf.items, strict=True)]
        pairs.sort(key=lambda pair: pair[0])
        first = leaves[0]
        self._leaves = leaves
        self.thresholds: Any = first.thresholds[:0]
        self.items: Any = first.items[:0]
        for threshold, item in pairs:
            self.thresholds.append(threshold)
            self.items.append(item)
        self.row: Any = None
        self.search = first.search
        self.tail = first.tail
        for leaf in leaves:
            leaf.bundles = [*(leaf.bundles or ()), self]

    def add(self, threshold: Any, item: Item) -> None:
        """One of the leaves has taken an item in."""
        index = bisect_right(self.thresholds, threshold)
        self.thresholds.insert(index, threshold)
        self.items.insert(index, item)

    def remove(self, threshold: Any, item: Item) -> None:
        """One of the leaves has forgotten an item."""
        index = self.items.index(item, bisect_left(self.thresholds, threshold))
        del self.thresholds[index], self.items[index]

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
        return sum(map(getsizeof, (self, self.items, self._leaves, self.thresholds)))


class Bundles:
    """All bundles, each shared by the selections that have the same leaves, and other parts that they share."""

    __slots__ = ("_bundles", "_shared")

    def __init__(self) -> None:
        self._bundles: dict[tuple[int, ...], Bundle] = {}
        self._shared: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def join(self, leaves: Sequence[Thresholds]) -> "list[Thresholds | Bundle]":
        """Return leaves that ask the same with the small ones among them as one."""
        small = [leaf for leaf in leaves if len(leaf) <= BUNDLED_MAX]
        if len(small) < 2:
            return list(leaves)
        key = tuple(map(id, small))
        bundle = self._bundles.get(key)
        if bundle is None:
            bundle = self._bundles[key] = Bundle(small)
        return [*(leaf for leaf in leaves if len(leaf) > BUNDLED_MAX), bundle]

    def share(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        """Return a tuple of these very objects, the same one each time: what selections share may stay in the cache."""
        made = tuple(parts)
        return self._shared.setdefault(tuple(map(id, made)), made)

    def clear(self) -> None:
        """Undo all."""
        self._shared.clear()
        for bundle in self._bundles.values():
            bundle.undo()
        self._bundles.clear()

    def size_bytes(self) -> int:
        """Return the memory they take."""
        bundles = sum(bundle.size_bytes() for bundle in self._bundles.values())
        keys = [*self._bundles, *self._shared]
        return bundles + sum(map(getsizeof, (self._bundles, self._shared, *keys, *self._shared.values())))
