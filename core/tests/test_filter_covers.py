"""Covering, intersecting, being equal: exact for conjunctions of equalities, ranges, IN and prefixes."""

import math
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.core.filter.ranges import StringRange, after_prefix, number_after, number_before, strings

COVERS = [
    # everything, itself, fewer predicates
    ("", "a = 1"),
    ("", ""),
    ("a = 1 AND b = 2", "b = 2 AND a = 1"),
    ("class = 'STOCK'", "class = 'STOCK' AND volume > 300000"),
    # ranges of numbers
    ("x > 3", "x > 5"),
    ("x > 3", "x >= 3.5"),
    ("x >= 3", "x > 3"),
    ("x < 5", "x <= 4"),
    ("x <= 5", "x < 5"),
    ("x > 3", "x = 4"),
    ("x >= 1 AND x <= 9", "x BETWEEN 2 AND 8"),
    ("x > 9007199254740992", "x = 9007199254740993"),
    ("x = 5", "x >= 5 AND x <= 5"),
    ("x >= 5 AND x <= 5", "x = 5.0"),
    # what nothing satisfies is covered by anything
    ("y = 1", "x > 5 AND x < 5"),
    ("y = 1", "x >= 5 AND x <= 5 AND x <> 5"),
    ("y = 1", "x > 5 AND x < 'a'"),
    ("y = 1", "x = 1 AND x = TRUE"),
    ("y = 1", "x IS NULL AND x = 1"),
    ("y = 1", "x IS NULL AND x IS NOT NULL"),
    ("y = 1", "x NOT IN (1, 'a')"),
    ("y = 1", "x NOT IN (TRUE, FALSE)"),
    ("y = 1", "x < ''"),
    ("y = 1", "x > 'a' AND x < 'a\0'"),
    ("y = 1", "x LIKE 'a%' AND x LIKE 'b%'"),
    ("y = 1", "x LIKE '%a' AND x LIKE '%b'"),
    ("y = 1", "x LIKE '_' AND x LIKE '__%'"),
    ("y = 1", "x LIKE '__%' AND x LIKE '_'"),
    ("y = 1", "x LIKE 'ab%c' AND x NOT LIKE 'a%'"),
    ("y = 1", "x = 'abc' AND x LIKE '_'"),
    ("y = 1", "x >= 'a' AND x <= 'a' AND x LIKE '%b'"),
    # presence
    ("x IS NOT NULL", "x > 3"),
    ("x IS NOT NULL", "x = TRUE"),
    ("x IS NOT NULL", "x NOT LIKE 'a%'"),
    ("x IS NULL", "x IS NULL AND y = 1"),
    ("x IS NULL OR x IS NOT NULL AND y = 1", "y = 1 AND x > 5"),
    # strings
    ("x >= 'a'", "x = 'abc'"),
    ("x > 'a'", "x >= 'a\0'"),
    ("x >= 'a\0'", "x > 'a'"),
    ("x >= ''", "x < 'b'"),
    ("x = ''", "x <= ''"),
    # <>, IN, NOT IN
    ("x <> 5", "x > 5"),
    ("x <> 5", "x = 4"),
    ("x <> 5", "x NOT IN (4, 5)"),
    ("x > 5", "x >= 5 AND x <> 5"),
    ("x > 'a'", "x >= 'a' AND x <> 'a'"),
    ("x < 'a'", "x <= 'a' AND x <> 'a'"),
    ("x IN (1, 2, 3)", "x IN (1, 3)"),
    ("x IN (1, 2, 'a')", "x = 'a'"),
    ("x IN (TRUE, 1)", "x = TRUE"),
    ("x >= 1", "x IN (1, 2, 3)"),
    ("x = FALSE", "x <> TRUE"),
    ("x <> TRUE", "x = FALSE"),
    ("x IN (1, 2)", "x IN (1, 2, 3) AND x < 3"),
    ("x IN ('a', 'b')", "x IN ('a', 'b', 'c', 1) AND x <= 'b'"),
    ("x NOT IN ('a', 'b')", "x LIKE 'c%'"),
    # patterns
    ("x LIKE 'a%'", "x LIKE 'ab%'"),
    ("x LIKE 'a%'", "x >= 'ab' AND x < 'ac'"),
    ("x >= 'ab' AND x < 'ac'", "x LIKE 'ab%'"),
    ("x LIKE 'a%'", "x LIKE 'a%b'"),
    ("x LIKE '%b'", "x LIKE 'a%ab'"),
    ("x LIKE '%b%'", "x LIKE 'abc%'"),
    ("x LIKE '%b%'", "x LIKE '%ab'"),
    ("x LIKE '%'", "x = 'abc'"),
    ("x LIKE '%'", "x NOT LIKE 'a%'"),
    ("x LIKE '__%'", "x LIKE '%ab%'"),
    ("x LIKE 'a_'", "x IN ('ab', 'ac')"),
    ("x LIKE '_%_c'", "x LIKE 'ab_c'"),
    ("x LIKE 'a%c%'", "x LIKE 'ab%cd%e'"),
    ("x NOT LIKE 'a%'", "x LIKE 'b%'"),
    ("x NOT LIKE 'a%'", "x > 'b'"),
    ("x NOT LIKE 'b%'", "x < 'b'"),
    ("x NOT LIKE 'ab%'", "x NOT LIKE 'a%'"),
    ("x NOT LIKE '%a'", "x LIKE '%b'"),
    ("x NOT LIKE 'a%'", "x = 'b'"),
    ("x LIKE 'a%' AND x NOT LIKE '%z'", "x LIKE 'a%b'"),
    # OR
    ("x = 1 OR y = 2", "y = 2"),
    ("x < 1 OR x > 5", "x NOT BETWEEN 0 AND 6"),
    ("x <> 5", "x < 5 OR x > 5"),
    ("x = 1 OR x = 2", "x IN (1, 2)"),
    ("symbol = 'A' OR symbol = 'B' AND volume > 3", "symbol IN ('A', 'B') AND volume > 5"),
    ("x = 1 OR x = 'a' OR x = TRUE", "x IN (1, 'a', TRUE)"),
    ("x IN (1, 2) OR x > 5", "x IN (1, 9)"),
    ("(a = 1 OR b = 1) AND c = 1", "c = 1 AND a = 1 OR c = 1 AND b = 1"),
    # paths
    ("a.b = 1", "a.b = 1 AND a = 5"),
    # there is nothing between neighbours
    ("x >= 1.0000000000000002", "x > 1"),
    ("y = 1", "x > 1 AND x < 1.0000000000000002"),
    ("x = 9007199254740993", "x > 9007199254740992 AND x < 9007199254740994"),
    ("x IN (1, 1.0000000000000002)", "x BETWEEN 1 AND 1.0000000000000002"),
    ("x IN (9007199254740992, 9007199254740993)", "x BETWEEN 9007199254740992 AND 9007199254740993"),
    ("x = 1 OR x = 1.0000000000000002", "x BETWEEN 1 AND 1.0000000000000002"),
    ("x IN ('a', 'a\0', 1)", "x >= 'a' AND x <= 'a\0'"),
    ("x IN ('a', 'a\0\0')", "x >= 'a' AND x <= 'a\0\0' AND x <> 'a\0'"),
    ("y = 1", "x > 1 AND x <> 1.0000000000000002 AND x < 1.0000000000000004"),
]

