"""The bounds on one attribute, in order, and the slabs into which they cut it.

A value's position is how many bounds are not above it: to compare positions is as exact as to compare values. A box
ends before the double after its high bound. So it holds the positions from `first` to `last`, where `first` is one more
than the rank of its low bound, and `last` the rank of its end. A bound that came later has no rank: the box is then
said to hold a little more than it does, and is doubtful.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

SLABS_MAX: Final = 255
"""The number of a slab fits into a byte."""

LISTED_MAX: Final = 8192
"""So few bounds are kept as Python's floats, to be compared faster."""

Doubles = NDArray[np.float64]
Positions = NDArray[np.int32]


class Axis:
    """One attribute of an index of boxes."""

    __slots__ = (
        "bounds",
        "edges",
        "firsts",
        "is_doubled",
        "lasts",
        "positions",
        "rank_bits",
        "slab_max",
        "slab_of",
        "sorted_bounds",
        "span",
        "width",
    )

    def __init__(self, lows: Doubles, highs: Doubles) -> None:
        ends = _ends(highs)
        self.sorted_bounds: Doubles = np.unique(np.concatenate((lows[lows > -np.inf], ends[highs < np.inf])))
        self.bounds: Sequence[float] = (
            self.sorted_bounds.tolist()
            if len(self.sorted_bounds) <= LISTED_MAX
            else array("d", self.sorted_bounds.tobytes())
        )
        self.positions = len(self.bounds) + 1
        firsts, lasts, _ = self.place(lows, highs)
        self.width = float(np.mean(np.maximum(lasts - firsts + 1, 1))) / self.positions
        """Of the mean box, as a share of all positions."""
        self.edges: Positions = np.array([0, self.positions], np.int32)
        self.span = 1.0
        """Into how many slabs the mean box reaches."""
        self.slab_max = self.positions
        """How many positions the largest slab has."""
        self.rank_bits = 1
        """How many bits a position within a slab needs."""
        self.slab_of = b""
        self.is_doubled = False
        """Whether both ends of some box lie within one slab."""

    def place(self, lows: Doubles, highs: Doubles) -> tuple[Positions, Positions, NDArray[np.bool_]]:
        """Return the first and last positions that boxes hold, and whether they may hold less."""
        ends = _ends(highs)
        firsts = np.searchsorted(self.sorted_bounds, lows)
        lasts = np.searchsorted(self.sorted_bounds, ends)
        bounded, ending = lows > -np.inf, highs < np.inf
        lasts[~ending] = len(self.bounds)
        # A value that no bound is equal to.
        padded = np.append(self.sorted_bounds, np.nan)
        known, known_end = padded.take(firsts) == lows, padded.take(lasts) == ends
        firsts += known
        return firsts.astype(np.int32), lasts.astype(np.int32), (~known & bounded) | (~known_end & ending)

    def cut(self, slabs: int, firsts: Positions, lasts: Positions) -> None:
        """Cut into about so many slabs, if possible so that none of the boxes begins and ends within one."""
        size = -(-self.positions // slabs)
        real = firsts <= lasts
        earliest = np.full(self.positions + 2, self.positions, np.int32)
        """For each position, the first where a box ends that begins there or later."""
        np.minimum.at(earliest, firsts[real], lasts[real])
        earliest = np.minimum.accumulate(earliest[::-1])[::-1]
        edges = [0]
        allowed = slabs + slabs // 4 + 1 if slabs > 1 else 1
        while edges[-1] < self.positions and len(edges) <= allowed:
            edges.append(min(edges[-1] + size, self.positions, int(earliest[edges[-1] + 1]) + 1))
        if edges[-1] < self.positions:
            edges = [*range(0, self.positions, size), self.positions]
        self.edges = np.array(edges, np.int32)
        self.slab_max = int(np.diff(self.edges).max())
        self.rank_bits = max(1, (self.slab_max - 1).bit_length())
        slab_of = np.repeat(np.arange(len(edges) - 1, dtype=np.uint8), np.diff(self.edges))
        self.slab_of = slab_of.tobytes()
        first_slabs, last_slabs = slab_of.take(firsts, mode="clip"), slab_of.take(lasts)
        self.span = float(np.mean(np.maximum(last_slabs.astype(np.int16) - first_slabs + 1, 0)))
        begins, ends = self.inner_ends(firsts, lasts, first_slabs, last_slabs)
        self.is_doubled = bool(np.any((first_slabs == last_slabs) & (begins > 0) & (ends < 0)))

    def slabs(self, positions: Positions) -> NDArray[np.uint8]:
        """Return the slabs in which positions lie."""
        return np.frombuffer(self.slab_of, np.uint8).take(positions, mode="clip")

    def inner_ends(
        self, firsts: Positions, lasts: Positions, first_slabs: NDArray[np.uint8], last_slabs: NDArray[np.uint8]
    ) -> tuple[Positions, Positions]:
        """Return how far from the edge of its first slab a box begins, and before that of its last slab it ends."""
        begins = firsts - self.edges.take(first_slabs)
        ends = lasts + 1 - self.edges.take(last_slabs.astype(np.intp) + 1)
        return begins, ends

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        each = 8 + 24 if isinstance(self.bounds, list) else 8
        return len(self.bounds) * (each + 8) + len(self.slab_of) + self.edges.nbytes + 400


def _ends(highs: Doubles) -> Doubles:
    with np.errstate(over="ignore"):  # infinity comes after the greatest double, as it should
        return np.nextafter(highs, np.inf)
