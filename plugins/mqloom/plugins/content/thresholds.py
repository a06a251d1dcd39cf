"""Leaves of subscriptions with one bound on one attribute: sorted, so that a match is a slice."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from operator import or_
from sys import getsizeof
from typing import Any, Final

from mqloom.core.filter import Operator
from mqloom.plugins.content.entries import CHECKED, Code, Entry, Item, LeafName, Mask, container, number_of
from mqloom.plugins.content.planning import ThresholdLeaf

SORTED_AT_ONCE_MAX: Final = 8192
"""In a longer leaf new thresholds wait for the next match, so that many of them cost one sort."""

STEPS_MIN: Final = 9
"""In a smaller leaf the destinations of a match are put together one by one."""

_FEW: Final = 16
_FEW_SHARE: Final = 64
"""So many waiting ones, or one in so many of those there are, are inserted one by one."""

SEARCH: Final[dict[Operator, tuple[Callable[..., int], bool]]] = {
    ">": (bisect_left, False),
    ">=": (bisect_right, False),
    "<": (bisect_right, True),
    "<=": (bisect_left, True),
}
"""Where the thresholds that a value passes end, or if True begin."""


class Thresholds:
    """Items by threshold. `thresholds` stays the same list, `items` until `turn`; they are right after `settle`."""

    __slots__ = (
        "_entries",
        "_loosest",
        "_steps",
        "bundles",
        "items",
        "name",
        "node",
        "row",
        "search",
        "tail",
        "thresholds",
        "waiting",
    )

    def __init__(self, name: LeafName, leaf: ThresholdLeaf, node: Any, code: Code) -> None:
        self.name = name
        self.node = node
        self.search, self.tail = SEARCH[leaf.operator]
        # Doubles side by side are found faster than objects anywhere in memory, and take a quarter of it.
        self.thresholds: Any = array("d") if leaf.kind == "double" else []
        self.items = container("" if name[1] == CHECKED else code)
        self.row: Any = None
        """What selections keep of it: if they share it, it may stay in the processor's cache."""
        self.bundles: list[Any] | None = None
        """Who has a copy of what is here, and must be told of every change."""
        self._entries: list[Entry] = []
        self.waiting: list[tuple[Any, Item, Entry]] | None = None
        self._loosest: dict[Mask, Any] | None = None
        self._steps: tuple[list[Any], list[Mask]] | None = None

    def __len__(self) -> int:
        return len(self._entries) + len(self.waiting or ())

    def add(self, entry: Entry, item: Item, threshold: Any) -> Any:
        """Take an item in; return what `remove` will need."""
        if len(self._entries) < SORTED_AT_ONCE_MAX:
            index = bisect_right(self.thresholds, threshold)
            self.thresholds.insert(index, threshold)
            self.items.insert(index, item)
            self._entries.insert(index, entry)
        elif self.waiting is None:
            self.waiting = [(threshold, item, entry)]
        else:
            self.waiting.append((threshold, item, entry))
        if self.bundles is not None:
            for bundle in self.bundles:
                bundle.add(threshold, item)
        if self._loosest is not None and entry.bit:
            self._loosen(self._loosest, entry.bit, threshold)
        return threshold

    def remove(self, entry: Entry, threshold: Any) -> None:
        """Forget an entry's item."""
        if self.waiting:
            self.settle()
        # Items of one threshold lie in the order in which they came.
        low = bisect_left(self.thresholds, threshold)
        high = bisect_right(self.thresholds, threshold, low)
        index = low if high == low + 1 else bisect_left(self._entries, entry.number, low, high, key=number_of)
        assert self._entries[index] is entry
        if self.bundles is not None:
            for bundle in self.bundles:
                bundle.remove(threshold, self.items[index])
        del self.thresholds[index], self.items[index], self._entries[index]
        if self._loosest is not None and entry.bit and self._loosest[entry.bit] == threshold:
            self._loosest = self._steps = None

    def settle(self) -> None:
        """Sort in what waits."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        if len(waiting) <= max(_FEW, len(self._entries) // _FEW_SHARE):
            for threshold, item, entry in waiting:
                index = bisect_right(self.thresholds, threshold)
                self.thresholds.insert(index, threshold)
                self.items.insert(index, item)
                self._entries.insert(index, entry)
            return
        rows = [*zip(self.thresholds, self.items, self._entries, strict=True), *waiting]
        rows.sort(key=lambda row: row[0])
        columns = zip(*rows, strict=True)
        for column, values in zip((self.thresholds, self.items, self._entries), columns, strict=True):
            del column[:]
            column.extend(values)

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        if self.name[1] != CHECKED:
            self.items = container(code, self.items)
            self.row = None

    def mask(self, value: Any) -> Mask:
        """Return the destinations of those whose threshold the value passes."""
        if len(self._entries) < STEPS_MIN:
            return self._few_mask(value)
        thresholds, masks = self._steps or self._make_steps()
        index = self.search(thresholds, value)
        if self.tail:
            return masks[index] if index < len(masks) else 0
        return masks[index - 1] if index else 0

    def _few_mask(self, value: Any) -> Mask:
        cut = self.search(self.thresholds, value)
        mask = 0
        for entry in self._entries[cut:] if self.tail else self._entries[:cut]:
            mask |= entry.bit
        return mask

    def _make_steps(self) -> tuple[list[Any], list[Mask]]:
        """Keep each destination's loosest threshold, in order, with the destinations that are reached so far."""
        loosest = self._loosest
        if loosest is None:
            loosest = self._loosest = {}
            rows = list(zip(self.thresholds, self._entries, strict=True))
            for threshold, entry in rows if self.tail else reversed(rows):
                if entry.bit:
                    loosest[entry.bit] = threshold
        pairs = sorted((threshold, bit) for bit, threshold in loosest.items())
        bits = [bit for _, bit in pairs]
        masks = list(accumulate(reversed(bits), or_))[::-1] if self.tail else list(accumulate(bits, or_))
        self._steps = [threshold for threshold, _ in pairs], masks
        return self._steps

    def _loosen(self, loosest: dict[Mask, Any], bit: Mask, threshold: Any) -> None:
        known = loosest.get(bit)
        if known is None or (threshold > known if self.tail else threshold < known):
            loosest[bit] = threshold
            self._steps = None

    def size_bytes(self) -> int:
        """Return the memory it takes, with the thresholds, without the ids."""
        size = sum(map(getsizeof, (self, self.thresholds, self.items, self._entries)))
        if isinstance(self.thresholds, list):
            size += sum(map(getsizeof, self.thresholds))
        if self._loosest is not None:
            size += getsizeof(self._loosest)
        if self._steps is not None:
            size += sum(map(getsizeof, (self._steps, *self._steps, *self._steps[1])))
        return size


def is_number(value: object) -> bool:
    """Say whether a value can be compared with thresholds that are numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)
