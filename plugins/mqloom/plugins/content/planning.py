"""Where a conjunction is kept: under which keys, in which leaf of the node there, and what is left to check.

What a conjunction asks of one attribute becomes, in the order of preference:

    key      one of a few values (= and IN), or the start or end of a string (LIKE)
    range    bounds on a number
    order    one bound on a string, or any value but one
    presence the attribute is there, or is not
    check    anything else: a test of its own

Keys choose the node. Of the rest one thing, or all the ranges together, choose the leaf; all others are checked.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final, Literal, NamedTuple, cast

from mqloom.core.filter import (
    And,
    Comparison,
    Filter,
    Like,
    Membership,
    Operator,
    Predicate,
    Scalar,
    value_test,
)
from mqloom.core.filter.ranges import Number, NumberRange
from mqloom.plugins.content.drafts import Draft, Range
from mqloom.plugins.content.keys import Part, Signature, key_of, pattern_part

EXPANSION_MAX: Final = 1024
"""Under how many keys one conjunction is kept at most; of more INs than that allows, the others are checked."""

_EXACT_MAX: Final = 2**53

BoundKind = Literal["double", "number", "string"]
Test = Callable[[object], bool]


class Check(NamedTuple):
    """A test of an attribute's value, and whether it is one of texts: such attributes have few different values."""

    path: str
    test: Test
    of_text: bool


Checks = tuple[Check, ...]


class ListLeaf(NamedTuple):
    """The leaf of those with nothing more to ask; with a path, of the publications with that attribute, or without."""

    path: str | None = None
    present: bool = True


class ThresholdLeaf(NamedTuple):
    """The leaf of those with one bound on one attribute: of numbers those that are doubles lie by themselves."""

    path: str
    operator: Operator
    kind: BoundKind


class BoxLeaf(NamedTuple):
    """The leaf of those with bounds on these attributes."""

    paths: tuple[str, ...]


class TriedLeaf(NamedTuple):
    """The leaf of a few with two bounds, of which one must hold, or every one."""

    bounds: tuple[tuple[str, Operator], tuple[str, Operator]]
    every: bool


class CaseLeaf(NamedTuple):
    """The leaf of a few by the value of one more attribute; and by a bound on another, if that has a path."""

    path: str
    bound_path: str
    operator: Operator


Leaf = ListLeaf | ThresholdLeaf | BoxLeaf | TriedLeaf | CaseLeaf
PLAIN: Final = ListLeaf()

SINGLE: Final = 0
"""The bucket of ids that come out of one leaf only."""

_PLAIN_NAME: Final = (PLAIN, SINGLE)


class Plan(NamedTuple):
    """A conjunction's places: each leaf with its argument, in the node of each key."""

    signature: Signature
    keys: Sequence[Hashable]
    leaves: Sequence[tuple[Leaf, Any]]
    checks: Checks


QuickPlan = tuple[Signature, Hashable, tuple[Leaf, int], Any]
"""The same for one place, with nothing left to check: signature, key, the leaf's name and its argument."""


def plan_quickly(filter_: Filter) -> QuickPlan | None:
    """Return the same plan as one gets the long way, for the most frequent filters: equalities and perhaps a bound."""
    tree = filter_.tree
    equal: dict[str, Hashable] = {}
    bound: Comparison | None = None
    for predicate in tree.parts if tree.__class__ is And else (tree,):
        if predicate.__class__ is not Comparison:
            return None
        path = predicate.path
        operator = predicate.operator
        if path in equal or "." in path or predicate.kind == "boolean":
            return None
        if operator == "=":
            equal[path] = predicate.value
        elif bound is None and operator != "<>":
            bound = predicate
        else:
            return None
    signature, paths = _signature_of(tuple(equal))
    key: Hashable = equal[paths[0]] if len(paths) == 1 else tuple([equal[path] for path in paths])
    if bound is None:
        return signature, key, _PLAIN_NAME, None
    if bound.path in equal:
        return None
    return signature, key, _threshold_name(bound.path, bound.operator, _kind(bound.value)), bound.value


@lru_cache(maxsize=4096)
def _signature_of(paths: tuple[str, ...]) -> tuple[Signature, list[str]]:
    ordered = sorted(paths)
    return tuple([(path, 0) for path in ordered]), ordered