COVERS_NOT = [
    ("a = 1", ""),
    ("a = 1", "b = 1"),
    ("x > 5", "x > 3"),
    ("x > 3", "x >= 3"),
    ("x < 3", "x <= 3"),
    ("x > 3", "x < 9"),
    ("x < 9", "x > 3"),
    ("x >= 5", "x > 4"),
    ("x = 5", "x >= 5"),
    ("x = 1", "x = TRUE"),
    ("x = 1", "x = '1'"),
    ("x IN (1, 2)", "x IN (1, 2, 3)"),
    ("x IN (1, 2)", "x >= 1 AND x <= 2"),
    ("x IN ('a', 'b')", "x >= 'a' AND x <= 'b'"),
    ("x <> 5", "x > 4"),
    ("x <> 5", "x = 'a'"),
    ("x <> 5", "x IS NOT NULL"),
    ("x <> 5", "x IS NULL"),
    ("x > 3", "x IS NOT NULL"),
    ("x IS NULL", ""),
    ("x IS NOT NULL", ""),
    ("x <> 'a'", "x <= 'a'"),
    ("x <> 'a'", "x LIKE 'a%'"),
    ("x <> 'abc'", "x LIKE 'a%c'"),
    ("x LIKE 'ab%'", "x LIKE 'a%'"),
    ("x LIKE 'a%'", "x LIKE '%a'"),
    ("x LIKE '_'", "x LIKE '__'"),
    ("x LIKE 'a%'", "x <> 'b'"),
    ("x NOT LIKE 'a%'", "x LIKE '%b'"),
    ("x NOT LIKE 'a%'", "x >= ''"),
    ("x < 'b'", "x LIKE '%a'"),
    ("x = 1 OR x = 2", "x IN (1, 2, 3)"),
    ("x = 1 AND y = 1 OR x = 2", "x IN (1, 2)"),
    ("x = 1 OR y = 2", "x = 2 AND y = 1"),
    ("a.b = 1", "a = 1"),
    ("x > 5 AND x < 5", "x = 5"),
    ("x IN (1, 2)", "x >= 1 AND x < 1" + "0" * 400),
    ("x IN ('a', 'b')", "x >= 'a' AND x < 'a\0\0'"),
    ("x IN ('a', 'a\0')", "x >= 'a'"),
]


