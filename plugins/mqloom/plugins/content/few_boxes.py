"""A few boxes, as bits of Python's integers: where numpy would cost more to call than to work.

Of each attribute the bounds are sorted; for each place between two of them an integer has the bits of the boxes that
hold a value there. The boxes that hold a point are the AND of one integer for each attribute.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.entries import Box, Items
from mqloom.plugins.content.keys import Get

_INFINITE: Final = math.inf
_EXACT_MAX: Final = 2**53
_TRUTH: Final = bytes.maketrans(b"01", b"\0\1")


class FewBoxes:
    """An index of boxes."""

    __slots__ = ("_cuts", "items")

    def __init__(self, boxes: Sequence[Box], paths: Sequence[str], items: Items) -> None:
        self.items = items
        """Of each box its item."""
        self._cuts = [(path, *_cut(boxes, 2 * place)) for place, path in enumerate(paths)]

    def find(self, get: Get) -> bytes | None:
        """Return for each box, up to the last that does, whether it holds the publication; None if that is not easy."""
        mask = -1
        for path, bounds, masks in self._cuts:
            value: Any = get(path)
            kind = value.__class__
            if kind is not float and (kind is not int or not -_EXACT_MAX <= value <= _EXACT_MAX):
                return None
            if value != value:  # noqa: PLR0124  (NaN)
                return b""
            mask &= masks[bisect_right(bounds, value)]
            if not mask:
                return b""
        return bin(mask)[:1:-1].encode().translate(_TRUTH)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the boxes."""
        return sum(getsizeof(bounds) + getsizeof(masks) + sum(map(getsizeof, masks)) for _, bounds, masks in self._cuts)


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
