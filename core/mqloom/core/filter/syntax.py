"""What a filter consists of: predicates about one attribute each, joined by And and Or.

There is no node for NOT, BETWEEN, a literal on the left, or a LIKE without wildcards. Each of them says exactly
the same as a tree without it, in three-valued logic too, so the parser writes them that way at once:

    NOT (a = 1 AND b < 2)      a <> 1 OR b >= 2
    x BETWEEN 1 AND 5          x >= 1 AND x <= 5
    5 < x                      x > 5
    x LIKE 'abc'               x = 'abc'
    x IN (7)                   x = 7

Trees are to be built with `conjunction`, `disjunction`, `membership`, `like` and `negation`, which keep them in that
form: no And directly in an And, no Or directly in an Or, no part twice, none of one part only.

A path is one string. Dots separate the steps into nested objects (see `mqloom.core.filter.evaluate.lookup`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from mqloom.core.filter.patterns import Pattern

Scalar = bool | int | float | str
"""A literal. True is not 1: a boolean is a kind of its own."""

Kind = Literal["boolean", "number", "string"]
"""Values of two kinds are never compared: the answer is unknown."""

Operator = Literal["=", "<>", "<", "<=", ">", ">="]

OPPOSITE: Final[dict[Operator, Operator]] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator that is true where the other is false, and unknown where the other is."""

MIRRORED: Final[dict[Operator, Operator]] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator that says the same with its sides exchanged."""


def kind_of(value: object) -> Kind | None:
    """Return the kind of an attribute's value, or None if nothing can be compared with it (a list, NaN, None, ...)."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "number"
    if isinstance(value, float):
        return None if math.isnan(value) else "number"
    return None


def canonical_value(value: Scalar) -> Scalar:
    """Return the literal as trees hold it: a float without fraction becomes the integer that it exactly is."""
    if isinstance(value, float):
        assert math.isfinite(value), "a literal is finite"
        return int(value) if value.is_integer() else value
    return value


def _literal_kind(value: Scalar) -> Kind:
    kind = kind_of(value)
    assert kind is not None, "a literal is a boolean, a number or a string"
    return kind


@dataclass(frozen=True, slots=True)
class Comparison:
    """`path operator value`. Booleans are compared for equality only."""

    path: str
    operator: Operator
    value: Scalar
    # Part of equality and hash: without it `x = 1` and `x = TRUE` would be equal, as 1 and True are in Python.
    kind: Kind = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", canonical_value(self.value))
        object.__setattr__(self, "kind", _literal_kind(self.value))
        assert self.kind != "boolean" or self.operator in ("=", "<>"), "booleans have no order"


@dataclass(frozen=True, slots=True)
class Membership:
    """`path [NOT] IN values`, of two distinct values or more. Build it with `membership`."""

    path: str
    values: tuple[Scalar, ...]
    negated: bool = False
    kinds: tuple[Kind, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.values) > 1, "of a single value one makes a Comparison"
        object.__setattr__(self, "kinds", tuple(_literal_kind(value) for value in self.values))


@dataclass(frozen=True, slots=True)
class Like:
    """`path [NOT] LIKE pattern`, with a wildcard in the pattern. Build it with `like`."""

    path: str
    pattern: Pattern
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Presence:
    """`path IS NOT NULL` if `present`, else `path IS NULL`: the only predicate that is never unknown."""

    path: str
    present: bool = True


Predicate = Comparison | Membership | Like | Presence


@dataclass(frozen=True, slots=True)
class And:
    """True if every part is. Without parts it is always true: the filter that matches everything."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """True if some part is."""

    parts: "tuple[Node, ...]"


Node = Predicate | And | Or

EVERYTHING: Final = And(())


def membership(path: str, values: Iterable[Scalar], *, negated: bool = False) -> Predicate:
    """Return the predicate for IN; repeated values count once. There has to be one at least."""
    canonical = [canonical_value(value) for value in values]
    distinct = list({(_literal_kind(value), value): value for value in canonical}.values())
    if len(distinct) == 1:
        return Comparison(path, "<>" if negated else "=", distinct[0])
    return Membership(path, tuple(distinct), negated)


def like(path: str, pattern: Pattern, *, negated: bool = False) -> Predicate:
    """Return the predicate for LIKE; without wildcards that is a comparison."""
    if pattern.exact is not None:
        return Comparison(path, "<>" if negated else "=", pattern.exact)
    return Like(path, pattern, negated)


def conjunction(parts: Iterable[Node]) -> Node:
    """Join with AND."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, And) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Node]) -> Node:
    """Join with OR. There has to be a part: what is never true cannot be written."""
    flat: dict[Node, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, Or) else (part,)))
    assert flat, "an OR has parts"
    return next(iter(flat)) if len(flat) == 1 else Or(tuple(flat))


def negation(node: Node) -> Node:
    """Return what is true where `node` is false, false where it is true, and unknown where it is unknown.

    De Morgan's laws hold in three-valued logic, and so does the opposite of every predicate. `node` is not EVERYTHING.
    """
    match node:
        case Comparison():
            return Comparison(node.path, OPPOSITE[node.operator], node.value)
        case Membership():
            return Membership(node.path, node.values, not node.negated)
        case Like():
            return Like(node.path, node.pattern, not node.negated)
        case Presence():
            return Presence(node.path, not node.present)
        case And():
            return disjunction(negation(part) for part in node.parts)
        case Or():
            return conjunction(negation(part) for part in node.parts)


def predicates(node: Node) -> list[Predicate]:
    """Return all predicates of a tree, in the order in which they are written."""
    if isinstance(node, And | Or):
        return [predicate for part in node.parts for predicate in predicates(part)]
    return [node]
