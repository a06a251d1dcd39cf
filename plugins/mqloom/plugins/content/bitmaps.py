"""Boxes as bitmaps, for many publications at a time.

Every attribute is cut into slabs; of each slab a bitmap says which boxes reach into it. The boxes that may hold a point
are the AND of one bitmap for each attribute. To decode the bits, first find the words, then the bytes that have any.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

SLABS_MAX: Final = 64
_ROW: Final = 8
"""Rows of boxes are padded to a multiple of this, so that eight answers can be read as one number."""

_ALL_TRUE: Final = np.uint64(0x0101010101010101)
CHUNK_BYTES: Final = 2**19
"""So much of bitmaps is worked on at a time: what fits into a core's cache."""


class Bitmaps:
    """An index of boxes, given as columns of `low, ..., -high, ...`."""

    __slots__ = ("_bitmaps", "_bounds", "_rows", "_words", "chunk")

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        count, dimensions = boxes.shape[1], len(boxes) // 2
        self._rows = np.full((count, -(-len(boxes) // _ROW) * _ROW), -np.inf)
        self._rows[:, : len(boxes)] = boxes.T
        self._words = -(-count // 64)
        self.chunk = max(4, min(256, CHUNK_BYTES // (8 * self._words)))
        slabs = max(2, min(SLABS_MAX, count // 32))
        self._bounds: list[NDArray[np.float64]] = []
        self._bitmaps: list[NDArray[np.uint64]] = []
        for dimension in range(dimensions):
            self._cut(boxes[dimension], -boxes[dimensions + dimension], slabs)

    def _cut(self, lows: NDArray[np.float64], highs: NDArray[np.float64], slabs: int) -> None:
        ends = np.concatenate((lows, highs))
        ends = np.sort(ends[np.isfinite(ends)])
        bounds = np.unique(ends[np.linspace(0, len(ends) - 1, slabs + 1).astype(int)[1:-1]])
        first, last = np.searchsorted(bounds, lows, "right"), np.searchsorted(bounds, highs, "right")
        bits = np.zeros((len(bounds) + 1, self._words * 64), bool)
        for slab, row in enumerate(bits):
            np.logical_and(first <= slab, last >= slab, out=row[: len(lows)])
        self._bounds.append(bounds)
        self._bitmaps.append(np.packbits(bits, axis=1, bitorder="little").view(np.uint64))

    def find(self, points: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return pairs of a point and a box that holds it, sorted by point."""
        which, boxes = self._find_near(points)
        wide = np.zeros((len(points), self._rows.shape[1]))
        dimensions = points.shape[1]
        wide[:, :dimensions], wide[:, dimensions : 2 * dimensions] = points, -points
        holds = (self._rows.take(boxes, axis=0) <= wide.take(which, axis=0)).view(np.uint64) == _ALL_TRUE
        right = (holds.ravel() if holds.shape[1] == 1 else holds.all(axis=1)).nonzero()[0]
        return which.take(right), boxes.take(right)

    def _find_near(self, points: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return pairs of a point and a box that reaches into its slabs, sorted by point."""
        words: NDArray[np.uint64] | None = None
        for column, bounds, bitmaps in zip(points.T, self._bounds, self._bitmaps, strict=True):
            slabs = bitmaps.take(np.searchsorted(bounds, column, "right"), axis=0)
            words = slabs if words is None else np.bitwise_and(words, slabs, out=words)
        assert words is not None
        flat = words.ravel()
        word_places = (flat != 0).nonzero()[0]
        octets = flat.take(word_places).view(np.uint8)
        octet_places = (octets != 0).nonzero()[0]
        bits = np.unpackbits(octets.take(octet_places), bitorder="little").view(bool).nonzero()[0]
        octet_places = octet_places.take(bits >> 3)
        word_places = word_places.take(octet_places >> 3)
        which = word_places // self._words
        return which, ((word_places - which * self._words) << 6) | ((octet_places & 7) << 3) | (bits & 7)

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return sum(array.nbytes for array in (self._rows, *self._bounds, *self._bitmaps))
