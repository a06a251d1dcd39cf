"""What a conjunction asks, sorted by how it can be found: see `planning`."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

from mqloom.core.filter import (
    And,
    Comparison,
    Conjunction,
    Filter,
    Like,
    Membership,
    Node,
    Or,
    Predicate,
    Presence,
    Restriction,
    Scalar,
    restriction_of,
)
from mqloom.core.filter.ranges import Number, NumberRange
from mqloom.core.filter.syntax import predicates
from mqloom.plugins.content.keys import key_of

DISJOINT_MAX: Final = 8
"""Of filters with more conjunctions than that we do not find out that they exclude each other."""


class Range(NamedTuple):
    """Bounds on a number; None is no bound."""

    path: str
    low: Number | None
    low_open: bool
    high: Number | None
    high_open: bool

    @property
    def one_sided(self) -> bool:
        """Whether there is a single bound."""
        return self.low is None or self.high is None

    def excludes(self, other: "Range") -> bool:
        """Say whether surely no number is in both."""
        return _below(self, other) or _below(other, self)


@dataclass(slots=True)
class Draft:
    """What a conjunction asks, sorted by how it can be found."""

    equal: dict[str, list[Hashable]] = field(default_factory=dict)
    ranges: list[Range] = field(default_factory=list)
    orders: list[Comparison] = field(default_factory=list)
    likes: list[Like] = field(default_factory=list)
    presences: list[Presence] = field(default_factory=list)
    others: list[Predicate] = field(default_factory=list)

    def excludes(self, other: "Draft") -> bool:
        """Say whether surely nothing satisfies both."""
        for path, keys in self.equal.items():
            if path in other.equal and not set(keys) & set(other.equal[path]):
                return True
        return any(one.path == two.path and one.excludes(two) for one in self.ranges for two in other.ranges)


def drafts_of(filter_: Filter) -> list[Draft]:
    """Return what each conjunction of a filter asks, without those that are never true."""
    tree = filter_.tree
    if not _is_plain(tree):
        drafts = (draft_of(conjunction) for conjunction in filter_.conjunctions)
        return [draft for draft in drafts if draft is not None]
    draft = draft_of(cast(Conjunction, tree.parts if isinstance(tree, And) else (tree,)))
    return [] if draft is None else [draft]


def paths_of(filter_: Filter) -> list[str]:
    """Return the paths of all predicates; `filter_.attributes` would keep them."""
    return [predicate.path for predicate in predicates(filter_.tree)]


def are_disjoint(drafts: Sequence[Draft]) -> bool:
    """Say whether surely nothing satisfies two of them."""
    if len(drafts) > DISJOINT_MAX:
        return False
    return all(one.excludes(two) for index, one in enumerate(drafts) for two in drafts[:index])


def _is_plain(tree: Node) -> bool:
    if isinstance(tree, And):
        return not any(isinstance(part, (And, Or)) for part in tree.parts)
    return not isinstance(tree, Or)


def draft_of(conjunction: Conjunction) -> Draft | None:
    """Return what a conjunction asks, or None if it is never true."""
    draft = Draft()
    by_path: dict[str, list[Predicate]] = {}
    for predicate in conjunction:
        by_path.setdefault(predicate.path, []).append(predicate)
    for path, asked in by_path.items():
        if len(asked) == 1:
            _draft_one(draft, asked[0])
        elif not _draft_several(draft, path, asked):
            return None
    return draft


def _draft_one(draft: Draft, predicate: Predicate) -> None:
    if isinstance(predicate, Comparison):
        _draft_comparison(draft, predicate)
    elif isinstance(predicate, Presence):
        draft.presences.append(predicate)
    elif isinstance(predicate, Membership) and not predicate.negated:
        draft.equal[predicate.path] = [key_of(value) for value in predicate.values]
    elif isinstance(predicate, Like) and not predicate.negated:
        draft.likes.append(predicate)
    else:
        draft.others.append(predicate)


def _draft_comparison(draft: Draft, predicate: Comparison) -> None:
    path, operator, value, kind = predicate.path, predicate.operator, predicate.value, predicate.kind
    if operator == "=":
        draft.equal[path] = [key_of(value) if kind == "boolean" else value]
    elif kind == "boolean":
        draft.equal[path] = [key_of(not value)]
    elif kind == "string" or operator == "<>":
        draft.orders.append(predicate)
    elif operator in (">", ">="):
        draft.ranges.append(Range(path, cast(Number, value), operator == ">", None, False))
    else:
        draft.ranges.append(Range(path, None, False, cast(Number, value), operator == "<"))


def _draft_several(draft: Draft, path: str, predicates: list[Predicate]) -> bool:
    """Add what several predicates ask of one attribute; False if that cannot be."""
    merged = _merged_bounds(path, predicates)
    if merged is None:
        return _draft_met(draft, path, predicates)
    low, high = merged.low, merged.high
    if low is not None and high is not None and low >= high:
        if low > high or merged.low_open or merged.high_open:
            return False
        draft.equal[path] = [low]
        return True
    draft.ranges.append(merged)
    return True


def _merged_bounds(path: str, predicates: list[Predicate]) -> Range | None:
    """Return the range that predicates of nothing but bounds on a number make, else None."""
    low: Number | None = None
    high: Number | None = None
    low_open = high_open = False
    for predicate in predicates:
        if not isinstance(predicate, Comparison) or predicate.kind != "number" or predicate.operator in ("=", "<>"):
            return None
        value, is_open = cast(Number, predicate.value), predicate.operator in ("<", ">")
        if predicate.operator in (">", ">="):
            if low is None or value > low:
                low, low_open = value, is_open
            elif value == low:
                low_open = low_open or is_open
        elif high is None or value < high:
            high, high_open = value, is_open
        elif value == high:
            high_open = high_open or is_open
    return Range(path, low, low_open, high, high_open)


def _draft_met(draft: Draft, path: str, predicates: list[Predicate]) -> bool:
    allowed = restriction_of(predicates[0])
    for predicate in predicates[1:]:
        allowed = allowed.meet(restriction_of(predicate))
    if allowed == Restriction():
        return False
    bounds = allowed.numbers
    if allowed.missing:
        draft.presences.append(Presence(path, present=False))
    elif not allowed.other and isinstance(bounds, frozenset) and isinstance(allowed.strings, frozenset):
        values: list[Scalar] = [*allowed.booleans, *bounds, *allowed.strings]
        draft.equal[path] = [key_of(value) for value in values]
    elif isinstance(bounds, NumberRange) and not (
        allowed.other or allowed.booleans or allowed.strings or bounds.excluded
    ):
        draft.ranges.append(Range(path, bounds.low, bounds.low_open, bounds.high, bounds.high_open))
    else:
        draft.likes += [predicate for predicate in predicates if isinstance(predicate, Like) and not predicate.negated]
        draft.others += [predicate for predicate in predicates if not isinstance(predicate, Like) or predicate.negated]
    return True


def _below(one: Range, two: Range) -> bool:
    if one.high is None or two.low is None:
        return False
    return one.high < two.low or (one.high == two.low and (one.high_open or two.low_open))
