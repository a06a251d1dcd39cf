"""The filter itself: what everybody else uses of this package."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from mqloom.core.errors import FilterError
from mqloom.core.filter.compiled import Test, compile_tree
from mqloom.core.filter.evaluate import evaluate
from mqloom.core.filter.limits import TEXT_MAX
from mqloom.core.filter.normal import Conjunction, check_size, normal_form
from mqloom.core.filter.outlines import Outline, cells_of, witness_of
from mqloom.core.filter.parser import parse
from mqloom.core.filter.relations import boxes_cover, boxes_intersect
from mqloom.core.filter.restrictions import Box, box_of
from mqloom.core.filter.syntax import EVERYTHING, Node, predicates
from mqloom.core.filter.text import text_of

_GROWTH_MAX = 8
"""How many times longer than what was written the canonical text is at most (`x IN(9e22,9e23)` grows fivefold)."""


@dataclass(frozen=True, repr=False)
class Filter:
    """A condition on the attributes of a publication. Frozen, hashable; equal if the trees are.

    Get one from `Filter.parse`. Everything derived is computed when first asked for, and kept.
    """

    tree: Node

    ALL: ClassVar["Filter"]
    """Matches everything; its text is empty."""

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """Read a filter in SQL's form or in the papers' triples. Raises FilterError, with the column of the mistake.

        Whatever is accepted is accepted again in its canonical text, and has a normal form of bounded size.
        """
        parsed = cls(parse(text))
        check_size(parsed.tree, text)
        if len(text) * _GROWTH_MAX > TEXT_MAX and len(parsed.text) > TEXT_MAX:
            problem = f"in its canonical form this filter has {len(parsed.text)} characters, at most {TEXT_MAX} may be"
            raise FilterError(problem, text, 1)
        return parsed

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Say whether the filter is true of the attributes."""
        return self._test(attributes)

    def evaluate(self, attributes: Mapping[str, object]) -> bool | None:
        """Return True, False, or None for unknown."""
        return evaluate(self.tree, attributes)

    def covers(self, other: "Filter") -> bool:
        """Say whether surely all that matches `other` matches this filter.

        Never wrong when it says so; exact for conjunctions of equalities, ranges, IN and prefixes.
        """
        return boxes_cover(self.boxes, other.boxes)

    def intersects(self, other: "Filter") -> bool:
        """Say whether perhaps something matches both.

        Never wrong when it says no; exact for conjunctions of equalities, ranges, IN and prefixes.
        """
        return boxes_intersect(self.boxes, other.boxes)

    def equal(self, other: "Filter") -> bool:
        """Say whether surely both match the same, however they are written: each covers the other.

        Unlike ==, which compares the trees. Never wrong when it says so.
        """
        return self == other or (self.covers(other) and other.covers(self))

    @cached_property
    def text(self) -> str:
        """The canonical text, also `str()`."""
        return text_of(self.tree)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The paths of all attributes it mentions."""
        return frozenset(predicate.path for predicate in predicates(self.tree))

    @cached_property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The normal form: it is true where every predicate of one of these is."""
        return normal_form(self.tree)

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """The conjunctions as restrictions by attribute, without those that nothing satisfies. Not to be changed."""
        boxes = (box_of(conjunction) for conjunction in self.conjunctions)
        return tuple(box for box in boxes if box is not None)

    @cached_property
    def cells(self) -> tuple[Outline, ...]:
        """Outlines of its parts. It covers another filter only if one of them holds the other's `witness`."""
        return cells_of(self.boxes)

    @cached_property
    def witness(self) -> Outline:
        """The outline of a part of it."""
        return witness_of(self.boxes)

    @cached_property
    def _test(self) -> Test:
        return compile_tree(self.tree)

    @cached_property
    def _hash(self) -> int:
        return hash(self.tree)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter.parse({self.text!r})"

    def __reduce__(self) -> "tuple[type[Filter], tuple[Node]]":
        # Compiled functions cannot be pickled; they are made again.
        return Filter, (self.tree,)


Filter.ALL = Filter(EVERYTHING)
