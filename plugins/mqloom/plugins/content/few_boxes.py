"""A few boxes, as bits of Python's integers: where numpy would cost more to call than to work.

Of each attribute the bounds are sorted; for each place between two of them an integer has the bits of the boxes that
hold a value there. The boxes that hold a point are the AND of one integer for each attribute.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from sys import getsizeof
from typing import Final

from mqloom.plugins.content.entries import Box, Point

_INFINITE: Final = math.inf
_TRUTH: Final = bytes.maketrans(b"01", b"\0\1")


class FewBoxes:
    """An index of boxes."""

    __slots__ = ("_cuts",)

    def __init__(self, boxes: Sequence[Box], dimensions: int) -> None:
        self._cuts = [_cut(boxes, 2 * dimension) for dimension in range(dimensions)]

    def find(self, point: Point) -> bytes:
        """Return for each box, up to the last that does, whether it holds a point."""
        mask = -1
        for value, (bounds, masks) in zip(point, self._cuts, strict=True):
            mask &= masks[bisect_right(bounds, value)]
            if not mask:
                return b""
        return bin(mask)[:1:-1].encode().translate(_TRUTH)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the boxes."""
        return sum(getsizeof(bounds) + getsizeof(masks) + sum(map(getsizeof, masks)) for bounds, masks in self._cuts)


def _cut(boxes: Sequence[Box], place: int) -> "tuple[array[float], list[int]]":
    """Return an attribute's sorted bounds, and before, between and behind them which boxes hold a value there."""
    flips: dict[float, int] = {}
    for index, box in enumerate(boxes):
        low, high = box.bounds[place], box.bounds[place + 1]
        flips[low] = flips.get(low, 0) ^ (1 << index)
        if high != _INFINITE:
            # A closed box ends before the double after its high bound.
            end = math.nextafter(high, _INFINITE)
            flips[end] = flips.get(end, 0) ^ (1 << index)
    mask = 0
    masks = [mask]
    bounds = sorted(flips)
    for bound in bounds:
        mask ^= flips[bound]
        masks.append(mask)
    return array("d", bounds), masks
