"""Boxes by cell, for one publication at a time.

The bounds on an attribute are sorted once, and a bound becomes its rank among them: comparing ranks is as exact as
comparing bounds, and ranks within a cell fit into 16 bits. Space is cut into a few slabs along each of the narrowest
attributes; a cell is made when a publication first falls into it, of all the boxes that reach into it.
"""

from array import array
from bisect import bisect_right
from functools import reduce
from operator import mul
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CUT_MAX: Final = 4
"""So many attributes are cut into slabs at most."""

SLABS_MAX: Final = 8
"""Into so many slabs each at most."""

COPIES_MAX: Final = 96
"""In so many cells a box may lie, on average."""

BOXES_PER_CELL: Final = 24
"""A cell with fewer boxes needs no cutting."""

BYTES_PER_BOX_MAX: Final = 1536
"""Cells are forgotten when they take more memory than that, and made again when needed."""

_Ranks = NDArray[np.int32]
_Cell = tuple[NDArray[Any], NDArray[np.int32]]
_and = np.logical_and.reduce


class Cells:
    """An index of boxes, given as columns of `low, ..., -high, ...`."""

    __slots__ = ("_bounds", "_bytes", "_bytes_max", "_cells", "_count", "_cuts", "_ends", "_lows")

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        self._count = boxes.shape[1]
        self._bounds: list[array[float]] = []
        self._lows: list[_Ranks] = []
        self._ends: list[_Ranks] = []
        dimensions = len(boxes) // 2
        for dimension in range(dimensions):
            self._rank(boxes[dimension], -boxes[dimensions + dimension])
        self._cuts = [
            (bounds, slabs, [-(-slab * (len(bounds) + 1) // slabs) for slab in range(slabs + 1)])
            for bounds, slabs in zip(self._bounds, self._choose_slabs(), strict=True)
        ]
        """For each attribute its sorted bounds, the number of slabs, and where each begins and the last ends."""
        self._cells: dict[int, _Cell] = {}
        self._bytes = 0
        self._bytes_max = BYTES_PER_BOX_MAX * self._count

    def _rank(self, lows: NDArray[np.float64], highs: NDArray[np.float64]) -> None:
        """Rank the bounds on one attribute.

        A value's position is how many bounds are not above it. A box ends before the double after its high bound: it
        holds a value just if the rank of its low bound is less than the position, and that of its end is not.
        """
        unbounded = highs == np.inf
        with np.errstate(over="ignore"):  # infinity comes after the greatest double, as it should
            ends = np.nextafter(highs, np.inf)
        bounds = np.unique(np.concatenate((lows, ends)))
        self._bounds.append(array("d", bounds.tobytes()))
        self._lows.append(np.searchsorted(bounds, lows).astype(np.int32))
        end_ranks = np.searchsorted(bounds, ends).astype(np.int32)
        end_ranks[unbounded] = len(bounds) + 1
        self._ends.append(end_ranks)

    def _choose_slabs(self) -> list[int]:
        """Return into how many slabs each attribute is cut."""
        rows = zip(self._bounds, self._lows, self._ends, strict=True)
        widths = [float(np.mean(ends - lows)) / (len(bounds) + 1) for bounds, lows, ends in rows]
        narrow = sorted(range(len(widths)), key=widths.__getitem__)[:CUT_MAX]
        slabs = [1] * len(widths)
        for size in range(2, SLABS_MAX + 1):
            copies = reduce(mul, (size * widths[place] + 1 for place in narrow))
            cells = size ** len(narrow)
            if copies > COPIES_MAX or self._count * copies < BOXES_PER_CELL * cells:
                break
            for place in narrow:
                slabs[place] = size
        return slabs

    def find(self, point: list[float]) -> NDArray[np.int32]:
        """Return the indices of the boxes that hold a point."""
        number = 0
        column = [0] * (2 * len(point))
        for place, (bounds, slabs, starts) in enumerate(self._cuts):
            position = bisect_right(bounds, point[place])
            slab = position * slabs // starts[-1]
            number = number * slabs + slab
            position -= starts[slab]
            column[place] = position - 1
            column[place - len(point)] = -position
        ranks, indices = self._cells.get(number) or self._make(number)
        holds = ranks <= np.array(column, ranks.dtype).reshape(-1, 1)
        found: NDArray[np.int32] = indices.take(_and(holds).nonzero()[0])
        return found

    def _place(self, number: int) -> list[int]:
        """Return in which slab of each attribute a cell lies."""
        place = []
        for _, slabs, _ in reversed(self._cuts):
            number, slab = divmod(number, slabs)
            place.append(slab)
        return place[::-1]

    def _make(self, number: int) -> _Cell:
        place = self._place(number)
        starts_of = [starts for _, _, starts in self._cuts]
        inside = np.ones(self._count, bool)
        for slab, starts, lows, ends in zip(place, starts_of, self._lows, self._ends, strict=True):
            if len(starts) > 2:
                inside &= lows < starts[slab + 1] - 1
                inside &= ends >= starts[slab]
        indices = inside.nonzero()[0].astype(np.int32)
        widths = [starts[slab + 1] - starts[slab] for slab, starts in zip(place, starts_of, strict=True)]
        rows = [
            np.clip(ranks.take(indices) - starts[slab], -1, width)
            for slab, starts, width, ranks in zip(place, starts_of, widths, self._lows, strict=True)
        ]
        rows += [
            -np.clip(ranks.take(indices) - starts[slab], -1, width)
            for slab, starts, width, ranks in zip(place, starts_of, widths, self._ends, strict=True)
        ]
        cell: _Cell = np.array(rows, np.int16 if max(widths) < 2**15 - 1 else np.int32), indices
        self._bytes += cell[0].nbytes + indices.nbytes + 400
        if self._bytes > self._bytes_max:
            self._cells.clear()
            self._bytes = cell[0].nbytes + indices.nbytes + 400
        self._cells[number] = cell
        return cell

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        ranks = sum(ranks.nbytes for ranks in (*self._lows, *self._ends))
        return sum(map(getsizeof, self._bounds)) + ranks + self._bytes
