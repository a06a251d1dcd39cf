"""Destinations as bits of an integer, and sets of them."""

from collections.abc import Hashable
from sys import getsizeof
from typing import Final

from mqloom.plugins.content.entries import Mask

SETS_MAX: Final = 4096
"""So many sets of destinations are kept ready."""


class Destinations:
    """Which bit stands for which destination. `full` has the bits of all."""

    __slots__ = ("_bits", "_names", "_uses", "full", "sets")

    def __init__(self) -> None:
        self._bits: dict[Hashable, Mask] = {}
        self._names: dict[Mask, Hashable] = {}
        self._uses: dict[Mask, int] = {}
        self.full: Mask = 0
        self.sets: dict[Mask, frozenset[Hashable]] = {}

    def use(self, name: Hashable) -> Mask:
        """Return a destination's bit, for one user more."""
        bit = self._bits.get(name)
        if bit is None:
            bit = ~self.full & (self.full + 1)
            self._bits[name] = bit
            self._names[bit] = name
            self._uses[bit] = 0
            self.full |= bit
            self.sets.clear()
        self._uses[bit] += 1
        return bit

    def free(self, bit: Mask) -> None:
        """Know of one user less of a bit."""
        self._uses[bit] -= 1
        if not self._uses[bit]:
            del self._uses[bit], self._bits[self._names.pop(bit)]
            self.full &= ~bit
            self.sets.clear()

    def set_of(self, mask: Mask) -> frozenset[Hashable]:
        """Return the destinations of a mask."""
        if len(self.sets) >= SETS_MAX:
            self.sets.clear()
        found = self.sets[mask] = frozenset(name for name, bit in self._bits.items() if bit & mask)
        return found

    def size_bytes(self) -> int:
        """Return the memory it takes, without the names."""
        dicts = (self._bits, self._names, self._uses, self.sets)
        return sum(map(getsizeof, (*dicts, *self.sets.values())))
