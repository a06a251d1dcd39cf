"""Leaves of subscriptions with bounds on several attributes, or both bounds on one: boxes.

Bounds are doubles exactly, or they would not be here; open ones are moved to the next double, so that all are closed.
That is right of values which are doubles too. For others the boxes near them are found, and asked exactly.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import compress
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.box_rows import BoxRows
from mqloom.plugins.content.drafts import Range
from mqloom.plugins.content.entries import CHECKED, Box, Code, Entry, Item, Items, LeafName, Mask, Point, container
from mqloom.plugins.content.few_boxes import FewBoxes
from mqloom.plugins.content.keys import Get

FEW_MAX: Final = 128
"""So many boxes are handled without numpy."""

_EXACT_MAX: Final = 2**53
_NUMBERS: Final = frozenset((int, float))
_INFINITE: Final = math.inf

Values = list[int | float]


class Boxes:
    """Items by bounds on `paths`."""

    __slots__ = ("_code", "_few", "_few_index", "_paths", "_rows", "name", "node")

    def __init__(self, name: LeafName, paths: tuple[str, ...], node: Any, code: Code) -> None:
        self.name = name
        self.node = node
        self._code: Code = "" if name[1] == CHECKED else code
        self._paths = paths
        self._few: list[Box] = []
        self._few_index: FewBoxes | None = None
        self._rows: BoxRows | None = None

    def __len__(self) -> int:
        return len(self._few) if self._rows is None else len(self._rows)

    @property
    def dead(self) -> int:
        """How many are dead but not yet purged."""
        return 0 if self._rows is None else self._rows.dead

    @property
    def are_many(self) -> bool:
        """Whether a batch gains by `match_batch`."""
        return self._rows is not None

    @property
    def waiting(self) -> bool:
        """Whether `settle` may have something to do."""
        return self._rows is not None

    def add(self, entry: Entry, item: Item, ranges: tuple[Range, ...]) -> Box:
        """Take an item in; return what `remove` will need."""
        box = _box_of(entry, item, ranges)
        if self._rows is not None:
            self._rows.add(box)
            return box
        self._few.append(box)
        self._few_index = None
        if len(self._few) > FEW_MAX:
            self._rows = BoxRows(len(self._paths), self._code)
            for known in self._few:
                self._rows.add(known)
            self._few = []
        return box

    def remove(self, _entry: Entry, box: Box) -> None:
        """Forget an item."""
        if self._rows is None:
            self._few.remove(box)
            self._few_index = None
            return
        self._rows.remove(box)
        if len(self._rows) < FEW_MAX // 2:
            self._few, self._rows = self._rows.boxes(), None

    def settle(self) -> None:
        """Purge and index, if it is time."""
        if self._rows is not None:
            self._rows.settle()

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        if self.name[1] == CHECKED:
            return
        self._code = code
        self._few_index = None
        if self._rows is not None:
            self._rows.turn(code)

    def match(self, get: Get) -> Items:
        """Return the items whose box holds the publication."""
        if self._rows is None:
            index = self._few_index or self._index_few()
            which = index.find(get)
            if which is not None:
                return self._listed(compress(index.items, which))
        else:
            items = self._rows.match_quickly(get, self._paths)
            if items is not None:
                return items
            point = self._point(get)
            if point is not None:
                return self._rows.match(point)
        return self._listed([box.item for box in self._match_awkward(get)])

    def mask(self, get: Get) -> Mask:
        """Return the destinations of the items whose box holds the publication."""
        boxes: Iterable[Box]
        if self._rows is None:
            which = (self._few_index or self._index_few()).find(get)
            boxes = self._match_awkward(get) if which is None else compress(self._few, which)
        else:
            quick = self._rows.mask_quickly(get, self._paths)
            if quick is not None:
                return quick
            point = self._point(get)
            if point is not None:
                return self._rows.mask(point)
            boxes = self._match_awkward(get)
        mask = 0
        for box in boxes:
            mask |= box.entry.bit
        return mask

    def _listed(self, items: Iterable[Any]) -> Items:
        return container(self._code, items)

    def _index_few(self) -> FewBoxes:
        items = self._listed([box.item for box in self._few])
        self._few_index = FewBoxes(self._few, self._paths, items)
        return self._few_index

    def match_batch(self, gets: Sequence[Get]) -> list[Items]:
        """Return the items whose box holds the publication, for each."""
        if self._rows is None:
            return [self.match(get) for get in gets]
        columns = self._columns(gets)
        if columns is not None:
            return self._rows.match_batch(columns)
        points: list[Point] = []
        places: list[int] = []
        matches: list[Items] = [()] * len(gets)
        for place, get in enumerate(gets):
            point = self._point(get)
            if point is None:
                matches[place] = self.match(get)
            else:
                points.append(point)
                places.append(place)
        if points:
            for place, items in zip(places, self._rows.match_batch(np.array(points)), strict=True):
                matches[place] = items
        return matches

    def _columns(self, gets: Sequence[Get]) -> NDArray[np.float64] | None:
        """Return the values of all publications, a row for each, if all are simply doubles."""
        points = np.empty((len(gets), len(self._paths)))
        for place, path in enumerate(self._paths):
            column: list[Any] = [get(path) for get in gets]
            if not _NUMBERS.issuperset(map(type, column)):
                return None
            try:
                points[:, place] = column
            except OverflowError:
                return None
        # Integers from there on need not be doubles; to nothing NaN is less.
        return points if (np.abs(points) < _EXACT_MAX).all() else None

    def _point(self, get: Get) -> Point | None:
        """Return the publication's values if all are doubles."""
        point: Point = []
        for path in self._paths:
            value: Any = get(path)
            kind = value.__class__
            if kind is int and -_EXACT_MAX <= value <= _EXACT_MAX:
                value = float(value)
            elif kind is not float:
                value = _double(value)
                if value is None:
                    return None
            if value != value:  # noqa: PLR0124  (NaN)
                return None
            point.append(value)
        return point

    def _match_awkward(self, get: Get) -> list[Box]:
        values: Values = []
        for path in self._paths:
            value = get(path)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:  # noqa: PLR0124  (NaN)
                return []
            values.append(value)
        if self._rows is None:
            return [box for box in self._few if _holds_exactly(box, values)]
        below, above = zip(*map(_neighbours, values), strict=True)
        return [box for box in self._rows.near(list(below), list(above)) if _holds_exactly(box, values)]

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        rows = 0 if self._rows is None else self._rows.size_bytes()
        few = 0 if self._few_index is None else self._few_index.size_bytes()
        each = 16 + 5 * 8 + 16 + getsizeof((None,) * (2 * len(self._paths))) + 2 * len(self._paths) * getsizeof(0.0)
        return getsizeof(self) + getsizeof(self._few) + few + rows + each * len(self)


def _box_of(entry: Entry, item: Item, ranges: tuple[Range, ...]) -> Box:
    bounds: Point = []
    is_open: list[bool] = []
    for _, low, low_open, high, high_open in ranges:
        if low is None:
            bounds.append(-_INFINITE)
        else:
            bounds.append(math.nextafter(low, _INFINITE) if low_open else float(low))
        if high is None:
            bounds.append(_INFINITE)
        else:
            bounds.append(math.nextafter(high, -_INFINITE) if high_open else float(high))
        is_open += (low_open, high_open)
    return Box(entry, item, tuple(bounds), tuple(is_open) if any(is_open) else None)


def _holds_exactly(box: Box, values: Values) -> bool:
    """Say whether a box holds values that need not be doubles."""
    lows, highs = box.bounds[::2], box.bounds[1::2]
    is_open = box.is_open or (False,) * len(box.bounds)
    for value, low, high, low_open, high_open in zip(values, lows, highs, is_open[::2], is_open[1::2], strict=True):
        # What an open bound was before it was moved.
        if value <= math.nextafter(low, -_INFINITE) if low_open else value < low:
            return False
        if value >= math.nextafter(high, _INFINITE) if high_open else value > high:
            return False
    return True


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
