"""Where boxes lie: in which slabs of each axis they begin and end, and how far within these."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.axes import Axis
from mqloom.plugins.content.layout import Layout, Words

BLOCK_AXES: Final = 2
"""The boxes that reach into a slab of each of the first axes are kept, to make cells of."""

Indices = NDArray[np.int32]

_Block = tuple[Indices, NDArray[np.uint8]]
"""Boxes, and their spans along the other axes."""


class Placed:
    """Boxes by index, as cells are made of them."""

    __slots__ = ("_axes", "_blocks", "_dimensions", "_doubtful", "_layout", "_offsets", "_slabs", "_spans", "doubtful")

    def __init__(self, axes: Sequence[Axis], layout: Layout) -> None:
        self._axes = axes
        self._layout = layout
        self._dimensions = len(axes)
        self._slabs = [len(axis.edges) - 1 for axis in axes]
        self._spans: NDArray[np.uint8] = np.empty((2 * self._dimensions, 0), np.uint8)
        """The first and the last slabs of boxes."""
        self._offsets: NDArray[np.int32] = np.empty((0, 2 * self._dimensions), np.int32)
        """How far within these slabs boxes begin and end, as the layout wants it."""
        self._doubtful: NDArray[np.bool_] = np.empty(0, bool)
        self.doubtful = 0
        """How many boxes may hold less than is said here."""
        self._blocks: dict[int, _Block] = {}

    def __len__(self) -> int:
        return len(self._doubtful)

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
        self._blocks.clear()

    def purge(self, kept: NDArray[np.intp]) -> None:
        """Keep only some boxes; their places in `kept` are their new indices."""
        self._spans = self._spans.take(kept, axis=1)
        self._offsets = self._offsets.take(kept, axis=0)
        self._doubtful = self._doubtful.take(kept)
        self.doubtful = int(np.count_nonzero(self._doubtful))
        self._blocks.clear()

    def some_are_doubtful(self, indices: Indices) -> bool:
        """Say whether some of these boxes may hold less than is said here."""
        return bool(self.doubtful and self._doubtful.take(indices).any())

    def sorted(self, slabs: list[int], indices: Indices) -> tuple[Words, Indices, NDArray[np.intp]]:
        """Return the words of boxes that reach into a cell, the boxes, and the cuts, in the order of a cell."""
        reached = np.equal(self._spans.take(indices, axis=1).T, np.array(slabs * 2, np.uint8))
        offsets = self._offsets.take(indices, axis=0) * reached
        buckets = self._layout.buckets(offsets)
        order = buckets.argsort(kind="stable")
        cuts = self._layout.cuts(buckets.take(order))
        return self._layout.keys(offsets).take(order, axis=-1), indices.take(order), cuts

    def slabs_of(self, number: int) -> list[int]:
        """Return in which slab of each axis a cell lies."""
        return [number // stride % count for stride, count in zip(self._layout.strides, self._slabs, strict=True)]

    def reaching(self, number: int, slabs: list[int]) -> Indices:
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

    def reaching_since(self, count: int, slabs: list[int]) -> Indices:
        """Return the boxes from `count` on that reach into a cell."""
        chosen = _within(self._spans[:, count:], self._layout.order, slabs, self._dimensions)
        return (chosen.nonzero()[0] + count).astype(np.int32)

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        blocks = sum(indices.nbytes + spans.nbytes + 500 for indices, spans in self._blocks.values())
        return self._spans.nbytes + self._offsets.nbytes + self._doubtful.nbytes + blocks


def _within(spans: NDArray[np.uint8], places: Iterable[int], slabs: list[int], dimensions: int) -> NDArray[Any]:
    """Say which boxes reach into the slabs of some axes."""
    chosen: NDArray[Any] = np.ones(spans.shape[1], bool)
    for place in places:
        chosen &= spans[place] <= slabs[place]
        chosen &= spans[place + dimensions] >= slabs[place]
    return chosen
