"""The language against a plain version of it: raw trees, written out in full, and judged by the book.

The plain version knows nothing of the parser's trees. It has NOT, BETWEEN and all the rest as they are written.
"""

import math
import pickle
from collections.abc import Mapping
from typing import Any

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from mqloom.core.errors import FilterError
from mqloom.core.filter import And, Filter, Or, evaluate_predicate, lookup, restriction_of, value_test
from mqloom.core.filter.ranges import number_after, number_before
from mqloom.core.filter.syntax import negation, predicates

Raw = tuple[Any, ...]

PATHS = ["a", "b", "c.d", "weird name"]
NUMBERS: list[int | float] = [-1, 0, 1, 1.5, 2, -0.1, 2**53, 2**53 + 1, 1e22, 10**23, 1e300, 2**2000]
STRINGS = ["", "a", "ab", "abc", "b", "aba", "%", "_", "\\", "a%", "it's", "é", "\U0001f600", "a\0"]
PATTERNS = [
    "a%",
    "%a",
    "%b%",
    "a%b",
    "_",
    "_%",
    "a_c",
    "%",
    "",
    "abc",
    "%a%b%",
    "a!%%",
    "!_%",
    "!!",
    "\\%",
    "%%_",
    "a%a",
]
ODD: list[object] = [None, math.nan, math.inf, -math.inf, [], [1], {"x": 1}, b"a", "\ud800", "z", 3, -2, 1.0, 0.5, "A"]

literals = st.sampled_from([*NUMBERS, *STRINGS, True, False])
ordered = st.sampled_from([*NUMBERS, *STRINGS])
paths = st.sampled_from(PATHS)


def is_string(value: object) -> bool:
    return isinstance(value, str)


def leaf() -> st.SearchStrategy[Raw]:
    equality = st.tuples(st.just("compare"), paths, st.sampled_from(["=", "==", "<>", "!="]), literals, st.booleans())
    order = st.tuples(st.just("compare"), paths, st.sampled_from(["<", "<=", ">", ">="]), ordered, st.booleans())
    ends = st.tuples(ordered, ordered).filter(lambda pair: is_string(pair[0]) == is_string(pair[1]))
    between = st.tuples(st.just("between"), paths, ends, st.booleans())
    within = st.tuples(st.just("in"), paths, st.lists(literals, min_size=1, max_size=4), st.booleans())
    like = st.tuples(st.just("like"), paths, st.sampled_from(PATTERNS), st.booleans(), st.booleans())
    null = st.tuples(st.just("null"), paths, st.booleans())
    return equality | order | between | within | like | null


raws = st.recursive(
    leaf(),
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=6,
)
NEAR: list[object] = [
    *(near for number in NUMBERS for near in (number_before(number), number_after(number))),
    *(text + end for text in STRINGS for end in ("\0", "a", "\U0010ffff")),
]
values = st.sampled_from([*NUMBERS, *STRINGS, True, False, *ODD, *NEAR])


@st.composite
def events(draw: st.DrawFn) -> dict[str, object]:
    event: dict[str, object] = {}
    for path in PATHS:
        if draw(st.integers(0, 4)):
            event[path] = draw(values)
    if draw(st.booleans()):
        event["c"] = draw(st.one_of(values, st.fixed_dictionaries({"d": values}), st.just({})))
    return event


# How a raw tree is written.


def written_literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def written(raw: Raw) -> str:
    match raw:
        case ("not", inner):
            return f"NOT ({written(inner)})"
        case ("and" | "or" as word, inner):
            return f" {word} ".join(f"({written(part)})" for part in inner)
    path = f'"{raw[1]}"' if " " in raw[1] else raw[1]
    match raw:
        case ("compare", _, operator, value, mirrored):
            if not mirrored:
                return f"{path}{operator}{written_literal(value)}"
            swapped = operator.translate(str.maketrans("<>", "><")) if operator != "<>" else operator
            return f"{written_literal(value)} {swapped} {path}"
        case ("between", _, (low, high), negated):
            return f"{path} {'NOT ' * negated}BETWEEN {written_literal(low)} AND {written_literal(high)}"
        case ("in", _, listed, negated):
            return f"{path} {'NOT ' * negated}IN ({','.join(written_literal(value) for value in listed)})"
        case ("like", _, pattern, escaped, negated):
            escape = " ESCAPE '!'" * escaped
            return f"{path} {'NOT ' * negated}LIKE {written_literal(pattern)}{escape}"
        case ("null", _, negated):
            return f"{path} IS {'NOT ' * negated}NULL"
    raise AssertionError(raw)


