"""The normal form: a filter as alternatives, each of them a conjunction of predicates.

A filter is true where every predicate of one of its conjunctions is. An IN stays one predicate; an AND of ORs
multiplies out, so a bound is needed, and it holds when the filter is parsed, not somewhere on its way.
"""

from itertools import product
from typing import NoReturn

from mqloom.core.errors import FilterError
from mqloom.core.filter.limits import CONJUNCTIONS_MAX, PREDICATES_MAX
from mqloom.core.filter.syntax import And, Node, Or, Predicate

Conjunction = tuple[Predicate, ...]


def check_size(node: Node, text: str) -> None:
    """Raise FilterError if the normal form would be too large. Costs no more than reading the tree."""
    conjunctions, total = _size(node)
    if conjunctions > CONJUNCTIONS_MAX:
        count = str(conjunctions) if conjunctions < 1_000_000 else "over a million"
        _refuse(f"{count} alternatives, at most {CONJUNCTIONS_MAX} may be", text)
    if total > PREDICATES_MAX:
        _refuse(f"{total} predicates, at most {PREDICATES_MAX} may be", text)


def normal_form(node: Node) -> tuple[Conjunction, ...]:
    """Return the conjunctions, each predicate once in each, no conjunction twice. The tree has passed `check_size`."""
    return tuple(dict.fromkeys(tuple(dict.fromkeys(parts)) for parts in _alternatives(node)))


def _alternatives(node: Node) -> list[Conjunction]:
    if isinstance(node, Or):
        return [alternative for part in node.parts for alternative in _alternatives(part)]
    if isinstance(node, And):
        choices = product(*(_alternatives(part) for part in node.parts))
        return [tuple(predicate for part in choice for predicate in part) for choice in choices]
    return [(node,)]


def _size(node: Node) -> tuple[int, int]:
    """Return how many conjunctions there will be at most, and how many predicates in all of them together."""
    if not isinstance(node, And | Or):
        return 1, 1
    sizes = [_size(part) for part in node.parts]
    if isinstance(node, Or):
        return sum(count for count, _ in sizes), sum(total for _, total in sizes)
    conjunctions, total = 1, 0
    for count, part_total in sizes:
        conjunctions, total = conjunctions * count, total * count + part_total * conjunctions
    return conjunctions, total


def _refuse(what: str, text: str) -> NoReturn:
    advice = "write IN (...) instead of an OR of equalities, or make several subscriptions of it"
    raise FilterError(f"multiplied out, this filter has {what}; {advice}", text, 1)
