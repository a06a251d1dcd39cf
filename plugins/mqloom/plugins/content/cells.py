"""Boxes by cell.

Space is cut into slabs along each attribute. A cell is made when a publication first falls into it, of all the boxes
that reach into it; later it takes in those that came since. For what a cell holds, see `layout`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.axes import Axis
from mqloom.plugins.content.layout import Layout, Words, choose_slabs

COPIES_MAX: Final = 90.0
"""In so many cells a box may lie, on average, ..."""

COPIES_BYTES_MAX: Final = 1000
"""... if these do not take more memory than that."""

BYTES_PER_BOX_MAX: Final = 1400
"""Cells are forgotten when they take more memory than that, and made again when needed."""

CELL_BYTES: Final = 2 * 112 + 80 + 100

CHUNK: Final = 64
"""So many points are worked on at a time: what they need fits into a core's cache."""

MEMO_MAX: Final = 4096
MEMO_SHARE: Final = 8
"""Of so many values at most, and one for so many boxes, it is kept where they lie: most domains are small."""

BLOCK_AXES: Final = 2
"""The boxes that reach into a slab of each of the first axes are kept, to make cells of."""

Indices = NDArray[np.int32]
_State = tuple[int, int]
"""How many purges there were, and how many boxes there are."""

_Cell = tuple[Words, Indices, "array[int]", bool, _State]
"""Words, boxes, where the slices of the parts begin and end, whether some are doubtful, the state when it was made."""

_Block = tuple[Indices, NDArray[np.uint8]]
"""Boxes, and their spans along the other axes."""


