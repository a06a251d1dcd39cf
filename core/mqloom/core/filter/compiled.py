"""The same as `evaluate`, but only whether it is True, and fast: trees become functions once, when first asked.

As NOT is gone from trees, whether a tree is True depends on which of its predicates are True and on nothing else.
"""

from collections.abc import Callable, Mapping

from mqloom.core.filter.evaluate import COMPARE, lookup
from mqloom.core.filter.syntax import And, Comparison, Kind, Like, Membership, Node, Or, Predicate, Presence, kind_of

Test = Callable[[Mapping[str, object]], bool]
ValueTest = Callable[[object], bool]

_NUMBER = (int, float)


def compile_tree(node: Node) -> Test:
    """Return the function that says whether attributes match."""
    if not isinstance(node, And | Or):
        return _of_predicate(node)
    if isinstance(node, And) and not any(isinstance(part, And | Or) or "." in part.path for part in node.parts):
        return _all_plain([(part.path, value_test(part)) for part in node.parts if not isinstance(part, And | Or)])
    tests = [compile_tree(part) for part in node.parts]
    return _all(tests) if isinstance(node, And) else _any(tests)


def value_test(predicate: Predicate) -> ValueTest:
    """Return the function that says whether a predicate is true of a value; None stands for a missing one."""
    match predicate:
        case Presence(present=True):
            return lambda value: value is not None
        case Presence():
            return lambda value: value is None
        case Comparison():
            return _comparison(predicate)
        case Like():
            matches = predicate.pattern.test()
            if predicate.negated:
                return lambda value: isinstance(value, str) and not matches(value)
            return lambda value: isinstance(value, str) and matches(value)
        case Membership():
            return _not_in(predicate) if predicate.negated else _in(predicate)


def _comparison(predicate: Comparison) -> ValueTest:
    literal = predicate.value
    compare = COMPARE[predicate.operator]
    if predicate.kind == "boolean":
        wanted = literal if predicate.operator == "=" else not literal
        return lambda value: value is wanted
    if predicate.kind == "string":
        return lambda value: isinstance(value, str) and compare(value, literal)
    if predicate.operator == "<>":
        return lambda value: _is_number(value) and value != literal
    return lambda value: isinstance(value, _NUMBER) and compare(value, literal) and not isinstance(value, bool)


def _in(predicate: Membership) -> ValueTest:
    strings, numbers, booleans = (_of_kind(predicate, kind) for kind in ("string", "number", "boolean"))

    def test(value: object) -> bool:
        if isinstance(value, str):
            return value in strings
        if isinstance(value, bool):
            return value in booleans
        return isinstance(value, _NUMBER) and value in numbers

    return test


def _not_in(predicate: Membership) -> ValueTest:
    values = frozenset(predicate.values)
    match sorted(set(predicate.kinds)):
        case ["string"]:
            return lambda value: isinstance(value, str) and value not in values
        case ["number"]:
            return lambda value: _is_number(value) and value not in values
    # Two booleans leave nothing over, and every value is of another kind than some of mixed literals: unknown.
    return lambda value: False


def _is_number(value: object) -> bool:
    """Say whether numbers can be compared with the value; for = and the orders, NaN is false by itself."""
    return kind_of(value) == "number"


def _of_kind(predicate: Membership, kind: Kind) -> frozenset[object]:
    pairs = zip(predicate.values, predicate.kinds, strict=True)
    return frozenset(value for value, value_kind in pairs if value_kind == kind)


def _of_predicate(predicate: Predicate) -> Test:
    path, test = predicate.path, value_test(predicate)
    if "." in path:
        return lambda attributes: test(lookup(attributes, path))
    return lambda attributes: test(attributes.get(path))


def _all_plain(tests: list[tuple[str, ValueTest]]) -> Test:
    """Return the conjunction of predicates about attributes that are no paths: most filters are one."""

    def all_hold(attributes: Mapping[str, object]) -> bool:
        get = attributes.get
        for path, test in tests:  # noqa: SIM110  (half the time of all() with a generator)
            if not test(get(path)):
                return False
        return True

    return all_hold


def _all(tests: list[Test]) -> Test:
    def all_hold(attributes: Mapping[str, object]) -> bool:
        for test in tests:  # noqa: SIM110  (as above)
            if not test(attributes):
                return False
        return True

    return all_hold


def _any(tests: list[Test]) -> Test:
    def some_holds(attributes: Mapping[str, object]) -> bool:
        for test in tests:  # noqa: SIM110  (as above)
            if test(attributes):
                return True
        return False

    return some_holds
