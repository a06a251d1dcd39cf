"""Paths with dots: what filters ask of objects within a publication."""

from collections.abc import Mapping
from sys import getsizeof

from mqloom.core.filter import lookup

Attributes = Mapping[str, object]


class NestedPaths:
    """The paths with dots that filters mention, by their first step."""

    __slots__ = ("_counts", "heads")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.heads: list[tuple[str, list[tuple[str, str | None]]]] = []
        """First steps; of each the paths, and their last step if there are two."""

    def count(self, path: str, change: int) -> None:
        """Know of one filter more, or less, that mentions a path."""
        count = self._counts[path] = self._counts.get(path, 0) + change
        if not count:
            del self._counts[path]
        if count <= 1:
            self._arrange()

    def _arrange(self) -> None:
        heads: dict[str, list[tuple[str, str | None]]] = {}
        for path in self._counts:
            head, _, rest = path.partition(".")
            heads.setdefault(head, []).append((path, None if "." in rest else rest))
        self.heads = list(heads.items())

    def flat(self, attributes: Attributes) -> Attributes:
        """Return the attributes with those that filters reach through dots."""
        found: dict[str, object] | None = None
        get = attributes.get
        for head, paths in self.heads:
            inner = get(head)
            if inner.__class__ is dict or isinstance(inner, Mapping):
                if found is None:
                    found = attributes.copy() if attributes.__class__ is dict else dict(attributes)
                for path, last in paths:
                    # A key that is literally the whole path comes first.
                    found.setdefault(path, lookup(attributes, path) if last is None else inner.get(last))
        return attributes if found is None else found

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return getsizeof(self._counts) + 200 * len(self._counts)
