"""What a match returns."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import chain


class Matches(Collection[Hashable]):
    """The ids that match, each once, in no particular order. It does not change when the engine does.

    The ids lie in a few pieces, as they came out of the leaves: to join thousands of them would cost more than to
    find them.
    """

    __slots__ = ("_pieces",)

    def __init__(self, pieces: Sequence[Sequence[Hashable]]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __iter__(self) -> Iterator[Hashable]:
        return chain.from_iterable(self._pieces)

    def __contains__(self, id_: object) -> bool:
        return any(id_ in piece for piece in self._pieces)

    def __repr__(self) -> str:
        return f"Matches({self.to_list()!r})"

    def to_list(self) -> list[Hashable]:
        """Return the ids as a list: faster than `list()`."""
        ids: list[Hashable] = []
        for piece in self._pieces:
            ids += piece
        return ids
