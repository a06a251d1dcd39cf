"""Leaves of subscriptions with bounds on several attributes, or both bounds on one: boxes, in doubles.

Bounds are doubles exactly, or they would not be here; open ones are moved to the next double, so that all are closed.
A box is a row `low, ..., -high, ...` and holds a point just if the row is `<=` the row `value, ..., -value, ...`.
New boxes are compared with one by one, all in one go, until there are enough of them to index all anew.
"""

import math
from collections.abc import Hashable, Sequence
from sys import getsizeof
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.bitmaps import Bitmaps
from mqloom.plugins.content.cells import Cells
from mqloom.plugins.content.entries import Entry, Mask
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.planning import Range

Point = list[float]

INDEXED_MIN: Final = 256
"""Fewer boxes than that are not indexed."""

WAITING_SHARE: Final = 48
"""One in so many may wait for being indexed."""

DEAD_SHARE: Final = 4
"""One in so many may be dead before they are purged."""

_EXACT_MAX: Final = 2**53
_ROW: Final = 8
"""Rows are padded to a multiple of this, so that eight answers can be read as one number."""

_ALL_TRUE: Final = np.uint64(0x0101010101010101)
_NAN: Final = math.nan


class Box:
    """Where an entry's box lies: purging moves it."""

    __slots__ = ("entry", "index")

    def __init__(self, entry: Entry, index: int) -> None:
        self.entry = entry
        self.index = index


