"""Many boxes as columns of doubles.

A box is a column `low, ..., -high, ...` and holds a point just if that is `<=` the column `value, ..., -value, ...`.
New boxes are compared with all in one go, until there are enough of them to index all anew.
"""

import math
from array import array
from itertools import pairwise
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.bitmaps import Bitmaps
from mqloom.plugins.content.cells import Cells
from mqloom.plugins.content.entries import ID_CODE, Box, Items, Mask, Point

INDEXED_MIN: Final = 256
"""Fewer boxes than that are not indexed."""

WAITING_SHARE: Final = 48
"""One in so many may wait for being indexed."""

DEAD_SHARE: Final = 4
"""One in so many may be dead before they are purged."""

_NAN: Final = math.nan
_and = np.logical_and.reduce


class BoxRows:
    """Boxes, as an index of them."""

    __slots__ = (
        "_alive",
        "_bitmaps",
        "_boxes",
        "_cells",
        "_columns",
        "_dead",
        "_dimensions",
        "_indexed",
        "_items",
        "_native",
    )

    def __init__(self, dimensions: int, native: bool) -> None:
        self._dimensions = dimensions
        self._native = native
        self._boxes: list[Box | None] = []
        self._allocate(8)
        self._indexed = self._dead = 0
        self._cells: Cells | None = None
        self._bitmaps: Bitmaps | None = None

    def _allocate(self, capacity: int) -> None:
        self._columns: NDArray[np.float64] = np.empty((2 * self._dimensions, capacity))
        self._items: NDArray[Any] = np.zeros(capacity, np.int64 if self._native else object)
        self._alive: NDArray[np.bool_] = np.ones(capacity, bool)

    def __len__(self) -> int:
        return len(self._boxes) - self._dead

    @property
    def dead(self) -> int:
        """How many are dead but not yet purged."""
        return self._dead

    def add(self, box: Box) -> None:
        """Take a box in."""
        index = box.index = len(self._boxes)
        if index == len(self._items):
            self._grow()
        self._columns[:, index] = (*box.bounds[::2], *[-high for high in box.bounds[1::2]])
        self._items[index] = box.item
        self._boxes.append(box)

    def remove(self, box: Box) -> None:
        """Forget a box. It stays where it is, but nothing is within NaN."""
        index = box.index
        self._boxes[index] = None
        self._columns[0, index] = _NAN
        self._items[index] = 0
        self._alive[index] = False
        self._dead += 1

    def _grow(self) -> None:
        columns, items, alive = self._columns, self._items, self._alive
        count = len(items)
        self._allocate(2 * count)
        self._columns[:, :count], self._items[:count], self._alive[:count] = columns, items, alive

    def settle(self) -> None:
        """Purge and index, if it is time."""
        count = len(self._boxes)
        if self._dead * DEAD_SHARE > count:
            self._purge()
            count = len(self._boxes)
        elif count - self._indexed <= max(INDEXED_MIN, count // WAITING_SHARE):
            return
        self._indexed = 0
        self._cells = self._bitmaps = None
        if count >= INDEXED_MIN:
            if self._dead:
                self._purge()
            self._indexed = len(self._boxes)

    def _purge(self) -> None:
        alive = self.boxes()
        count = len(alive)
        indices = np.array([box.index for box in alive], np.intp)
        columns, items = self._columns.take(indices, axis=1), self._items.take(indices)
        self._allocate(max(8, count * 5 // 4))
        self._columns[:, :count], self._items[:count] = columns, items
        for index, box in enumerate(alive):
            box.index = index
        self._boxes = list(alive)
        self._dead = 0

    def boxes(self) -> list[Box]:
        """Return all that are not dead."""
        return [box for box in self._boxes if box is not None]

    def turn(self) -> None:
        """Hold ids of any type from now on."""
        self._native = False
        self._items = self._items.astype(object)

    def match(self, point: Point) -> Items:
        """Return the items whose box holds a point."""
        return self._taken(self._find(point))

    def _taken(self, indices: NDArray[Any]) -> Items:
        items = self._items.take(indices)
        return array(ID_CODE, items.tobytes()) if self._native else items.tolist()

    def mask(self, point: Point) -> Mask:
        """Return the destinations of the items whose box holds a point."""
        mask = 0
        for index in self._find(point).tolist():
            mask |= self._boxes[index].entry.bit
        return mask

    def _find(self, point: Point) -> NDArray[Any]:
        if not self._indexed:
            return self._scan(0, point, point)
        if self._cells is None:
            self._cells = Cells(self._columns[:, : self._indexed])
        found: NDArray[Any] = self._cells.find(point)
        if self._dead:
            found = found[self._alive.take(found)]
        if self._indexed < len(self._boxes):
            found = np.concatenate((found, self._scan(self._indexed, point, point)))
        return found

    def _scan(self, start: int, below: Point, above: Point) -> NDArray[Any]:
        """Return which boxes from `start` on hold the point; of a value between two doubles, they are the two."""
        row = np.array([*above, *[-value for value in below]])
        found: NDArray[Any] = _and(self._columns[:, start : len(self._boxes)] <= row[:, None]).nonzero()[0]
        return found + start if start else found

    def near(self, below: Point, above: Point) -> list[Box]:
        """Return all boxes that hold a point between these two, and perhaps some others."""
        found = map(self._boxes.__getitem__, self._scan(0, below, above).tolist())
        return [box for box in found if box is not None]

    def match_batch(self, points: NDArray[np.float64]) -> list[Items]:
        """Return the items whose box holds a point, for each."""
        if not self._indexed:
            return [self.match(point) for point in points.tolist()]
        if self._bitmaps is None:
            self._bitmaps = Bitmaps(self._columns[:, : self._indexed])
        matches: list[Items] = []
        chunk = self._bitmaps.chunk
        for start in range(0, len(points), chunk):
            part = points[start : start + chunk]
            which, found = self._bitmaps.find(part)
            if self._dead:
                alive = self._alive.take(found).nonzero()[0]
                which, found = which.take(alive), found.take(alive)
            items = self._taken(found)
            cuts = [0, *np.searchsorted(which, np.arange(1, len(part))).tolist(), len(items)]
            matches += [items[low:high] for low, high in pairwise(cuts)]
        if self._indexed < len(self._boxes):
            for place, point in enumerate(points.tolist()):
                waiting = self._scan(self._indexed, point, point)
                if len(waiting):
                    matches[place] += self._taken(waiting)
        return matches

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        arrays = self._columns.nbytes + self._items.nbytes + self._alive.nbytes
        indexes = sum(index.size_bytes() for index in (self._cells, self._bitmaps) if index is not None)
        return getsizeof(self) + arrays + indexes + getsizeof(self._boxes)