@pytest.mark.parametrize(("wide", "narrow"), COVERS)
def test_it_covers(wide: str, narrow: str) -> None:
    assert Filter.parse(wide).covers(Filter.parse(narrow))


@pytest.mark.parametrize(("wide", "narrow"), COVERS_NOT)
def test_it_does_not_cover(wide: str, narrow: str) -> None:
    assert not Filter.parse(wide).covers(Filter.parse(narrow))


def test_everything_is_one_box_without_restrictions_and_nothing_is_none() -> None:
    assert Filter.ALL.boxes == ({},)
    assert Filter.parse("x > 5 AND x < 5").boxes == ()


def test_covering_many_alternatives_is_bounded() -> None:
    values = ", ".join(str(number) for number in range(65))
    wide = Filter.parse(f"x IN ({values}) AND y = 1 OR x IN ({values}) AND y = 2")
    assert wide.covers(Filter.parse(f"x IN ({values}) AND y IN (1, 2)"))
    # Of 65 values of x it does not look at each.
    halves = Filter.parse("x < 32 OR x >= 32")
    assert not halves.covers(Filter.parse(f"x IN ({values})"))


def test_covering_many_patterns_takes_no_long_time() -> None:
    wide = Filter.parse(" AND ".join(f"x LIKE '%{'ab' * 8}{number}%_%c%'" for number in range(120)))
    narrow = Filter.parse(" AND ".join(f"x LIKE '%{'ab' * 8}{number}%_%c%d%'" for number in range(120)))
    began = time.process_time()
    assert wide.covers(narrow)
    assert time.process_time() - began < 1


def test_a_prefix_ends_where_the_next_one_begins() -> None:
    assert after_prefix("ab") == "ac"
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\U0010ffff") is None
    assert after_prefix("") is None
    assert Filter.parse("x LIKE '\U0010ffff%'").covers(Filter.parse("x > '\U0010ffff\U0010ffff'"))
    assert StringRange("ab", "ac").head == "ab"
    assert StringRange("ab", "ad").head == "a"
    assert StringRange("ab", "abc").head == "ab"
    assert StringRange("ab", None).head == ""
    assert strings("a", "a\0\0", excluded=frozenset({"a\0"})) == frozenset({"a"})


INTERSECTS_NOT = [
    ("x = 1", "x = 2"),
    ("x = 1", "x = TRUE"),
    ("x > 5", "x <= 5"),
    ("x > 1", "x < 1.0000000000000002"),
    ("x IN (1, 2, 'a')", "x IN (3, 'b')"),
    ("x IN (1, 2)", "x > 2"),
    ("x IN ('a', 'b')", "x LIKE 'c%'"),
    ("x LIKE 'a%'", "x LIKE 'b%'"),
    ("x LIKE 'ab%'", "x > 'ac'"),
    ("x LIKE '%a'", "x LIKE '%b'"),
    ("x LIKE 'ab%'", "x NOT LIKE 'a%'"),
    ("x IS NULL", "x <> 5"),
    ("x = 1 AND y = 1 OR x = 2 AND y = 2", "x = 1 AND y = 2 OR x = 2 AND y = 1"),
    ("", "x > 5 AND x < 5"),
]

INTERSECTS = [
    ("", ""),
    ("", "x IS NULL"),
    ("x = 1", "y = 2"),
    ("x > 5", "x < 6"),
    ("x >= 5", "x <= 5"),
    ("x <> 5", "x <> 6"),
    ("x IN (1, 'a')", "x > 'A'"),
    ("x LIKE 'a%'", "x LIKE '%b'"),
    ("x LIKE 'a%'", "x LIKE 'ab%'"),
    ("x LIKE 'ab%'", "x < 'ac'"),
    ("x = 1 OR y = 1", "x = 2"),
    ("a = 1", "a.b = 1"),
]

EQUAL = [
    ("x IN (1, 2)", "x = 2 OR x = 1"),
    ("x LIKE 'ab%'", "x >= 'ab' AND x < 'ac'"),
    ("x > 1 AND x < 1", "y = 1 AND y = 2"),
    ("x > 1", "x >= 1.0000000000000002"),
    ("x <> TRUE", "x = FALSE"),
    ("a = 1 AND b = 2", "b = 2 AND a = 1"),
]


