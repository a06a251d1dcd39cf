"""What is known of a subscription in the engine, and what every leaf has in common."""

import math
from array import array
from collections.abc import Hashable, Iterable
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from mqloom.plugins.content.planning import Checks, Leaf

Mask = int
"""A set of destinations, one bit for each."""


LeafName = tuple[Leaf, int]
"""What a leaf says, and its bucket."""

Point = list[float]
"""A value for each attribute of a box."""


class Rest(NamedTuple):
    """What few subscriptions have: places beyond the first, conjunctions other than one, paths with dots."""

    places: list[tuple[Any, Any]]
    conjunctions: int
    nested: tuple[str, ...]


class Entry:
    """A subscription: its destination's bit (0 without one), its place in time, and its place in a leaf.

    `argument` is what the leaf needs to find it. A filter that is never true has no leaf.
    """

    __slots__ = ("argument", "bit", "leaf", "number", "rest")

    def __init__(self, bit: Mask, number: int) -> None:
        self.bit = bit
        self.number = number
        self.leaf: Any = None
        self.argument: Any = None
        self.rest: Rest | None = None


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
    """What a leaf holds instead of an id if something is left to check."""

    __slots__ = ("bit", "checks", "id", "several")

    def __init__(self, id_: Hashable, bit: Mask, checks: Checks, several: bool) -> None:
        self.id = id_
        self.bit = bit
        self.checks = checks
        self.several = several
        """Whether the id may also come from another leaf."""


Item = Hashable
"""What a leaf holds: an id, or a candidate."""

Items = Any
"""Several ids: an array of integers, or a list; or a list of candidates."""

SEVERAL: Final = 1
"""The bucket of ids that may come out of several leaves."""

CHECKED: Final = 2
"""The bucket of candidates."""

Code = Literal["i", "q", ""]
"""How leaves hold ids: in arrays of integers of 32 or of 64 bits, or in lists of anything."""

FIRST_CODE: Final = "i"

_BITS: Final[dict[Code, int]] = {"i": 31, "q": 63}

NUMBERS: Final = frozenset((int, float))
"""The types of numbers as they usually come."""

number_of = attrgetter("number")


def code_for(id_: Hashable, code: Code) -> Code:
    """Return how ids must be held so that this one comes out as it went in, and not 1 for True."""
    if type(id_) is not int:
        return ""
    size = (~id_ if id_ < 0 else id_).bit_length()
    return code if size <= _BITS.get(code, math.inf) else "q" if size <= _BITS["q"] else ""


def container(code: Code, items: Iterable[Item] = ()) -> Items:
    """Return an array of integers, or a list."""
    return array(code, items) if code else list(items)
