"""What leaves of a few items have in common: they are laid out anew when something has changed, and a match is due."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from mqloom.plugins.content.entries import Code, Entry, Item, LeafName, Mask, number_of


class Row(Protocol):
    """An item with whatever it is sorted by."""

    @property
    def bit(self) -> Mask:
        """Its destination's."""
        ...


L = TypeVar("L")
R = TypeVar("R", bound=Row)


class LaidOut(Generic[L, R]):
    """Rows of items in the order in which they came. A kind of leaf adds `settle`, which lays them out as `row`."""

    __slots__ = ("_code", "_entries", "_laid_out", "_leaf", "_make_row", "_rows", "name", "node", "row", "waiting")

    def __init__(self, name: LeafName, leaf: L, node: Any, code: Code, make_row: Callable[..., R]) -> None:
        self.name = name
        self.node = node
        self.waiting = True
        """Whether `settle` has something to do."""
        self.row: list[Any] = []
        """One, or none before it is settled: selections share the list."""
        self._leaf = leaf
        self._code = code
        self._make_row = make_row
        self._entries: list[Entry] = []
        self._rows: list[R] = []
        self._laid_out: list[R] = []
        """The rows as their bounds and ids lie."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry, item: Item, argument: tuple[Any, Any]) -> Any:
        """Take an item in; return what `remove` will need."""
        self._rows.append(self._make_row(*argument, item, entry.bit))
        self._entries.append(entry)
        self.waiting = True
        return None

    def remove(self, entry: Entry, _argument: Any) -> None:
        """Forget one of an entry's items; if it has several, each is removed in turn."""
        index = bisect_left(self._entries, entry.number, key=number_of)
        assert self._entries[index] is entry
        del self._entries[index], self._rows[index]
        self.waiting = True

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        self._code = code
        self.settle()

    def settle(self) -> None:
        """Lay bounds and ids out."""
        raise NotImplementedError

    def _mask_of(self, found: list[int]) -> Mask:
        """Return the destinations of rows by their places in the layout."""
        mask = 0
        for index in found:
            mask |= self._laid_out[index].bit
        return mask
