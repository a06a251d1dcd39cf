"""Leaves of subscriptions with nothing more to ask."""

from bisect import bisect_left
from sys import getsizeof
from typing import Any

from mqloom.plugins.content.entries import CHECKED, Code, Entry, Item, LeafName, Mask, container, number_of


class Listed:
    """Items in the order in which they came. `items` stays the same container until `turn`."""

    __slots__ = ("_counts", "_entries", "_mask", "items", "name", "node")

    waiting = False
    """Whether `settle` has something to do: never."""

    def __init__(self, name: LeafName, node: Any, code: Code) -> None:
        self.name = name
        self.node = node
        self.items = container("" if name[1] == CHECKED else code)
        self._entries: list[Entry] = []
        self._counts: dict[Mask, int] | None = None
        self._mask: Mask | None = None

    def add(self, entry: Entry, item: Item, argument: Any) -> Any:
        """Take an item in; return what `remove` will need."""
        self.items.append(item)
        self._entries.append(entry)
        if self._counts is not None:
            self._counts[entry.bit] = self._counts.get(entry.bit, 0) + 1
            self._mask = None
        return argument

    def remove(self, entry: Entry, _argument: Any) -> None:
        """Forget an entry's item."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        del self._entries[index], self.items[index]
        if self._counts is not None:
            self._counts[entry.bit] -= 1
            if not self._counts[entry.bit]:
                del self._counts[entry.bit]
                self._mask = None

    def __len__(self) -> int:
        return len(self._entries)

    def settle(self) -> None:
        """Do nothing: nothing was put off."""

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        if self.name[1] != CHECKED:
            self.items = container(code, self.items)

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
        return getsizeof(self) + getsizeof(self.items) + getsizeof(self._entries) + counts
