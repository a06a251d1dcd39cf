"""Many boxes as columns of doubles.

A box is a column `low, ..., -high, ...` and holds a point just if that is `<=` the column `value, ..., -value, ...`.
New boxes are compared with all in one go, until there are enough of them for the index to take them in. The index is
built anew only when it has become another crowd of boxes.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.box_bits import BoxBits
from mqloom.plugins.content.cells import Cells
from mqloom.plugins.content.entries import Box, Code, Items, Mask, Point
from mqloom.plugins.content.keys import Get

INDEXED_MIN: Final = 256
"""Fewer boxes than that are not indexed."""

WAITING_MIN: Final = 256
WAITING_SHARE: Final = 16
"""So many, or one in so many if these are more, may wait for being indexed."""

PATIENCE: Final = 16
"""So many finds for each cell may go by before those who wait are indexed, however few: every cell has work of it."""

CHUNK: Final = 64
"""So many points are compared at a time with those who wait."""

DEAD_SHARE: Final = 4
"""One in so many may be dead before they are purged."""

GROWTH: Final = 2
"""When there are so many times more boxes, or fewer, the index is built anew."""

DOUBTFUL_SHARE: Final = 6
"""One in so many may be doubtful before the index is built anew."""

_NUMBERS: Final = frozenset((int, float))
_NAN: Final = math.nan
_and = np.logical_and.reduce


class BoxRows:
    """Boxes, as an index of them."""

    __slots__ = (
        "_alive",
        "_bits",
        "_boxes",
        "_cells",
        "_code",
        "_columns",
        "_dead",
        "_dimensions",
        "_finds",
        "_indexed",
        "_items",
    )

    def __init__(self, dimensions: int, code: Code) -> None:
        self._dimensions = dimensions
        self._code = code
        self._boxes: list[Box | None] = []
        self._allocate(8)
        self._bits = BoxBits(8)
        self._indexed = self._dead = self._finds = 0
        self._cells: Cells | None = None

    def _allocate(self, capacity: int) -> None:
        self._columns: NDArray[np.float64] = np.empty((2 * self._dimensions, capacity))
        self._items: NDArray[Any] = np.zeros(capacity, self._code or object)
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
        self._bits.put(index, box.entry.bit)
        self._boxes.append(box)

    def remove(self, box: Box) -> None:
        """Forget a box. It stays where it is, but nothing is within NaN."""
        index = box.index
        self._boxes[index] = None
        self._columns[0, index] = _NAN
        self._items[index] = 0
        self._bits.put(index, 0)
        self._alive[index] = False
        self._dead += 1

    def _grow(self) -> None:
        columns, items, alive = self._columns, self._items, self._alive
        count = len(items)
        self._allocate(count + max(8, count // 2))
        self._columns[:, :count], self._items[:count], self._alive[:count] = columns, items, alive
        self._bits.keep(slice(count), len(self._items))

    def settle(self) -> None:
        """Purge and index, if it is time."""
        if self._dead * DEAD_SHARE > len(self._boxes):
            self._purge()
        count = len(self._boxes)
        if self._cells is not None and count < INDEXED_MIN // 2:
            self._cells, self._indexed = None, 0
        elif self._cells is None:
            if count >= INDEXED_MIN:
                self._take_in()
        elif count - self._indexed > max(WAITING_MIN, count // WAITING_SHARE):
            self._take_in()

    def _take_in(self) -> None:
        """Have the index take in those that wait."""
        count = len(self._boxes)
        cells = self._cells
        if cells is None or count > GROWTH * cells.built or cells.doubtful * DOUBTFUL_SHARE > count:
            self._cells = None  # before the next one is built: they are large
            if self._dead:
                self._purge()
            count = len(self._boxes)
            self._cells = Cells(self._columns[:, :count])
        else:
            cells.extend(self._columns[:, self._indexed : count])
        self._indexed = count
        self._finds = 0

    def _lose_patience(self, cells: Cells, finds: int) -> None:
        """Count finds for which some wait; take those in if it pays."""
        self._finds += finds
        if self._finds > PATIENCE * cells.made:
            self._take_in()

    def _purge(self) -> None:
        kept = self._alive[: len(self._boxes)].nonzero()[0]
        count = len(kept)
        columns, items = self._columns.take(kept, axis=1), self._items.take(kept)
        self._allocate(max(8, count * 5 // 4))
        self._columns[:, :count], self._items[:count] = columns, items
        self._bits.keep(kept, len(self._items))
        self._boxes = list(self.boxes())
        for index, box in enumerate(self.boxes()):
            box.index = index
        self._dead = 0
        if self._cells is not None:
            self._indexed = int(np.searchsorted(kept, self._indexed))
            self._cells.purge(kept[: self._indexed])
            if self._indexed * GROWTH < self._cells.built:
                self._cells, self._indexed = None, 0

    def boxes(self) -> list[Box]:
        """Return all that are not dead."""
        return [box for box in self._boxes if box is not None]

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        self._code = code
        self._items = self._items.astype(code or object)

    def match_quickly(self, get: Get, paths: Sequence[str]) -> Items | None:
        """Return the items whose box holds a publication, or None if that is not as simple as usual."""
        found = self._find_quickly(get, paths)
        return None if found is None else self._items_of(found)

    def mask_quickly(self, get: Get, paths: Sequence[str]) -> Mask | None:
        """Return the destinations of the items whose box holds a publication, or None as above."""
        found = self._find_quickly(get, paths) if self._bits.are_all else None
        return None if found is None else self._bits.mask(found)

    def _find_quickly(self, get: Get, paths: Sequence[str]) -> NDArray[Any] | None:
        """Find if there is nothing but the index to ask, of values that it has seen before."""
        cells = self._cells
        if cells is None or self._indexed < len(self._boxes):
            return None
        located = 0
        for path, memo in zip(paths, cells.memos):  # noqa: B905  (half the time)
            value = get(path)
            # True is equal to 1, but no number here.
            code = memo.get(value) if value.__class__ in _NUMBERS else None
            if code is None:
                return None
            located += code
        found, doubtful = cells.find(located)
        return None if doubtful else found

    def match(self, point: Point) -> Items:
        """Return the items whose box holds a point."""
        return self._items_of(self._find(point))

    def _items_of(self, found: NDArray[Any]) -> Items:
        if self._dead:
            found = found[self._alive.take(found)]
        return self._taken(found)

    def _taken(self, indices: NDArray[Any]) -> Items:
        items = self._items.take(indices)
        return array(self._code, items.tobytes()) if self._code else items.tolist()

    def mask(self, point: Point) -> Mask:
        """Return the destinations of the items whose box holds a point."""
        found = self._find(point)
        if self._bits.are_all:
            return self._bits.mask(found)
        mask = 0
        for index in found.tolist():
            box = self._boxes[index]
            if box is not None:
                mask |= box.entry.bit
        return mask

    def _find(self, point: Point) -> NDArray[Any]:
        """Return the boxes that hold a point, and perhaps dead ones."""
        if self._cells is None:
            return self._scan(0, point, point)
        if self._indexed < len(self._boxes):
            self._lose_patience(self._cells, 1)
        found, doubtful = self._cells.find(self._cells.locate(point))
        if doubtful:
            row = np.array(point)
            found = found[_and(self._columns.take(found, axis=1) <= np.concatenate((row, -row))[:, None])]
        if self._indexed < len(self._boxes):
            waiting = self._scan(self._indexed, point, point)
            if len(waiting):
                return np.concatenate((found, waiting))
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
        if self._cells is None:
            return [self.match(point) for point in points.tolist()]
        if self._indexed < len(self._boxes):
            self._lose_patience(self._cells, len(points))
        matches: list[Items] = []
        for found, ends in self._find_all(points):
            items = self._taken(found)
            matches += [items[low:high] for low, high in pairwise([0, *ends.tolist()])]
        if self._indexed < len(self._boxes):
            for place, waiting in self._scan_all(points):
                matches[place] += self._taken(waiting)
        return matches

    def _scan_all(self, points: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the points that some of the boxes not yet indexed hold, and these boxes."""
        columns = self._columns[:, self._indexed : len(self._boxes)]
        for start in range(0, len(points), CHUNK):
            part = points[start : start + CHUNK].T[..., None]
            holds: NDArray[np.bool_] = np.ones((part.shape[1], columns.shape[1]), bool)
            for column, values in zip(columns, np.concatenate((part, -part)), strict=True):
                holds &= column <= values
            which, found = holds.nonzero()
            for place in np.unique(which).tolist():
                low, high = which.searchsorted((place, place + 1))
                yield start + place, found[low:high] + self._indexed

    def _find_all(self, points: NDArray[np.float64]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for some points at a time, the indexed boxes that hold them, and where each one's end."""
        assert self._cells is not None
        start = 0
        for found, ends, doubtful in self._cells.find_all(points):
            right: NDArray[Any] | None = None
            if doubtful:
                which = np.repeat(np.arange(start, start + len(ends)), np.diff(ends, prepend=0))
                rows = np.concatenate((points.T, -points.T)).take(which, axis=1)
                right = _and(self._columns.take(found, axis=1) <= rows)
            elif self._dead:
                right = self._alive.take(found)
            start += len(ends)
            if right is None:
                yield found, ends
            else:
                places = right.nonzero()[0]
                yield found.take(places), places.searchsorted(ends)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        arrays = self._columns.nbytes + self._items.nbytes + self._bits.size_bytes() + self._alive.nbytes
        index = 0 if self._cells is None else self._cells.size_bytes()
        return getsizeof(self) + arrays + index + getsizeof(self._boxes)
