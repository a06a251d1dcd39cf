"""What is known of a subscription in the engine, and what every leaf has in common."""

from array import array
from operator import attrgetter
from typing import Any, Final, Protocol

from mqloom.plugins.content.matches import SLOT_CODE, Slot
from mqloom.plugins.content.planning import Check, Leaf

Mask = int
"""A set of destinations, one bit for each."""


LeafName = tuple[Leaf, int]
"""What a leaf says, and its bucket."""

Point = list[float]
"""A value for each attribute of a box."""


class Entry:
    """A subscription: its slot, its destination's bit (0 without one), its place in time, its places in the leaves."""

    __slots__ = ("bit", "conjunctions", "nested", "number", "places", "slot")

    def __init__(self, slot: Slot, bit: Mask, number: int) -> None:
        self.slot = slot
        self.bit = bit
        self.number = number
        self.places: tuple[Any, ...] = ()
        self.conjunctions = 0
        self.nested: tuple[str, ...] = ()


class Box:
    """Closed bounds `low, high, ...` in doubles, and which of them were open, if any. `index` is where it lies."""

    __slots__ = ("bounds", "entry", "index", "is_open", "item")

    def __init__(self, entry: Entry, item: "Item", bounds: tuple[float, ...], is_open: tuple[bool, ...] | None) -> None:
        self.entry = entry
        self.item = item
        self.bounds = bounds
        self.is_open = is_open
        self.index = 0


class Candidate:
    """What a leaf holds instead of a slot if something is left to check."""

    __slots__ = ("bit", "checks", "several", "slot")

    def __init__(self, entry: Entry, checks: tuple[Check, ...], several: bool) -> None:
        self.slot = entry.slot
        self.bit = entry.bit
        self.checks = checks
        self.several = several
        """Whether the slot may also come from another leaf."""


Item = Slot | Candidate
"""What a leaf holds."""

Items = Any
"""What comes out of a leaf: Slots, or a sequence of candidates."""

SINGLE: Final = 0
"""The bucket of slots that come out of one leaf only."""

SEVERAL: Final = 1
"""The bucket of slots that may come out of several leaves."""

CHECKED: Final = 2
"""The bucket of candidates."""

number_of = attrgetter("number")


def container(bucket: int) -> Any:
    """Return an empty list for what a leaf of this bucket holds."""
    return [] if bucket == CHECKED else array(SLOT_CODE)


class Settling(Protocol):
    """A leaf that puts work off until it is asked."""

    def settle(self) -> None:
        """Do what was put off."""
        ...
