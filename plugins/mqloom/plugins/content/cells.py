"""Boxes by cell.

Space is cut into slabs along each attribute. A cell is made when a publication first falls into it, of all the boxes
that reach into it; later it takes in those that came since. For what a cell holds, see `layout`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from sys import getsizeof
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.axes import Axis
from mqloom.plugins.content.layout import Layout, Words, choose_slabs
from mqloom.plugins.content.placed import Indices, Placed

COPIES_MAX: Final = 90.0
"""In so many cells a box may lie, on average, ..."""

COPIES_BYTES_MAX: Final = 1000
"""... if these do not take more memory than that."""

BYTES_PER_BOX_MAX: Final = 1400
"""Cells are forgotten when they take more memory than that, and made again when needed."""

CELL_BYTES: Final = 2 * 112 + 80 + 100

CHUNK: Final = 2**16
"""About so many boxes are compared at a time: what that needs fits into a core's cache."""

MEMO_MAX: Final = 4096
MEMO_SHARE: Final = 8
"""Of so many values at most, and one for so many boxes, it is kept where they lie: most domains are small."""

_State = tuple[int, int]
"""How many purges there were, and how many boxes there are."""

_Cell = tuple[Words, Indices, "array[int]", bool, _State]
"""Words, boxes, where the slices of the parts begin and end, whether some are doubtful, the state when it was made."""


class Cells:
    """An index of boxes, given as columns of `low, ..., -high, ...`."""

    __slots__ = (
        "_axes",
        "_bytes",
        "_cells",
        "_kept",
        "_layout",
        "_memo_max",
        "_part_mask",
        "_part_shift",
        "_placed",
        "_point",
        "_point_mask",
        "_shift",
        "_state",
        "_steps",
        "_tests",
        "built",
        "memos",
    )

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        dimensions = len(boxes) // 2
        self.built = boxes.shape[1]
        """How many boxes there were when the axes were cut."""
        rows = [(boxes[place], -boxes[place + dimensions]) for place in range(dimensions)]
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
        self._steps, self._shift = layout.steps, layout.shift
        self._part_shift, self._part_mask = layout.part_shift, layout.part_mask
        self._tests = layout.tests
        self._point: Words | None = None if layout.tests.ndim else np.zeros((), layout.tests.dtype)
        """Room for the only word of a point."""
        self._point_mask = (1 << layout.size) - 1
        self.memos: list[dict[object, int]] = [{} for _ in self._axes]
        """What some values contribute to where a point lies: the sum of these."""
        self._memo_max = min(MEMO_MAX, self.built // MEMO_SHARE)
        self._placed = Placed(self._axes, layout)
        self._cells: dict[int, _Cell] = {}
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

    @property
    def doubtful(self) -> int:
        """How many boxes may hold less than is said here."""
        return self._placed.doubtful

    def extend(self, boxes: NDArray[np.float64]) -> None:
        """Take more boxes in; they have the next indices."""
        self._placed.extend(boxes)
        self._state = self._state[0], len(self._placed)

    def purge(self, kept: NDArray[np.intp]) -> None:
        """Keep only some boxes; their places in `kept`, which is sorted, are their new indices."""
        self._placed.purge(kept)
        purges = self._state[0]
        for number in [number for number, cell in self._cells.items() if cell[4][0] != purges]:
            self._forget(number)
        self._kept = kept.astype(np.int32)
        self._state = purges + 1, len(kept)

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
        """Yield for some points at a time what `find` returns, one after the other, and where each one's end."""
        numbers, parts, words = self._layout.numbers(points)
        cells, state = self._cells, self._state
        pieces: list[tuple[Words, Indices]] = []
        doubtful = False
        single = self._point is not None
        size = begun = 0
        for place, (number, part) in enumerate(zip(numbers.tolist(), (2 * parts).tolist(), strict=True), 1):
            cell = cells.get(number)
            if cell is None or cell[4] is not state:
                cell = self._refresh(number, cell)
            keys, indices, cuts, unsure, _ = cell
            start, stop = cuts[part], cuts[part + 1]
            pieces.append((keys[start:stop] if single else keys[:, start:stop], indices[start:stop]))
            doubtful = doubtful or unsure
            size += stop - start
            if size >= CHUNK or place == len(numbers):
                yield *self._compare(words[..., begun:place], pieces), doubtful
                pieces, doubtful, size, begun = [], False, 0, place

    def _compare(self, points: Words, pieces: list[tuple[Words, Indices]]) -> tuple[Indices, NDArray[np.intp]]:
        """Return the boxes that hold points, of those that may, and where each point's end."""
        keys, indices = zip(*pieces, strict=True)
        lengths = list(map(len, indices))
        words = points.repeat(lengths, axis=-1)
        words -= np.concatenate(keys, axis=-1)
        words &= self._tests
        holds = words == self._tests
        if holds.ndim > 1:
            holds = np.logical_and.reduce(holds)
        places = holds.nonzero()[0]
        return np.concatenate(indices).take(places), places.searchsorted(np.cumsum(lengths))

    def _refresh(self, number: int, cell: _Cell | None) -> _Cell:
        """Bring a cell up to date."""
        slabs = self._placed.slabs_of(number)
        if cell is None:
            return self._keep(number, *self._placed.sorted(slabs, self._placed.reaching(number, slabs)))
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
        new = self._placed.reaching_since(count, slabs)
        if len(new):
            new_keys, new, new_cuts = self._placed.sorted(slabs, new)
            places = self._layout.merged_places(cuts, new_cuts, len(indices), len(new))
            keys, indices = _merged(keys, new_keys, places), _merged(indices, new, places)
            cuts += new_cuts
        return self._keep(number, keys, indices, cuts)

    def _keep(self, number: int, keys: Words, indices: Indices, cuts: NDArray[np.intp]) -> _Cell:
        doubtful = self._placed.some_are_doubtful(indices)
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

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        axes = sum(axis.size_bytes() for axis in self._axes)
        kept = 0 if self._kept is None else self._kept.nbytes
        memos = 150 * sum(map(len, self.memos))
        return self._placed.size_bytes() + axes + kept + self._layout.size_bytes() + self._bytes + memos


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
