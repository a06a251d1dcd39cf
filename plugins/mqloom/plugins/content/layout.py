"""How boxes and points within a cell are packed into words, so that a few operations tell which holds which.

A slab that no box begins and ends within leaves one question to each box: whether the point is behind its beginning, or
before its end, or none. So an attribute needs one field of `bits + 2` bits, where positions within a slab need `bits`:

    point   2 * 2**bits + position
    box     2**bits + beginning, or end, or just 2**bits

The difference has the bit `2**bits` exactly if the answer is yes, and never borrows from the next field. An attribute
with boxes that do begin and end within one slab has two fields.

The boxes of a cell are sorted by their field of the first attribute: those that end in its slab, those that do neither,
those that begin in it. What a part of the slab has to do with is therefore a slice. If the parts are single positions,
the slice is all there is to ask, and the first attribute needs no field.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.axes import SLABS_MAX, Axis

WORDS: Final = (32, 64)
PART_BITS: Final = 4
"""A slab of the first attribute has two to the power of this parts."""

SINGLE_MAX: Final = 320
"""If there are no more positions to a slab than that, each is a part."""

BOXES_PER_CELL: Final = 24
"""A cell with fewer boxes needs no cutting."""

FIRST_SLABS_PER_BOX: Final = 1.25
SLABS_PER_BOX_MAX: Final = 5.0
"""To cut into more slabs than these to a box gains nothing."""

Words = NDArray[Any]
"""Unsigned, of 32 bits if these are enough, or else of 64."""

Step = tuple[Sequence[float], bytes, list[int], int]


class Layout:
    """Where the fields are, for given axes; `order` says which comes first in the number of a cell."""

    __slots__ = (
        "_axes",
        "_multipliers",
        "_parts",
        "_sliced",
        "_thresholds",
        "_type",
        "_whole",
        "_word",
        "fields",
        "order",
        "part_mask",
        "part_shift",
        "shift",
        "size",
        "steps",
        "strides",
        "tests",
    )

    def __init__(self, axes: Sequence[Axis], order: Sequence[int]) -> None:
        self._axes = axes
        self.order = order
        first = axes[order[0]]
        self._sliced = first.slab_max <= SINGLE_MAX and not first.is_doubled
        """Whether the slice is all there is to ask of the first attribute."""
        for self._word in WORDS:
            self.fields, words = self._pack()
            if words == 1:
                break
        self._type: Any = np.uint32 if self._word == WORDS[0] else np.uint64
        self.size = words * self._word
        """How many bits there are to a point."""
        self.shift = self.size
        """Where, behind the point, its cell's number begins."""
        if self._sliced:
            self.fields[order[0]] = (self.size,)
            self.shift += first.rank_bits
        whole = 0
        self._multipliers = np.zeros((2 * len(axes), words), np.int64)
        for place, shifts in enumerate(self.fields):
            if self._sliced and place == order[0]:
                continue
            for shift in shifts:
                whole |= 1 << axes[place].rank_bits + shift
            for row, shift in ((place, shifts[0]), (place + len(axes), shifts[-1])):
                self._multipliers[row, shift // self._word] = 1 << shift % self._word
        self._whole = self.tests = self.words_of(whole)
        self.strides = self._strides()
        self.steps: list[Step] = [self._step(place) for place in range(len(axes))]
        self._cut_parts()

    def _pack(self) -> tuple[list[tuple[int, ...]], int]:
        """Return where the fields of each axis begin, those for beginnings first, and how many words they need."""
        fields: list[tuple[int, ...]] = [()] * len(self._axes)
        free = [self._word]
        for place in self.order[1:] if self._sliced else self.order:
            axis = self._axes[place]
            bits = axis.rank_bits + 2
            shifts = []
            for _ in range(1 + axis.is_doubled):
                word = next((word for word, left in enumerate(free) if left >= bits), len(free))
                if word == len(free):
                    free.append(self._word)
                free[word] -= bits
                shifts.append(word * self._word + free[word])
            fields[place] = tuple(shifts)
        return fields, len(free)

    def _strides(self) -> list[int]:
        strides = [0] * len(self._axes)
        stride = 1
        for place in reversed(self.order):
            strides[place] = stride
            stride *= len(self._axes[place].edges) - 1
        return strides

    def _step(self, place: int) -> Step:
        """Return what turns a value into its part of a number: that of the cell, before the words of the point."""
        axis = self._axes[place]
        multiplier = sum(1 << shift for shift in self.fields[place])
        guard = 0 if self._sliced and place == self.order[0] else 2 << axis.rank_bits
        bases = [
            (slab * self.strides[place] << self.shift) + (guard - edge) * multiplier
            for slab, edge in enumerate(axis.edges[:-1].tolist())
        ]
        return axis.bounds, axis.slab_of, bases, multiplier

    def _cut_parts(self) -> None:
        bits, shift = self._axes[self.order[0]].rank_bits, self.fields[self.order[0]][0]
        part_bits = bits if self._sliced else min(PART_BITS, bits)
        self.part_shift = shift + bits - part_bits
        self.part_mask = (1 << part_bits) - 1
        size = 1 << bits - part_bits
        starts = np.arange(0, self._axes[self.order[0]].slab_max, size)
        self._parts = len(starts)
        begins, ends = starts + 1, starts + size + (1 << bits)
        self._thresholds = np.concatenate((begins, ends))
        """For each part, before which field its slice begins; and before which it ends."""

    def words_of(self, number: int) -> Words:
        """Return the lowest words of a number as a column, or the only one by itself."""
        number &= (1 << self.size) - 1
        words: Words = np.frombuffer(number.to_bytes(self.size // 8, "little"), self._type)
        return words.reshape(()) if len(words) == 1 else words.reshape(-1, 1)

    def keys(self, offsets: NDArray[np.int32]) -> Words:
        """Return the words of boxes, one row for each word, of rows of how far they begin and end within slabs."""
        keys: Words = (offsets.astype(np.int64) @ self._multipliers).T.astype(self._type)
        return (keys[0] if len(keys) == 1 else keys) + self._whole

    def buckets(self, offsets: NDArray[np.int32]) -> NDArray[np.uint16]:
        """Return by what boxes are sorted within a cell: between which thresholds their first fields are."""
        place = self.order[0]
        axis = self._axes[place]
        fields = offsets[:, place] + np.int32(1 << axis.rank_bits)
        if not axis.is_doubled:
            fields += offsets[:, place + len(self._axes)]
        return np.searchsorted(self._thresholds, fields, "right").astype(np.uint16)

    def cuts(self, buckets: NDArray[np.uint16]) -> NDArray[np.intp]:
        """Return for each part of a cell where its slice begins and ends, of sorted buckets."""
        parts = self._parts
        cuts = np.searchsorted(buckets, np.arange(1, 2 * parts + 1, dtype=np.uint16))
        return cuts.reshape(2, parts).T.ravel()

    def merged_places(
        self, cuts: NDArray[np.intp], new_cuts: NDArray[np.intp], count: int, new_count: int
    ) -> NDArray[np.intp]:
        """Return where new boxes go among those of a cell, if both are sorted."""
        parts = self._parts
        bounds = np.empty((2, 2 * parts + 2), np.intp)
        bounds[:, 0] = 0
        bounds[0, 1:-1], bounds[1, 1:-1] = cuts.reshape(parts, 2).T.ravel(), new_cuts.reshape(parts, 2).T.ravel()
        bounds[:, -1] = count, new_count
        return bounds[0, 1:].repeat(bounds[1, 1:] - bounds[1, :-1]) + np.arange(new_count)

    def numbers(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.intp], Words]:
        """Return the cells in which points lie, the parts of them, and the words, one row for each."""
        numbers = np.zeros(len(points), np.int64)
        parts = np.zeros(len(points), np.intp)
        words: Words = np.zeros((self.size // self._word, len(points)), self._type)
        for place, axis in enumerate(self._axes):
            positions = np.searchsorted(axis.sorted_bounds, points[:, place], "right")
            slabs = np.frombuffer(axis.slab_of, np.uint8).take(positions)
            numbers += slabs.astype(np.int64) * self.strides[place]
            local = positions - axis.edges.take(slabs)
            if place == self.order[0]:
                parts = local >> self.part_shift - self.fields[place][0]
                if self._sliced:
                    continue
            guarded = (local + (2 << axis.rank_bits)).astype(self._type)
            for shift in self.fields[place]:
                words[shift // self._word] += guarded << self._type(shift % self._word)
        return numbers, parts, words[0] if len(words) == 1 else words

    @property
    def bytes_per_box(self) -> float:
        """How much a box takes in all the cells into which it reaches."""
        return math.prod(axis.span for axis in self._axes) * (self.size // 8 + 4)

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return 400 + sum(200 + 60 * len(bases) for _, _, bases, _ in self.steps)


def choose_slabs(axes: Sequence[Axis], count: int, copies_max: float) -> tuple[list[int], list[int]]:
    """Return the order of the axes, the narrowest first, and into how many slabs each is cut.

    More slabs mean fewer boxes to ask, but more cells that a box lies in; the same number of cells can come of cutting
    few axes often, or many not so often. The first axis has parts besides, which are for nothing: it is cut just so
    that a box is wider than a slab.
    """
    widths = [max(axis.width, 1e-6) for axis in axes]
    order = sorted(range(len(axes)), key=widths.__getitem__)
    best: tuple[float, list[int]] = 2.0, []
    for number in range(1, len(axes) + 1):
        slabs = _cut_some(axes, widths, order[:number], count, copies_max)
        asked = math.prod(min(1.0, widths[place] + 1 / slabs[place]) for place in order[1:])
        best = min(best, (asked, slabs))
    return order, best[1]


def _cut_some(
    axes: Sequence[Axis], widths: Sequence[float], cut: Sequence[int], count: int, copies_max: float
) -> list[int]:
    """Return into how many slabs each axis is cut, if these are, so that there are not too many cells."""
    copies = max(1.0, copies_max / (FIRST_SLABS_PER_BOX + 1))
    others = min(SLABS_PER_BOX_MAX, copies ** (1 / max(1, len(cut) - 1)) - 1)
    scale = 1.0
    while True:
        slabs = [1] * len(axes)
        for place in cut:
            wanted = scale * (FIRST_SLABS_PER_BOX if place == cut[0] else others) / widths[place]
            slabs[place] = max(1, min(math.ceil(wanted), SLABS_MAX // 2, axes[place].positions))
        copies = math.prod(size * width + 1 for size, width in zip(slabs, widths, strict=True))
        if math.prod(slabs) * BOXES_PER_CELL <= count * copies or max(slabs) == 1:
            return slabs
        scale *= 0.8
