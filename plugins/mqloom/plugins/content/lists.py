"""Leaves of subscriptions with nothing more to ask."""

from bisect import bisect_left
from sys import getsizeof

from mqloom.plugins.content.entries import Entry, Item, Items, LeafName, Mask, container, number_of


class Listed:
    """Items in the order in which they came. `items` is what a match takes, as of the last `settle`."""

    __slots__ = ("_counts", "_entries", "_items", "_mask", "items", "name")

    def __init__(self, name: LeafName) -> None:
        self.name = name
        self.items: Items = container(name[1])
        self._items = container(name[1])
        self._entries: list[Entry] = []
        self._counts: dict[Mask, int] | None = None
        self._mask: Mask | None = None

    def add(self, entry: Entry, item: Item, _argument: object) -> None:
        """Take an item in."""
        self._items.append(item)
        self._entries.append(entry)
        if self._counts is not None:
            self._counts[entry.bit] = self._counts.get(entry.bit, 0) + 1

    def remove(self, entry: Entry, _argument: object) -> None:
        """Forget an entry's item."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        del self._entries[index], self._items[index]
        if self._counts is not None:
            self._counts[entry.bit] -= 1
            if not self._counts[entry.bit]:
                del self._counts[entry.bit]

    def __len__(self) -> int:
        return len(self._items)

    def settle(self) -> None:
        """Make `items` what it should be."""
        self._mask = None
        self.items = self._items[:]

    def mask(self) -> Mask:
        """Return the destinations of all."""
        return self._count() if self._mask is None else self._mask

    def _count(self) -> Mask:
        counts = self._counts
        if counts is None:
            counts = self._counts = {}
            for entry in self._entries:
                counts[entry.bit] = counts.get(entry.bit, 0) + 1
        mask = 0
        for bit in counts:
            mask |= bit
        self._mask = mask
        return mask

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        counts = 0 if self._counts is None else getsizeof(self._counts)
        return getsizeof(self) + getsizeof(self.items) + getsizeof(self._items) + getsizeof(self._entries) + counts
