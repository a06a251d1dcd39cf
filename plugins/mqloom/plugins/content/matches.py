"""What a match returns, and where ids are kept so that it can."""

from array import array
from collections.abc import Collection, Hashable, Iterator, Sequence
from sys import getsizeof
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Slot = int
"""The number that stands for an id inside the engine."""

Slots: TypeAlias = "array[int] | NDArray[np.int32]"
"""Numbers of 32 bits. Nobody changes those that a match returns."""

SLOT_CODE: Final = "i"
_FEW_BYTES: Final = 4 * 48
RETIRED_MIN: Final = 1024
RETIRED_SHARE: Final = 4
"""One slot in so many may be out of use before all such slots can be used again."""


class Matches(Collection[Hashable]):
    """The ids that match, each once, in no particular order. It does not change when the engine does.

    What was found are slots, in a few pieces as they came out of the leaves; ids are looked up when they are asked for:
    to touch thousands of objects, most of them not in the processor's cache, would cost more than to find them.
    """

    __slots__ = ("_ids", "_pieces")

    def __init__(self, ids: NDArray[np.object_], pieces: Sequence[Slots]) -> None:
        self._ids = ids
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __bool__(self) -> bool:
        return any(map(len, self._pieces))

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.to_list())

    def __contains__(self, id_: object) -> bool:
        return id_ in self.to_list()

    def __repr__(self) -> str:
        return f"Matches({self.to_list()!r})"

    def to_list(self) -> list[Hashable]:
        """Return the ids as a list."""
        slots = np.frombuffer(b"".join(cast(Any, self._pieces)), np.int32)
        ids: list[Hashable] = self._ids.take(slots).tolist()
        return ids


class Ids:
    """Ids by slot. A slot that was given up is not used again in an array that earlier matches may look into."""

    __slots__ = ("_count", "_free", "_retired", "ids")

    def __init__(self) -> None:
        self.ids: NDArray[np.object_] = np.full(8, None, object)
        self._count = 0
        self._free = array(SLOT_CODE)
        self._retired = array(SLOT_CODE)

    def take(self, id_: Hashable) -> Slot:
        """Give an id a slot."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._count
            self._count += 1
            if slot == len(self.ids):
                grown: NDArray[np.object_] = np.full(2 * slot, None, object)
                grown[:slot] = self.ids
                self.ids = grown
        self.ids[slot] = id_
        return slot

    def give_up(self, slot: Slot) -> None:
        """Let another id have the slot, in time."""
        self._retired.append(slot)
        if len(self._retired) > max(RETIRED_MIN, self._count // RETIRED_SHARE):
            self.ids = self.ids.copy()
            self.ids[self._retired] = None
            self._free.extend(self._retired)
            self._retired = array(SLOT_CODE)

    @property
    def retired(self) -> int:
        """How many slots are out of use."""
        return len(self._retired)

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        return self.ids.nbytes + getsizeof(self._free) + getsizeof(self._retired)


def distinct(pieces: Sequence[Slots]) -> Slots:
    """Return each slot once."""
    joined = b"".join(cast(Any, pieces))
    if len(joined) <= _FEW_BYTES:
        return array(SLOT_CODE, set(array(SLOT_CODE, joined)))
    ordered = np.frombuffer(joined, np.int32).copy()
    ordered.sort()
    first = np.empty(len(ordered), bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
