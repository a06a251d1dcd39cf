"""What is known of a subscription in the engine, and what every leaf has in common."""

from collections.abc import Hashable
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from mqloom.plugins.content.keys import Signature
from mqloom.plugins.content.planning import Check, Leaf

Mask = int
"""A set of destinations, one bit for each."""


class Place(NamedTuple):
    """Where a conjunction is kept: the node's signature and key, the leaf and its bucket, and what the leaf needs."""

    signature: Signature
    key: Hashable
    leaf: Leaf
    bucket: int
    argument: Any


class Entry:
    """A subscription: its id, its destination's bit (0 without one), its place in time, and its places in the leaves."""

    __slots__ = ("bit", "conjunctions", "id", "nested", "number", "places")

    def __init__(self, id_: Hashable, bit: Mask, number: int) -> None:
        self.id = id_
        self.bit = bit
        self.number = number
        self.places: tuple[Place, ...] = ()
        self.conjunctions = 0
        self.nested: tuple[str, ...] = ()


class Candidate:
    """What a leaf holds instead of an id if something is left to check."""

    __slots__ = ("bit", "checks", "id", "several")

    def __init__(self, entry: Entry, checks: tuple[Check, ...], several: bool) -> None:
        self.id = entry.id
        self.bit = entry.bit
        self.checks = checks
        self.several = several
        """Whether the id may also come from another leaf."""


SINGLE: Final = 0
"""The bucket of ids that come out of one leaf only."""

SEVERAL: Final = 1
"""The bucket of ids that may come out of several leaves."""

CHECKED: Final = 2
"""The bucket of candidates."""

number_of = attrgetter("number")


class Settling(Protocol):
    """A leaf that puts work off until it is asked."""

    def settle(self) -> None:
        """Do what was put off."""
        ...
