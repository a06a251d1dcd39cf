"""Which attributes the standing filters mention, so that codecs need not decode the others."""

from typing import Final

from mqloom.core.filter import Filter
from mqloom.core.filter.syntax import predicates

MENTIONED_MAX: Final = 64
"""Names past which payloads are decoded in full: leaving out the rest would gain little, and cost at every change."""


class Mentions:
    """Counts, for each name at the top of the attributes, the standing filters that can reach it."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._names: frozenset[str] | None = frozenset()
        self._changed = False

    def add(self, where: Filter) -> None:
        """A filter begins to stand."""
        for name in reached(where):
            count = self._counts.get(name, 0)
            self._counts[name] = count + 1
            self._changed |= count == 0

    def remove(self, where: Filter) -> None:
        """A filter that was added stands no more."""
        for name in reached(where):
            self._counts[name] -= 1
            if self._counts[name] == 0:
                del self._counts[name]
                self._changed = True

    @property
    def names(self) -> frozenset[str] | None:
        """The names, the same object until they change; None for too many."""
        if self._changed:
            self._changed = False
            self._names = frozenset(self._counts) if len(self._counts) <= MENTIONED_MAX else None
        return self._names


def reached(where: Filter) -> set[str]:
    """Return the names at the top of the attributes on which a filter depends.

    The path `a.b` is the attribute of that very name, or else begins at `a`: see `evaluate.lookup`.
    """
    paths = {predicate.path for predicate in predicates(where.tree)}
    return paths | {path.partition(".")[0] for path in paths}