class Cells:
    """An index of boxes, given as columns of `low, ..., -high, ...`."""

    __slots__ = (
        "_axes",
        "_blocks",
        "_bytes",
        "_cells",
        "_dimensions",
        "_doubtful",
        "_kept",
        "_layout",
        "_memo_max",
        "_offsets",
        "_part_mask",
        "_part_shift",
        "_point",
        "_point_mask",
        "_shift",
        "_slabs",
        "_spans",
        "_state",
        "_steps",
        "_tests",
        "built",
        "doubtful",
        "memos",
    )

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        self._dimensions = len(boxes) // 2
        self.built = boxes.shape[1]
        """How many boxes there were when the axes were cut."""
        rows = [(boxes[place], -boxes[place + self._dimensions]) for place in range(self._dimensions)]
        self._axes = [Axis(lows, highs) for lows, highs in rows]
        places = [axis.place(lows, highs)[:2] for axis, (lows, highs) in zip(self._axes, rows, strict=True)]
        copies_max = COPIES_MAX
        while True:
            order, slabs = choose_slabs(self._axes, self.built, copies_max)
            for axis, (firsts, lasts), wanted in zip(self._axes, places, slabs, strict=True):
                axis.cut(wanted, firsts, lasts)
            self._layout = layout = Layout(self._axes, order)
            if layout.bytes_per_box <= COPIES_BYTES_MAX or copies_max < 1:
                break
            copies_max *= 0.9 * COPIES_BYTES_MAX / layout.bytes_per_box
        self._slabs = [len(axis.edges) - 1 for axis in self._axes]
        self._steps, self._shift = layout.steps, layout.shift
        self._part_shift, self._part_mask = layout.part_shift, layout.part_mask
        self._tests = layout.tests
        self._point: Words | None = None if layout.tests.ndim else np.zeros((), layout.tests.dtype)
        """Room for the only word of a point."""
        self._point_mask = (1 << layout.size) - 1
        self.memos: list[dict[object, int]] = [{} for _ in self._axes]
        """What some values contribute to where a point lies: the sum of these."""
        self._memo_max = min(MEMO_MAX, self.built // MEMO_SHARE)
        self._spans: NDArray[np.uint8] = np.empty((2 * self._dimensions, 0), np.uint8)
        """The first and the last slabs of boxes."""
        self._offsets: NDArray[np.int32] = np.empty((0, 2 * self._dimensions), np.int32)
        """How far within these slabs boxes begin and end, as the layout wants it."""
        self._doubtful: NDArray[np.bool_] = np.empty(0, bool)
        self.doubtful = 0
        """How many boxes may hold less than is said here."""
        self._cells: dict[int, _Cell] = {}
        self._blocks: dict[int, _Block] = {}
        self._bytes = 0
        self._kept: Indices | None = None
        self._state: _State = 0, 0
        self.extend(boxes)

    @property
    def made(self) -> int:
        """How many cells there are."""
        return len(self._cells)

    def __len__(self) -> int:
        return self._state[1]

    def extend(self, boxes: NDArray[np.float64]) -> None:
        """Take more boxes in; they have the next indices."""
        count = boxes.shape[1]
        spans = np.empty((2 * self._dimensions, count), np.uint8)
        offsets = np.empty((count, 2 * self._dimensions), np.int32)
        doubtful = np.zeros(count, bool)
        for place, axis in enumerate(self._axes):
            end = place + self._dimensions
            firsts, lasts, unknown = axis.place(boxes[place], -boxes[end])
            spans[place], spans[end] = axis.slabs(firsts), axis.slabs(lasts)
            begins, ends = axis.inner_ends(firsts, lasts, spans[place], spans[end])
            inner = ends < 0
            if not axis.is_doubled:
                # There is one question to each box: its end is not asked for if it begins in the same slab.
                small = inner & (begins > 0) & (spans[place] == spans[end])
                unknown |= small
                inner &= ~small
            sizes = np.diff(axis.edges).take(spans[end])
            offsets[:, place] = begins
            offsets[:, end] = np.where(inner, sizes + ends - (1 << axis.rank_bits), 0)
            doubtful |= unknown
        self._spans = np.concatenate((self._spans, spans), axis=1)
        self._offsets = np.concatenate((self._offsets, offsets))
        self._doubtful = np.concatenate((self._doubtful, doubtful))
        self.doubtful += int(np.count_nonzero(doubtful))
        self._state = self._state[0], len(self._doubtful)
        self._blocks.clear()

    def purge(self, kept: NDArray[np.intp]) -> None:
        """Keep only some boxes; their places in `kept`, which is sorted, are their new indices."""
        self._spans = self._spans.take(kept, axis=1)
        self._offsets = self._offsets.take(kept, axis=0)
        self._doubtful = self._doubtful.take(kept)
        self.doubtful = int(np.count_nonzero(self._doubtful))
        purges = self._state[0]
        for number in [number for number, cell in self._cells.items() if cell[4][0] != purges]:
            self._forget(number)
        self._kept = kept.astype(np.int32)
        self._state = purges + 1, len(kept)
        self._blocks.clear()

    def locate(self, point: list[float]) -> int:
        """Return where a point lies."""
        total = 0
        for value, memo, step in zip(point, self.memos, self._steps, strict=True):
            code = memo.get(value)
            if code is None:
                bounds, slab_of, bases, multiplier = step
                position = bisect_right(bounds, value)
                code = bases[slab_of[position]] + position * multiplier
                if len(memo) < self._memo_max:
                    memo[value] = code
            total += code
        return total

    def find(self, located: int) -> tuple[Indices, bool]:
        """Return the boxes that hold a point by where it lies, and whether some of them may not."""
        number = located >> self._shift
        cell = self._cells.get(number)
        if cell is None or cell[4] is not self._state:
            cell = self._refresh(number, cell)
        keys, indices, cuts, doubtful, _ = cell
        part = (located >> self._part_shift & self._part_mask) << 1
        start, stop = cuts[part], cuts[part + 1]
        if self._point is not None:
            self._point[()] = located & self._point_mask
            words = self._point - keys[start:stop]
            words &= self._tests
            holds = words == self._tests
        else:
            words = self._layout.words_of(located) - keys[:, start:stop]
            words &= self._tests
            holds = np.logical_and.reduce(words == self._tests)
        return indices[start:stop].take(holds.nonzero()[0]), doubtful

    def find_all(self, points: NDArray[np.float64]) -> Iterator[tuple[Indices, NDArray[np.intp], bool]]:
        """Yield for every `CHUNK` points what `find` returns, one after the other, and where each one's end."""
        numbers, parts, words = self._layout.numbers(points)
        parts *= 2
        for start in range(0, len(points), CHUNK):
            chunk = slice(start, start + CHUNK)
            yield self._find_chunk(numbers[chunk].tolist(), parts[chunk].tolist(), words[..., chunk])

    def _find_chunk(
        self, numbers: list[int], parts: list[int], points: Words
    ) -> tuple[Indices, NDArray[np.intp], bool]:
        cells, state = self._cells, self._state
        key_pieces: list[Words] = []
        index_pieces: list[Indices] = []
        doubtful = False
        for number, part in zip(numbers, parts, strict=True):
            cell = cells.get(number)
            if cell is None or cell[4] is not state:
                cell = self._refresh(number, cell)
            keys, indices, cuts, unsure, _ = cell
            start, stop = cuts[part], cuts[part + 1]
            key_pieces.append(keys[start:stop] if keys.ndim == 1 else keys[:, start:stop])
            index_pieces.append(indices[start:stop])
            doubtful = doubtful or unsure
        lengths = list(map(len, index_pieces))
        words = points.repeat(lengths, axis=-1)
        words -= np.concatenate(key_pieces, axis=-1)
        words &= self._tests
        holds = words == self._tests
        if holds.ndim > 1:
            holds = np.logical_and.reduce(holds)
        places = holds.nonzero()[0]
        found = np.concatenate(index_pieces).take(places)
        return found, places.searchsorted(np.cumsum(lengths)), doubtful

    def _refresh(self, number: int, cell: _Cell | None) -> _Cell:
        """Bring a cell up to date."""
        slabs = self._slabs_of(number)
        if cell is None:
            return self._keep(number, *self._sorted(slabs, self._reaching(number, slabs)))
        self._forget(number)
        keys, indices, kept_cuts, _, (purges, count) = cell
        cuts = np.array(kept_cuts, np.intp)
        if purges != self._state[0]:
            assert self._kept is not None
            places = np.searchsorted(self._kept, indices)
            alive = self._kept.take(places, mode="clip") == indices
            cuts = np.concatenate(([0], np.cumsum(alive))).take(cuts)
            keys, indices = keys[..., alive], places[alive].astype(np.int32)
            count = int(np.searchsorted(self._kept, count))
        new = self._reaching_since(count, slabs)
        if len(new):
            new_keys, new, new_cuts = self._sorted(slabs, new)
            places = self._layout.merged_places(cuts, new_cuts, len(indices), len(new))
            keys, indices = _merged(keys, new_keys, places), _merged(indices, new, places)
            cuts += new_cuts
        return self._keep(number, keys, indices, cuts)

    def _sorted(self, slabs: list[int], indices: Indices) -> tuple[Words, Indices, NDArray[np.intp]]:
        """Return the words of boxes that reach into a cell, the boxes, and the cuts, in the order of a cell."""
        reached = np.equal(self._spans.take(indices, axis=1).T, np.array(slabs * 2, np.uint8))
        offsets = self._offsets.take(indices, axis=0) * reached
        buckets = self._layout.buckets(offsets)
        order = buckets.argsort(kind="stable")
        cuts = self._layout.cuts(buckets.take(order))
        return self._layout.keys(offsets).take(order, axis=-1), indices.take(order), cuts

    def _keep(self, number: int, keys: Words, indices: Indices, cuts: NDArray[np.intp]) -> _Cell:
        doubtful = bool(self.doubtful and self._doubtful.take(indices).any())
        narrow = len(indices) < 2**16
        kept_cuts = array("H" if narrow else "I", cuts.astype(np.uint16 if narrow else np.uint32).tobytes())
        cell = keys, indices, kept_cuts, doubtful, self._state
        size = _cell_bytes(cell)
        if self._bytes + size > BYTES_PER_BOX_MAX * len(self):
            self._cells.clear()
            self._bytes = 0
        self._bytes += size
        self._cells[number] = cell
        return cell

    def _forget(self, number: int) -> None:
        self._bytes -= _cell_bytes(self._cells.pop(number))

    def _slabs_of(self, number: int) -> list[int]:
        return [number // stride % count for stride, count in zip(self._layout.strides, self._slabs, strict=True)]

    def _reaching(self, number: int, slabs: list[int]) -> Indices:
        """Return all boxes that reach into a cell."""
        outer, inner = self._layout.order[:BLOCK_AXES], self._layout.order[BLOCK_AXES:]
        block_number = number // self._layout.strides[outer[-1]]
        block = self._blocks.get(block_number)
        if block is None:
            chosen = _within(self._spans, outer, slabs, self._dimensions)
            indices = chosen.nonzero()[0].astype(np.int32)
            rows = [*inner, *(place + self._dimensions for place in inner)]
            block = self._blocks[block_number] = indices, self._spans[rows].take(indices, axis=1)
        indices, spans = block
        chosen = _within(spans, range(len(inner)), [slabs[place] for place in inner], len(inner))
        return indices.take(chosen.nonzero()[0])

    def _reaching_since(self, count: int, slabs: list[int]) -> Indices:
        """Return the boxes from `count` on that reach into a cell."""
        chosen = _within(self._spans[:, count:], self._layout.order, slabs, self._dimensions)
        return (chosen.nonzero()[0] + count).astype(np.int32)

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        arrays = self._spans.nbytes + self._offsets.nbytes + self._doubtful.nbytes
        blocks = sum(indices.nbytes + spans.nbytes + 500 for indices, spans in self._blocks.values())
        axes = sum(axis.size_bytes() for axis in self._axes)
        kept = 0 if self._kept is None else self._kept.nbytes
        return arrays + blocks + axes + kept + self._layout.size_bytes() + self._bytes + 150 * sum(map(len, self.memos))


def _within(spans: NDArray[np.uint8], places: Iterable[int], slabs: list[int], dimensions: int) -> NDArray[Any]:
    """Say which boxes reach into the slabs of some axes."""
    chosen: NDArray[Any] = np.ones(spans.shape[1], bool)
    for place in places:
        chosen &= spans[place] <= slabs[place]
        chosen &= spans[place + dimensions] >= slabs[place]
    return chosen


def _merged(old: NDArray[Any], new: NDArray[Any], places: NDArray[np.intp]) -> NDArray[Any]:
    """Return what is old, with what is new put in at given places of the result."""
    merged = np.empty((*old.shape[:-1], old.shape[-1] + new.shape[-1]), old.dtype)
    is_old = np.ones(merged.shape[-1], bool)
    is_old[places] = False
    merged[..., is_old] = old
    merged[..., places] = new
    return merged


def _cell_bytes(cell: _Cell) -> int:
    keys, indices, cuts, _, _ = cell
    return keys.nbytes + indices.nbytes + getsizeof(cuts) + CELL_BYTES