@lru_cache(maxsize=4096)
def _threshold_name(path: str, operator: Operator, kind: BoundKind) -> tuple[ThresholdLeaf, int]:
    return ThresholdLeaf(path, operator, kind), SINGLE


def plan_of(draft: Draft, parts_max: int = 64) -> Plan:
    """Decide where a conjunction is kept, by so many keys at most."""
    checks: list[Check] = []
    parts, others = _parts(draft, parts_max, checks)
    leaves = _leaves(draft, others, checks, bool(parts))
    if len(parts) == 1:
        [(part, keys)] = parts.items()
        return Plan((part,), keys, leaves, tuple(checks))
    signature = tuple(sorted(parts))
    return Plan(signature, list(product(*[parts[part] for part in signature])), leaves, tuple(checks))


def tried_plan(plans: Sequence[Plan]) -> Plan | None:
    """Return the plan by which all of these are kept in one leaf, and tried, if they are nothing but two bounds."""
    signature, keys, leaves, checks = plans[0]
    if not signature or checks or len(plans) > 2:
        return None
    if len(plans) == 2:
        other = plans[1]
        if other.signature != signature or other.keys != keys or other.checks:
            return None
        leaves = [*leaves, *other.leaves]
    bounds: list[tuple[str, Operator, Number]] = []
    for leaf, argument in leaves:
        if isinstance(leaf, BoxLeaf):
            bounds += [bound for range_ in argument for bound in _bounds_of(range_)]
        elif isinstance(leaf, ThresholdLeaf) and leaf.kind == "double":
            bounds.append((leaf.path, leaf.operator, argument))
    if len(bounds) != 2 or len(leaves) != len(plans):
        return None
    (path, operator, value), (path_2, operator_2, value_2) = sorted(bounds)
    named = TriedLeaf(((path, operator), (path_2, operator_2)), every=len(plans) == 1)
    return Plan(signature, keys, [(named, (value, value_2))], ())


def case_plan(plan: Plan) -> Plan | None:
    """Return the plan by which what is asked of one attribute within an object is no key, if there are other keys.

    For each key of the new plan, its leaf has an argument of its own.
    """
    within = [number for number, (path, _) in enumerate(plan.signature) if "." in path]
    if len(within) != 1 or len(plan.signature) < 2 or plan.checks or len(plan.leaves) != 1:
        return None
    [number] = within
    path, length = plan.signature[number]
    [(leaf, bound)] = plan.leaves
    if length:
        return None
    if isinstance(leaf, ThresholdLeaf) and leaf.kind == "double":
        named = CaseLeaf(path, leaf.path, leaf.operator)
    elif leaf == PLAIN:
        named, bound = CaseLeaf(path, "", ">"), 0.0
    else:
        return None
    signature = plan.signature[:number] + plan.signature[number + 1 :]
    values: dict[Hashable, list[Hashable]] = {}
    for key in cast(Sequence[tuple[Hashable, ...]], plan.keys):
        rest = key[:number] + key[number + 1 :]
        values.setdefault(rest if len(rest) > 1 else rest[0], []).append(key[number])
    [arguments] = {tuple(each) for each in values.values()}
    return Plan(signature, list(values), [(named, (value, bound)) for value in arguments], ())


def _bounds_of(range_: Range) -> list[tuple[str, Operator, Number]]:
    path, low, low_open, high, high_open = range_
    found: list[tuple[str, Operator, Number]] = []
    if low is not None:
        found.append((path, ">" if low_open else ">=", low))
    if high is not None:
        found.append((path, "<" if high_open else "<=", high))
    return found


def _parts(draft: Draft, parts_max: int, checks: list[Check]) -> tuple[dict[Part, list[Hashable]], list[Predicate]]:
    """Choose the keys; return them by part, and the predicates that are left over. Adds to `checks`."""
    parts: dict[Part, list[Hashable]] = {}
    size = 1
    for path in sorted(draft.equal, key=lambda path: (len(draft.equal[path]), path)):
        keys = draft.equal[path]
        if size * len(keys) <= EXPANSION_MAX and len(parts) < parts_max:
            size *= len(keys)
            parts[path, 0] = keys
        else:
            checks.append(Check(path, _is_among(frozenset(keys)), True))
    if not draft.likes:
        return parts, draft.others
    others = list(draft.others)
    for like in draft.likes:
        found = pattern_part(like.path, like.pattern) if len(parts) < parts_max else None
        if found is None or any(length for _, length in parts):
            others.append(like)
        else:
            part, key, exact = found
            parts[part] = [key]
            if not exact:
                checks.append(_check_of(like))
    return parts, others


