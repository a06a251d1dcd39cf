"""The destinations of boxes, as bits."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mqloom.plugins.content.entries import Mask

_TYPES: Final = (np.uint16, np.uint64)
"""Few destinations need few bits; they are soon found in a core's cache."""

_or = np.bitwise_or.reduce


class BoxBits:
    """Of each box the bit of its destination."""

    __slots__ = ("_bits", "_max", "are_all")

    def __init__(self, capacity: int) -> None:
        self._bits: NDArray[Any] = np.zeros(capacity, _TYPES[0])
        self._max = int(np.iinfo(_TYPES[0]).max)
        self.are_all = True
        """Whether all bits that were ever put found room; for others, boxes have to be asked."""

    def put(self, index: int, bit: Mask) -> None:
        """Put a box's bit, or 0 for none."""
        if bit > self._max:
            self._bits = self._bits.astype(_TYPES[1])
            self._max = int(np.iinfo(_TYPES[1]).max)
        if bit <= self._max:
            self._bits[index] = bit
        else:
            self.are_all = False

    def keep(self, kept: NDArray[np.intp] | slice, capacity: int) -> None:
        """Keep the bits of some boxes, which come first from now on, and have room for so many."""
        bits = self._bits[kept]
        self._bits = np.zeros(capacity, bits.dtype)
        self._bits[: len(bits)] = bits

    def mask(self, found: NDArray[Any]) -> Mask:
        """Return the destinations of some boxes, if those of all are here."""
        return int(_or(self._bits.take(found)))

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return self._bits.nbytes
