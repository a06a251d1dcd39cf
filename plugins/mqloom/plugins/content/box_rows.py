"""Many boxes as rows of doubles.

Bounds are doubles exactly, or they would not be here; open ones are moved to the next double, so that all are closed.
A box is a row `low, ..., -high, ...` and holds a point just if the row is `<=` the row `value, ..., -value, ...`.
New boxes are compared with one by one, all in one go, until there are enough of them to index all anew.
"""

import math
from itertools import pairwise
from sys import getsizeof
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.bitmaps import Bitmaps
from mqloom.plugins.content.cells import Cells
from mqloom.plugins.content.entries import Box, Items, Mask, Point

INDEXED_MIN: Final = 256
"""Fewer boxes than that are not indexed."""

WAITING_SHARE: Final = 48
"""One in so many may wait for being indexed."""

DEAD_SHARE: Final = 4
"""One in so many may be dead before they are purged."""

_ROW: Final = 8
"""Rows are padded to a multiple of this, so that eight answers can be read as one number."""

_ALL_TRUE: Final = np.uint64(0x0101010101010101)
_NAN: Final = math.nan


class BoxRows:
    """Boxes, as an index of them."""

    __slots__ = (
        "_alive",
        "_bitmaps",
        "_boxes",
        "_cells",
        "_dead",
        "_dimensions",
        "_indexed",
        "_items",
        "_rows",
        "_type",
    )

    def __init__(self, dimensions: int, of_candidates: bool) -> None:
        self._dimensions = dimensions
        self._type: type = object if of_candidates else np.int32
        self._boxes: list[Box | None] = []
        self._allocate(8)
        self._indexed = self._dead = 0
        self._cells: Cells | None = None
        self._bitmaps: Bitmaps | None = None

    def _allocate(self, capacity: int) -> None:
        width = -(-2 * self._dimensions // _ROW) * _ROW
        self._rows: NDArray[np.float64] = np.full((capacity, width), -np.inf)
        self._items: NDArray[Any] = np.zeros(capacity, self._type)
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
        if index == len(self._rows):
            self._grow()
        bounds = box.bounds
        self._rows[index, : len(bounds)] = (*bounds[::2], *(-high for high in bounds[1::2]))
        self._items[index] = box.item
        self._boxes.append(box)

    def remove(self, box: Box) -> None:
        """Forget a box. It stays where it is, but nothing is within NaN."""
        index = box.index
        self._boxes[index] = None
        self._rows[index, 0] = _NAN
        self._items[index] = 0
        self._alive[index] = False
        self._dead += 1

    def _grow(self) -> None:
        rows, items, alive = self._rows, self._items, self._alive
        count = len(rows)
        self._allocate(2 * count)
        self._rows[:count], self._items[:count], self._alive[:count] = rows, items, alive

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
        rows, items = self._rows.take(indices, axis=0), self._items.take(indices)
        self._allocate(max(8, count * 5 // 4))
        self._rows[:count], self._items[:count] = rows, items
        for index, box in enumerate(alive):
            box.index = index
        self._boxes = list(alive)
        self._dead = 0

    def boxes(self) -> list[Box]:
        """Return all that are not dead."""
        return [box for box in self._boxes if box is not None]

    def match(self, point: Point) -> Items:
        """Return the items whose box holds a point."""
        return self._items.take(self._find(point))

    def mask(self, point: Point) -> Mask:
        """Return the destinations of the items whose box holds a point."""
        mask = 0
        for index in self._find(point).tolist():
            mask |= self._boxes[index].entry.bit
        return mask

    def _find(self, point: Point) -> NDArray[np.intp]:
        if not self._indexed:
            return self._scan(0, point)
        if self._cells is None:
            self._cells = Cells(self._rows[: self._indexed], self._dimensions)
        found = self._cells.find(point)
        if self._dead:
            found = found[self._alive.take(found)]
        if self._indexed < len(self._boxes):
            found = np.concatenate((found, self._scan(self._indexed, point)))
        return found

    def _scan(self, start: int, point: Point) -> NDArray[np.intp]:
        return _holds(self._rows[start : len(self._boxes)], self._wide(point)).nonzero()[0] + start

    def near(self, below: Point, above: Point) -> list[Box]:
        """Return all boxes that hold a point between these two, and perhaps some others."""
        row = [*above, *(-value for value in below)]
        found = _holds(self._rows[: len(self._boxes)], self._padded(row)).nonzero()[0]
        return [box for box in map(self._boxes.__getitem__, found.tolist()) if box is not None]

    def _wide(self, point: Point) -> NDArray[np.float64]:
        """Return the row that rows of boxes are compared with."""
        return self._padded([*point, *(-value for value in point)])

    def _padded(self, row: Point) -> NDArray[np.float64]:
        return np.array(row + [0.0] * (self._rows.shape[1] - len(row)))

    def match_batch(self, points: NDArray[np.float64]) -> list[Items]:
        """Return the items whose box holds a point, for each."""
        if not self._indexed:
            return [self.match(point) for point in points.tolist()]
        if self._bitmaps is None:
            self._bitmaps = Bitmaps(self._rows[: self._indexed], self._dimensions)
        padding = np.zeros((len(points), self._rows.shape[1] - 2 * self._dimensions))
        wide = np.concatenate((points, -points, padding), axis=1)
        matches: list[Items] = []
        chunk = self._bitmaps.chunk
        for start in range(0, len(points), chunk):
            stop = start + chunk
            which, found = self._bitmaps.find(points[start:stop])
            right = _holds(self._rows.take(found, axis=0), wide[start:stop].take(which, axis=0)).nonzero()[0]
            which, items = which.take(right), self._items.take(found.take(right))
            cuts = [0, *np.searchsorted(which, np.arange(1, min(chunk, len(points) - start))).tolist(), len(items)]
            matches += [items[low:high] for low, high in pairwise(cuts)]
        if self._indexed < len(self._boxes):
            waiting = self._rows[self._indexed : len(self._boxes)]
            for place, row in enumerate(wide):
                found = _holds(waiting, row).nonzero()[0]
                if len(found):
                    matches[place] = np.concatenate((matches[place], self._items.take(found + self._indexed)))
        return matches

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        arrays = self._rows.nbytes + self._items.nbytes + self._alive.nbytes
        indexes = sum(index.size_bytes() for index in (self._cells, self._bitmaps) if index is not None)
        return getsizeof(self) + arrays + indexes + getsizeof(self._boxes)


def _holds(rows: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say of each row whether it is nowhere greater than its point, or than the one point."""
    answers = (rows <= points).view(np.uint64)
    if answers.shape[1] == 1:
        return cast(NDArray[np.bool_], answers.ravel() == _ALL_TRUE)
    return cast(NDArray[np.bool_], (answers == _ALL_TRUE).all(axis=1))