@lru_cache(maxsize=4096)
def _is_among(keys: frozenset[Hashable]) -> Test:
    return lambda value: key_of(value) in keys


def _leaves(draft: Draft, others: list[Predicate], checks: list[Check], keyed: bool) -> list[tuple[Leaf, Any]]:
    """Choose the leaf; add to `checks` whatever it does not say."""
    ranges, orders, presences = draft.ranges, draft.orders, draft.presences
    if ranges:
        _check(checks, orders, presences, others)
        return _range_leaf(ranges, checks)
    if orders:
        orders = sorted(orders, key=lambda order: order.operator == "<>")
        _check(checks, orders[1:], presences, others)
        first = orders[0]
        if first.operator != "<>":
            return [(ThresholdLeaf(first.path, first.operator, "string"), first.value)]
        kind = _kind(first.value)
        return [(ThresholdLeaf(first.path, operator, kind), first.value) for operator in ("<", ">")]
    if presences and not (keyed and others):
        presences = sorted(presences, key=lambda presence: not presence.present)
        _check(checks, presences[1:], others)
        return [(ListLeaf(presences[0].path, presences[0].present), None)]
    _check(checks, presences, others)
    if keyed or not others:
        return [(PLAIN, None)]
    # None of the others is true of a missing attribute.
    return [(ListLeaf(others[0].path), None)]


def _range_leaf(ranges: list[Range], checks: list[Check]) -> list[tuple[Leaf, Any]]:
    if len(ranges) > 1 or not ranges[0].one_sided:
        exact = sorted(range_ for range_ in ranges if _is_exact(range_.low) and _is_exact(range_.high))
        if len(exact) > 1 or (exact and not exact[0].one_sided):
            checks += [Check(range_.path, _range_test(range_), False) for range_ in ranges if range_ not in exact]
            return [(BoxLeaf(tuple(range_.path for range_ in exact)), tuple(exact))]
        checks += [Check(range_.path, _range_test(range_), False) for range_ in ranges]
    path, low, low_open, high, high_open = ranges[0]
    if low is not None:
        return [(ThresholdLeaf(path, ">" if low_open else ">=", _kind(low)), low)]
    return [(ThresholdLeaf(path, "<" if high_open else "<=", _kind(cast(Number, high))), high)]


def _check(checks: list[Check], *several: Sequence[Predicate]) -> None:
    checks += [_check_of(predicate) for predicates in several for predicate in predicates]


@lru_cache(maxsize=4096)
def _check_of(predicate: Predicate) -> Check:
    """Return the check for a predicate. Many filters share one, and a shared one stays in the processor's cache."""
    of_text = isinstance(predicate, Like | Membership) or (
        isinstance(predicate, Comparison) and predicate.kind == "string"
    )
    return Check(predicate.path, value_test(predicate), of_text)


def _is_exact(bound: Number | None) -> bool:
    """Say whether a double is exactly this number."""
    if bound is None or isinstance(bound, float) or -_EXACT_MAX <= bound <= _EXACT_MAX:
        return True
    try:
        return float(bound) == bound
    except OverflowError:
        return False


def _kind(bound: Scalar) -> BoundKind:
    if bound.__class__ is float:
        return "double"
    if isinstance(bound, str):
        return "string"
    return "double" if _is_exact(bound) else "number"


def _range_test(range_: Range) -> Test:
    bounds = NumberRange(range_.low, range_.high, range_.low_open, range_.high_open)

    def test(value: object) -> bool:
        # Every comparison with NaN is false, so that it would seem to lie within any bounds.
        return isinstance(value, int | float) and not isinstance(value, bool) and value == value and value in bounds  # noqa: PLR0124

    return test