class Boxes:
    """Items by bounds on `paths`."""

    __slots__ = ("_alive", "_bitmaps", "_boxes", "_cells", "_dead", "_indexed", "_items", "_open", "_rows", "paths")

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._boxes: list[Box | None] = []
        self._allocate(8)
        self._indexed = self._dead = 0
        self._cells: Cells | None = None
        self._bitmaps: Bitmaps | None = None

    def _allocate(self, capacity: int) -> None:
        width = -(-2 * len(self.paths) // _ROW) * _ROW
        self._rows: NDArray[np.float64] = np.full((capacity, width), -np.inf)
        self._open: NDArray[np.bool_] = np.zeros((capacity, 2 * len(self.paths)), bool)
        self._items: NDArray[np.object_] = np.full(capacity, None, object)
        self._alive: NDArray[np.bool_] = np.ones(capacity, bool)

    def __len__(self) -> int:
        return len(self._boxes) - self._dead

    @property
    def dead(self) -> int:
        """How many are dead but not yet purged."""
        return self._dead

    def add(self, entry: Entry, item: Hashable, ranges: tuple[Range, ...]) -> Box:
        """Take an item in; return what `remove` will need."""
        index = len(self._boxes)
        if index == len(self._rows):
            self._grow()
        row, is_open = _row_of(ranges)
        self._rows[index, : len(row)] = row
        if is_open is not None:
            self._open[index] = is_open
        self._items[index] = item
        box = Box(entry, index)
        self._boxes.append(box)
        return box

    def remove(self, _entry: Entry, box: Box) -> None:
        """Forget an item. It stays where it is, but nothing is within NaN."""
        index = box.index
        self._boxes[index] = None
        self._rows[index, 0] = _NAN
        self._items[index] = None
        self._alive[index] = False
        self._dead += 1

    def _grow(self) -> None:
        rows, is_open, items, alive = self._rows, self._open, self._items, self._alive
        count = len(rows)
        self._allocate(2 * count)
        self._rows[:count], self._open[:count], self._items[:count], self._alive[:count] = rows, is_open, items, alive

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
        alive = [box for box in self._boxes if box is not None]
        indices = np.array([box.index for box in alive], np.intp)
        rows, is_open, items = self._rows, self._open, self._items
        self._allocate(max(8, len(alive) * 5 // 4))
        count = len(alive)
        self._rows[:count], self._open[:count], self._items[:count] = rows[indices], is_open[indices], items[indices]
        for index, box in enumerate(alive):
            box.index = index
        self._boxes = list(alive)
        self._dead = 0

    def match(self, get: Get) -> list[Hashable]:
        """Return the items whose box holds the publication."""
        found = self._find(get)
        return [] if found is None else cast(list[Hashable], self._items.take(found).tolist())

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items whose box holds the publication."""
        found = self._find(get)
        mask = 0
        if found is not None:
            for index in found.tolist():
                mask |= self._boxes[index].entry.bit  # type: ignore[union-attr]  # dead ones are not found
        return mask

    def _find(self, get: Get) -> NDArray[np.intp] | None:
        point: Point = []
        for path in self.paths:
            value = get(path)
            if value.__class__ is not float:
                number = _double(value)
                if number is None:
                    return self._find_awkward(get)
                value = number
            if value != value:  # noqa: PLR0124  (NaN)
                return None
            point.append(value)  # type: ignore[arg-type]  # it is a float by now
        if not self._indexed:
            return self._scan(0, point)
        if self._cells is None:
            self._cells = Cells(self._rows[: self._indexed], len(self.paths))
        found = self._cells.find(point)
        if self._dead:
            found = found[self._alive.take(found)]
        if self._indexed < len(self._boxes):
            found = np.concatenate((found, self._scan(self._indexed, point)))
        return found

    def _scan(self, start: int, point: Point) -> NDArray[np.intp]:
        return _holds(self._rows[start : len(self._boxes)], self._wide(point)).nonzero()[0] + start

    def _wide(self, lows: Point, highs: Point | None = None) -> NDArray[np.float64]:
        """Return the row that rows of boxes are compared with; of a value between two doubles, they are the two."""
        row = [*(lows if highs is None else highs), *(-value for value in lows)]
        return np.array(row + [0.0] * (self._rows.shape[1] - len(row)))

    def _find_awkward(self, get: Get) -> NDArray[np.intp] | None:
        """Do the same for values that are no doubles: those with the nearest doubles, then only the right ones."""
        values: list[int | float] = []
        for path in self.paths:
            value = get(path)
            if not isinstance(value, int | float) or isinstance(value, bool) or value != value:  # noqa: PLR0124  (NaN)
                return None
            values.append(value)
        below, above = zip(*map(_neighbours, values), strict=True)
        found = _holds(self._rows[: len(self._boxes)], self._wide(list(below), list(above))).nonzero()[0]
        return np.array([index for index in found.tolist() if self._holds_exactly(index, values)], np.intp)

    def _holds_exactly(self, index: int, values: list[int | float]) -> bool:
        row, is_open = self._rows[index].tolist(), self._open[index].tolist()
        count = len(values)
        for place, value in enumerate(values):
            low, high = row[place], -row[count + place]
            if value <= math.nextafter(low, -math.inf) if is_open[place] else value < low:
                return False
            if value >= math.nextafter(high, math.inf) if is_open[count + place] else value > high:
                return False
        return True

    def match_batch(self, gets: Sequence[Get]) -> list[list[Hashable]]:
        """Return the items whose box holds the publication, for each."""
        if not self._indexed:
            return [self.match(get) for get in gets]
        points: list[Point] = []
        places: list[int] = []
        matches: list[list[Hashable]] = [[]] * len(gets)
        for place, get in enumerate(gets):
            point = self._point(get)
            if point is None:
                matches[place] = self.match(get)
            else:
                points.append(point)
                places.append(place)
        if points:
            for place, items in zip(places, self._match_points(np.array(points)), strict=True):
                matches[place] = items
        return matches

    def _point(self, get: Get) -> Point | None:
        point: Point = []
        for path in self.paths:
            value = _double(get(path))
            if value is None or value != value:  # noqa: PLR0124  (NaN)
                return None
            point.append(value)
        return point

    def _match_points(self, points: NDArray[np.float64]) -> list[list[Hashable]]:
        if self._bitmaps is None:
            self._bitmaps = Bitmaps(self._rows[: self._indexed], len(self.paths))
        padding = np.zeros((len(points), self._rows.shape[1] - 2 * len(self.paths)))
        wide = np.concatenate((points, -points, padding), axis=1)
        matches: list[list[Hashable]] = []
        chunk = self._bitmaps.chunk
        for start in range(0, len(points), chunk):
            stop = start + chunk
            which, found = self._bitmaps.find(points[start:stop])
            right = _holds(self._rows.take(found, axis=0), wide[start:stop].take(which, axis=0)).nonzero()[0]
            which, items = which.take(right), self._items.take(found.take(right)).tolist()
            cuts = [0, *np.searchsorted(which, np.arange(1, min(chunk, len(points) - start))).tolist(), len(items)]
            matches += [items[low:high] for low, high in zip(cuts, cuts[1:], strict=False)]
        if self._indexed < len(self._boxes):
            for items, row in zip(matches, wide, strict=True):
                waiting = _holds(self._rows[self._indexed : len(self._boxes)], row).nonzero()[0]
                if len(waiting):
                    items += self._items.take(waiting + self._indexed).tolist()
        return matches

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        arrays = self._rows.nbytes + self._open.nbytes + self._items.nbytes + self._alive.nbytes
        indexes = sum(index.size_bytes() for index in (self._cells, self._bitmaps) if index is not None)
        return getsizeof(self) + arrays + indexes + getsizeof(self._boxes) + len(self) * (48 + 32)


def _holds(rows: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say of each row whether it is nowhere greater than its point, or than the one point."""
    answers = (rows <= points).view(np.uint64)
    if answers.shape[1] == 1:
        return cast(NDArray[np.bool_], answers.ravel() == _ALL_TRUE)
    return cast(NDArray[np.bool_], (answers == _ALL_TRUE).all(axis=1))


def _row_of(ranges: tuple[Range, ...]) -> tuple[Point, list[bool] | None]:
    """Return a box as a row, and which of its bounds were open, if any."""
    lows: Point = []
    highs: Point = []
    any_open = False
    for _, low, low_open, high, high_open in ranges:
        if low is None:
            lows.append(-math.inf)
        else:
            lows.append(math.nextafter(low, math.inf) if low_open else float(low))
        if high is None:
            highs.append(-math.inf)
        else:
            highs.append(-math.nextafter(high, -math.inf) if high_open else -float(high))
        any_open = any_open or low_open or high_open
    if not any_open:
        return lows + highs, None
    return lows + highs, [*(range_.low_open for range_ in ranges), *(range_.high_open for range_ in ranges)]


def _double(value: object) -> float | None:
    """Return a number as a double if it is one exactly."""
    if isinstance(value, float):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if -_EXACT_MAX <= value <= _EXACT_MAX:
        return float(value)
    below, above = _neighbours(value)
    return below if below == above else None


def _neighbours(value: int | float) -> tuple[float, float]:
    """Return the doubles between which a number lies: twice itself, if it is one."""
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if near == value:
        return near, near
    return (math.nextafter(near, -math.inf), near) if near > value else (near, math.nextafter(near, math.inf))