@pytest.mark.parametrize(("one", "other"), INTERSECTS_NOT)
def test_nothing_matches_both(one: str, other: str) -> None:
    assert not Filter.parse(one).intersects(Filter.parse(other))
    assert not Filter.parse(other).intersects(Filter.parse(one))


@pytest.mark.parametrize(("one", "other"), INTERSECTS)
def test_something_matches_both(one: str, other: str) -> None:
    assert Filter.parse(one).intersects(Filter.parse(other))
    assert Filter.parse(other).intersects(Filter.parse(one))


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_both_match_the_same(one: str, other: str) -> None:
    assert Filter.parse(one).equal(Filter.parse(other))
    assert Filter.parse(one) != Filter.parse(other)


@pytest.mark.parametrize(("one", "other"), COVERS_NOT)
def test_they_do_not_match_the_same(one: str, other: str) -> None:
    assert not Filter.parse(one).equal(Filter.parse(other))
    assert not Filter.parse(other).equal(Filter.parse(one))


# Exactness: conjunctions over two attributes, against every event on a grid of all values at which one of their
# predicates can change its answer. Of numbers these are the literals and their neighbours; of strings the literals, and
# the first ones behind a literal and behind all that begin with one.

NUMBERS = [0, 1, math.nextafter(1, 2), 2.5, 2**53, 2**53 + 2]
STRINGS = ["", "a", "a\0", "ab", "b", "\U0010ffff"]
POINTS: list[object] = [
    *dict.fromkeys(near for number in NUMBERS for near in (number_before(number), number, number_after(number))),
    *dict.fromkeys(near for text in STRINGS for near in (text, text + "\0", after_prefix(text) or "c")),
    *(math.inf, -math.inf, True, False, None, []),
]


def written(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


orders = st.sampled_from(["=", "<", "<=", ">", ">="])
numeric = st.builds("{} {!r}".format, orders, st.sampled_from(NUMBERS))
textual = st.builds("{} '{}'".format, orders, st.sampled_from(STRINGS))
prefix = st.sampled_from(STRINGS).map("LIKE '{}%'".format)
boolean = st.sampled_from(["= TRUE", "= FALSE"])
listed = st.lists(st.sampled_from([*NUMBERS, *STRINGS, True, False]), min_size=1, max_size=4, unique_by=written)
within = listed.map(lambda values: f"IN ({', '.join(map(written, values))})")
predicates = st.one_of(numeric, numeric, textual, prefix, within, within, boolean)
conjunctions = st.lists(st.builds("{} {}".format, st.sampled_from("xy"), predicates), min_size=1, max_size=4).map(
    " AND ".join
)
one_attribute = st.lists(predicates.map("x {}".format), min_size=1, max_size=4).map(" AND ".join)


def assert_exact(one: Filter, other: Filter, events: list[dict[str, object]]) -> None:
    ones, others = ([filter_.matches(event) for event in events] for filter_ in (one, other))
    pairs = list(zip(ones, others, strict=True))
    assert one.covers(other) is all(first or not second for first, second in pairs)
    assert one.intersects(other) is any(first and second for first, second in pairs)
    assert one.equal(other) is (ones == others)


@given(conjunctions, conjunctions)
@settings(max_examples=200, deadline=None)
def test_relations_are_exact_for_conjunctions_of_equalities_ranges_in_and_prefixes(one: str, other: str) -> None:
    grid: list[dict[str, object]] = [{"x": x, "y": y} for x, y in product(POINTS, POINTS)]
    assert_exact(Filter.parse(one), Filter.parse(other), grid)


@given(one_attribute, one_attribute)
@settings(max_examples=500, deadline=None)
def test_relations_are_exact_for_one_attribute(one: str, other: str) -> None:
    assert_exact(Filter.parse(one), Filter.parse(other), [{"x": x} for x in POINTS])


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_there_is_no_number_between_neighbours(number: float, other: float) -> None:
    behind = number_after(number)
    assert number < behind
    assert number_before(behind) == number
    assert not number < other < behind
    assert not number < number + 1 < behind


@given(one_attribute, one_attribute, one_attribute)
@settings(deadline=None)
def test_covering_is_transitive(one: str, other: str, third: str) -> None:
    wide, middle, narrow = Filter.parse(one), Filter.parse(other), Filter.parse(third)
    assert wide.covers(wide)
    if wide.covers(middle) and middle.covers(narrow):
        assert wide.covers(narrow)