# What a raw tree says: SQL's truth tables, and nothing clever.


def invert(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return True if one is True and other is True else None


def find(event: Mapping[str, Any], path: str) -> Any:
    if path in event:
        return event[path]
    if path == "c.d" and isinstance(event.get("c"), dict):
        return event["c"].get("d")
    return None


def group(value: object) -> str | None:
    if value is True or value is False:
        return "boolean"
    if isinstance(value, int | float) and value == value:  # noqa: PLR0124  (all but NaN)
        return "number"
    return "string" if isinstance(value, str) else None


def compared(value: Any, operator: str, literal: Any) -> bool | None:
    if group(value) is None or group(value) != group(literal):
        return None
    answers: dict[str, bool] = {
        "=": value == literal,
        "<>": value != literal,
        "<": value < literal,
        ">": value > literal,
        "<=": value <= literal,
        ">=": value >= literal,
    }
    return answers[{"==": "=", "!=": "<>"}.get(operator, operator)]


def alike(text: str, pattern: str, escape: str | None) -> bool:
    if not pattern:
        return not text
    if pattern[0] == escape:
        return text[:1] == pattern[1] and alike(text[1:], pattern[2:], escape)
    if pattern[0] == "%":
        return any(alike(text[index:], pattern[1:], escape) for index in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and alike(text[1:], pattern[1:], escape)


def judged(raw: Raw, event: Mapping[str, object]) -> bool | None:
    match raw:
        case ("not", inner):
            return invert(judged(inner, event))
        case ("and", inner):
            answer: bool | None = True
            for part in inner:
                answer = both(answer, judged(part, event))
            return answer
        case ("or", inner):
            return invert(judged(("and", [("not", part) for part in inner]), event))
    value = find(event, raw[1])
    match raw:
        case ("compare", _, operator, literal, _):
            return compared(value, operator, literal)
        case ("between", _, (low, high), negated):
            answer = both(compared(value, ">=", low), compared(value, "<=", high))
            return invert(answer) if negated else answer
        case ("in", path, listed, negated):
            answer = judged(("or", [("compare", path, "=", literal, False) for literal in listed]), event)
            return invert(answer) if negated else answer
        case ("like", _, pattern, escaped, negated):
            answer = alike(value, pattern, "!" if escaped else None) if isinstance(value, str) else None
            return invert(answer) if negated else answer
        case ("null", _, negated):
            return (value is None) is not bool(negated)
    raise AssertionError(raw)


def attempt(text: str) -> Filter | FilterError:
    try:
        return Filter.parse(text)
    except FilterError as error:
        return error


def parsed(raw: Raw) -> Filter:
    result = attempt(written(raw))
    if isinstance(result, FilterError):
        assert "multiplied out" in result.problem, result.pointer()
        reject()
    return result


@given(raws, st.lists(events(), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_a_filter_says_what_the_plain_version_says(raw: Raw, several: list[dict[str, object]]) -> None:
    filter_ = parsed(raw)
    for event in several:
        expected = judged(raw, event)
        assert filter_.evaluate(event) is expected
        assert filter_.matches(event) is (expected is True)


@given(raws, st.lists(events(), min_size=1, max_size=8))
@settings(deadline=None)
def test_not_goes_down_to_the_predicates_exactly(raw: Raw, several: list[dict[str, object]]) -> None:
    opposite = Filter(negation(parsed(raw).tree))
    for event in several:
        assert opposite.evaluate(event) is invert(judged(raw, event))
    assert negation(opposite.tree) == parsed(raw).tree


@given(raws)
@settings(max_examples=200, deadline=None)
def test_the_canonical_text_parses_into_the_same_filter(raw: Raw) -> None:
    filter_ = parsed(raw)
    again = Filter.parse(str(filter_))
    assert again == filter_
    assert hash(again) == hash(filter_)
    assert str(again) == str(filter_)
    assert pickle.loads(pickle.dumps(filter_)) == filter_


@given(st.text(max_size=12), st.text(max_size=12), st.text(alphabet="a%_\\!'", max_size=8), st.floats(allow_nan=False))
@settings(deadline=None)
def test_any_name_text_and_number_survives_the_canonical_text(name: str, text: str, like: str, number: float) -> None:
    assume(math.isfinite(number))
    quoted = name.replace('"', '""')
    filter_ = Filter.parse(
        f'"{quoted}" = {written_literal(text)} OR "{quoted}" < {number!r} OR "{quoted}" LIKE {written_literal(like)}'
    )
    assert Filter.parse(str(filter_)) == filter_
    assert filter_.attributes == {name}
    assert filter_.matches({name: math.nextafter(number, -math.inf)})
    assert filter_.matches({name: text})


@given(st.text(alphabet="ab.cAND OR()'\"=<>!-+0123,[]%_\n;", max_size=30))
@settings(deadline=None)
def test_any_text_is_a_filter_or_is_refused_within_the_text(text: str) -> None:
    result = attempt(text)
    if isinstance(result, FilterError):
        assert 1 <= result.column <= len(text) + 1
        assert result.text == text
    else:
        assert Filter.parse(str(result)) == result


@given(raws, st.lists(events(), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_the_normal_form_is_true_where_the_filter_is(raw: Raw, several: list[dict[str, object]]) -> None:
    filter_ = parsed(raw)
    for event in several:
        holds = any(
            all(evaluate_predicate(predicate, lookup(event, predicate.path)) is True for predicate in conjunction)
            for conjunction in filter_.conjunctions
        )
        assert holds is filter_.matches(event)


@given(raws)
@settings(deadline=None)
def test_the_tree_is_in_its_one_form(raw: Raw) -> None:
    def check(node: object) -> None:
        if isinstance(node, And | Or):
            assert len(node.parts) == len(set(node.parts)) > 1
            for part in node.parts:
                assert type(part) is not type(node)
                check(part)

    filter_ = parsed(raw)
    check(filter_.tree)
    assert filter_.attributes == {predicate.path for predicate in predicates(filter_.tree)}


@given(leaf(), values)
@settings(max_examples=200, deadline=None)
def test_a_restriction_is_what_its_predicates_are_true_of(raw: Raw, value: object) -> None:
    for predicate in predicates(parsed(raw).tree):
        allowed = restriction_of(predicate)
        match group(value):
            case "boolean":
                held = value in allowed.booleans
            case "number":
                held = value in allowed.numbers  # type: ignore[operator]
            case "string":
                held = value in allowed.strings  # type: ignore[operator]
            case _:
                held = allowed.missing if value is None else allowed.other
        assert held is value_test(predicate)(value)
        assert held is (evaluate_predicate(predicate, value) is True)


@given(raws, raws, st.lists(events(), min_size=1, max_size=20))
@settings(max_examples=250, deadline=None)
def test_covers_is_never_wrong(one: Raw, other: Raw, several: list[dict[str, object]]) -> None:
    wide, narrow = parsed(one), parsed(other)
    if wide.covers(narrow):
        for event in several:
            assert not (judged(other, event) is True and judged(one, event) is not True), event
    # Of random pairs few cover; a part of an OR and the whole of an AND always do.
    assert parsed(("or", [one, other])).covers(narrow)
    assert wide.covers(parsed(("and", [one, other])))


@given(raws, raws, st.lists(events(), min_size=1, max_size=20))
@settings(max_examples=250, deadline=None)
def test_intersects_and_equal_are_never_wrong(one: Raw, other: Raw, several: list[dict[str, object]]) -> None:
    mine, its = parsed(one), parsed(other)
    assert mine.intersects(its) is its.intersects(mine)
    if mine.equal(its):
        assert its.equal(mine)
    for event in several:
        holds = judged(one, event) is True, judged(other, event) is True
        assert mine.intersects(its) or not all(holds), event
        assert holds[0] is holds[1] or not mine.equal(its), event
    assert mine.equal(parsed(("not", ("not", one))))
    assert parsed(("or", [one, other])).equal(parsed(("or", [other, one])))


same_attribute = leaf().filter(lambda raw: raw[1] == "a")


@given(st.lists(same_attribute, min_size=1, max_size=3), st.lists(same_attribute, min_size=1, max_size=4), st.data())
@settings(max_examples=250, deadline=None)
def test_relations_are_never_wrong_about_one_attribute(ones: list[Raw], others: list[Raw], data: st.DataObject) -> None:
    wide, narrow = (parsed((word, raws_)) for word, raws_ in (("or", [*ones, ones[0]]), ("and", [*others, others[0]])))
    covers, intersects, equal = wide.covers(narrow), wide.intersects(narrow), wide.equal(narrow)
    drawn = data.draw(st.text(alphabet="ab%_\0c", max_size=5))
    for value in [*NUMBERS, *STRINGS, True, False, *ODD, *NEAR, drawn]:
        holds = wide.matches({"a": value}), narrow.matches({"a": value})
        assert not covers or holds[0] or not holds[1], value
        assert intersects or not all(holds), value
        assert not equal or holds[0] is holds[1], value
