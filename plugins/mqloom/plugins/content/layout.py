"""How a box and a point within a cell are packed into words of 64 bits, so that a few operations tell whether one holds
the other.

A slab that no box begins and ends within leaves one question to each box: whether the point is behind its beginning, or
before its end, or none. So an attribute needs one field of `bits + 2` bits, where positions within a slab need `bits`:

    point   2 * 2**bits + position
    box     2**bits + beginning, or end, or just 2**bits

The difference has the bit `2**bits` exactly if the answer is yes, and never borrows from the next field. An attribute
with boxes that do begin and end within one slab has two fields. Boxes sorted by their first word are sorted by their
field of the first attribute: those that end in the slab, those that do neither, those that begin in it. What a part of
the slab has to do with is therefore a slice.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.axes import SLABS_MAX, Axis

WORD: Final = 64
PART_BITS: Final = 4
"""A slab of the first attribute has two to the power of this parts."""

COPIES_MAX: Final = 80
"""In so many cells a box may lie, on average."""

BOXES_PER_CELL: Final = 24
"""A cell with fewer boxes needs no cutting."""

SLABS_PER_BOX_MAX: Final = 5
"""To cut into more slabs than these to a box gains nothing."""

Words = NDArray[np.uint64]


class Layout:
    """Where the fields are, for given axes; `order` says which comes first in the number of a cell."""

    __slots__ = (
        "_axes", "_multipliers", "_whole", "bit", "fields", "order", "part_mask", "part_shift", "shift", "steps",
        "strides", "tests", "thresholds", "words",
    )  # fmt: skip

    def __init__(self, axes: Sequence[Axis], order: Sequence[int]) -> None:
        self._axes = axes
        self.order = order
        self.fields = self._pack()
        """Of each axis, where the fields for beginnings and for ends begin: often the same."""
        self.words = 1 + max(max(pair) for pair in self.fields) // WORD
        self.shift = WORD * self.words
        whole = tests = 0
        for axis, pair in zip(axes, self.fields, strict=True):
            for shift in set(pair):
                whole |= 1 << axis.rank_bits + shift
        tests = whole
        self._whole = _words(whole, self.words)
        self.tests = _words(tests, self.words)
        self._multipliers = np.zeros((2 * len(axes), self.words), np.int64)
        for place, pair in enumerate(self.fields):
            for row, shift in zip((place, place + len(axes)), pair, strict=True):
                self._multipliers[row, shift // WORD] = 1 << shift % WORD
        self.strides = self._strides()
        self.steps = [self._step(place) for place in range(len(axes))]
        self._cut_parts()

    def _pack(self) -> list[tuple[int, int]]:
        fields: list[tuple[int, int]] = [(0, 0)] * len(self._axes)
        free = [WORD]
        for place in self.order:
            axis = self._axes[place]
            size = axis.rank_bits + 2
            shifts = []
            for _ in range(1 + axis.is_doubled):
                word = next((word for word, bits in enumerate(free) if bits >= size), len(free))
                if word == len(free):
                    free.append(WORD)
                free[word] -= size
                shifts.append(word * WORD + free[word])
            fields[place] = shifts[0], shifts[-1]
        return fields

    def _strides(self) -> list[int]:
        strides = [0] * len(self._axes)
        stride = 1
        for place in reversed(self.order):
            strides[place] = stride
            stride *= len(self._axes[place].edges) - 1
        return strides

    def _step(self, place: int) -> tuple[Sequence[float], bytes, list[int], int]:
        """Return what turns a value into its part of a number: that of the cell, before the words of the point."""
        axis = self._axes[place]
        multiplier = sum(1 << shift for shift in set(self.fields[place]))
        guard = 2 << axis.rank_bits
        bases = [
            (slab * self.strides[place] << self.shift) + (guard - edge) * multiplier
            for slab, edge in enumerate(axis.edges[:-1].tolist())
        ]
        return axis.bounds, axis.slab_of, bases, multiplier

    def _cut_parts(self) -> None:
        bits, shift = self._axes[self.order[0]].rank_bits, self.fields[self.order[0]][0]
        part_bits = min(PART_BITS, bits)
        self.part_shift = shift + bits - part_bits
        self.part_mask = (1 << part_bits) - 1
        size = 1 << bits - part_bits
        starts = range(0, 1 << bits, size)
        self.thresholds: Words = np.array(
            [bound << shift for start in starts for bound in (start + 1, start + size + (1 << bits))], np.uint64
        )
        """For each part, before which word its slice begins, and before which it ends."""

    def keys(self, offsets: NDArray[np.int32]) -> Words:
        """Return the words of boxes, one row for each word, of rows of how far they begin and end within slabs."""
        product = offsets.astype(np.int64) @ self._multipliers
        keys: Words = product.T.view(np.uint64) + self._whole
        return keys

    def numbers(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], Words]:
        """Return the cells in which points lie, and their words, one row for each word."""
        numbers = np.zeros(len(points), np.int64)
        words = np.zeros((self.words, len(points)), np.uint64)
        for place, axis in enumerate(self._axes):
            positions = np.searchsorted(axis.sorted_bounds, points[:, place], "right")
            slabs = np.frombuffer(axis.slab_of, np.uint8).take(positions)
            numbers += slabs.astype(np.int64) * self.strides[place]
            local = (positions - axis.edges.take(slabs) + (2 << axis.rank_bits)).astype(np.uint64)
            for shift in set(self.fields[place]):
                words[shift // WORD] += local << np.uint64(shift % WORD)
        return numbers, words

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return 400 + sum(200 + 60 * len(bases) for _, _, bases, _ in self.steps)


def _words(number: int, words: int) -> Words:
    """Return a number as a column of words, the lowest first."""
    return np.frombuffer(number.to_bytes(8 * words, "little"), np.uint64).reshape(-1, 1)


def choose_slabs(axes: Sequence[Axis], count: int) -> tuple[list[int], list[int]]:
    """Return the order of the axes, the narrowest first, and into how many slabs each is cut.

    More slabs mean fewer boxes to ask, but more cells that a box lies in. The first axis has parts besides, which are
    for nothing: it is cut just so that a box is wider than a slab.
    """
    widths = [max(axis.width, 1e-6) for axis in axes]
    order = sorted(range(len(axes)), key=widths.__getitem__)
    slabs = [1] * len(axes)
    first = order[0]
    slabs[first] = _wanted(axes[first], math.ceil(1.25 / widths[first]), count)
    growing = set(order[1:] if len(axes) > 1 else order)
    while growing:
        place = min(growing, key=lambda place: slabs[place] * widths[place])
        trial = slabs.copy()
        trial[place] = slabs[place] + max(1, slabs[place] // 8)
        copies = math.prod(size * width + 1 for size, width in zip(trial, widths, strict=True))
        if (
            copies > COPIES_MAX
            or trial[place] > min(SLABS_MAX, axes[place].positions)
            or trial[place] * widths[place] > SLABS_PER_BOX_MAX
            or count * copies < BOXES_PER_CELL * math.prod(trial)
        ):
            growing.remove(place)
        else:
            slabs = trial
    return order, slabs


def _wanted(axis: Axis, slabs: int, count: int) -> int:
    return max(1, min(slabs, SLABS_MAX // 2, axis.positions, count // BOXES_PER_CELL))
