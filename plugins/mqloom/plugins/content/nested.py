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
        self.heads: list[tuple[str, list[tuple[str, str]], list[str]]] = []
        """First steps; of each the paths of two steps with the last one, and the longer paths."""

    def count(self, path: str, change: int) -> None:
        """Know of one filter more, or less, that mentions a path."""
        count = self._counts[path] = self._counts.get(path, 0) + change
        if not count:
            del self._counts[path]
        if count <= 1:
            self._arrange()

    def _arrange(self) -> None:
        heads: dict[str, tuple[list[tuple[str, str]], list[str]]] = {}
        for path in self._counts:
            head, _, rest = path.partition(".")
            short, long = heads.setdefault(head, ([], []))
            if "." in rest:
                long.append(path)
            else:
                short.append((path, rest))
        self.heads = [(head, short, long) for head, (short, long) in heads.items()]

    def flat(self, attributes: Attributes) -> Attributes:
        """Return the attributes and those that filters reach through dots; a key that is the whole path comes first."""
        found: dict[str, object] | None = None
        for head, short, long in self.heads:
            inner = attributes.get(head)
            if inner.__class__ is dict or isinstance(inner, Mapping):
                if found is None:
                    found = attributes.copy() if attributes.__class__ is dict else dict(attributes)
                get = inner.get
                for path, last in short:
                    if path not in found:
                        found[path] = get(last)
                for path in long:
                    found.setdefault(path, lookup(attributes, path))
        return attributes if found is None else found

    def size_bytes(self) -> int:
        """Return the memory it takes."""
        return getsizeof(self._counts) + 200 * len(self._counts)
