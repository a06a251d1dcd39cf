"""What a filter says about attributes, in SQL's three-valued logic: True, False, or None for unknown.

A comparison is unknown if the attribute is missing (absent, or None) or of another kind than the literal. There are
three kinds: booleans, numbers, strings. Nothing compares with a list, an object, bytes, or NaN. Numbers compare by
their exact values, integers with floats too; strings compare by code points.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mqloom.core.filter.syntax import (
    And,
    Comparison,
    Like,
    Membership,
    Node,
    Operator,
    Or,
    Predicate,
    Presence,
    kind_of,
)

COMPARE: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def lookup(attributes: Mapping[str, object], path: str) -> object:
    """Return the value at a path, or None if there is none.

    A key that is literally the whole path comes first, whatever its value. Else the steps between the dots lead
    from object to object.
    """
    if path in attributes:
        return attributes[path]
    if "." not in path:
        return None
    value: object = attributes
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def evaluate(node: Node, attributes: Mapping[str, object]) -> bool | None:
    """Return what the tree says about the attributes."""
    if isinstance(node, And):
        return _all(evaluate(part, attributes) for part in node.parts)
    if isinstance(node, Or):
        return _any(evaluate(part, attributes) for part in node.parts)
    return evaluate_predicate(node, lookup(attributes, node.path))


def evaluate_predicate(predicate: Predicate, value: object) -> bool | None:
    """Return what a predicate says about the value of its attribute; None stands for a missing one."""
    if isinstance(predicate, Presence):
        return (value is not None) == predicate.present
    kind = kind_of(value)
    if kind is None:
        return None
    match predicate:
        case Comparison():
            return COMPARE[predicate.operator](value, predicate.value) if kind == predicate.kind else None
        case Like():
            return predicate.pattern.matches(value) != predicate.negated if isinstance(value, str) else None
        case Membership():
            equal = _any(
                value == literal if kind == literal_kind else None
                for literal, literal_kind in zip(predicate.values, predicate.kinds, strict=True)
            )
            return equal if equal is None else equal != predicate.negated


def _all(answers: Iterable[bool | None]) -> bool | None:
    result: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            result = None
    return result


def _any(answers: Iterable[bool | None]) -> bool | None:
    result: bool | None = False
    for answer in answers:
        if answer is True:
            return True
        if answer is None:
            result = None
    return result
