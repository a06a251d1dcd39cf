"""Cells and witnesses: nothing that covers is ruled out, and what they are made of keeps its order."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.filter import Filter, Outline
from mqloom.core.filter.outlines import CELLS_MAX, NOWHERE, _float, _place


def holds(wide: Outline, narrow: Outline) -> bool:
    """Whether one outline holds another, span by span: the plain way."""
    if narrow.form.empty or not wide.form.may_hold(narrow.form):
        return narrow.form.empty
    if any(span.single and span.value != narrow.spans[path].value for path, span in wide.spans.items()):
        return False
    points = zip(wide.form.point(wide.spans), wide.form.point(narrow.spans), strict=True)
    return all(mine <= other for mine, other in points)


PREDICATES = [
    *("x = 1", "x = 2", "x > 1", "x >= 1", "x < 2", "x <= 2", "x <> 1", "x = TRUE", "x <> TRUE", "x = 'a'", "x > 'a'"),
    *(
        "x IN (1, 2)",
        "x IN (1, 'a')",
        "x IN ('a', 'b')",
        "x LIKE 'a%'",
        "x LIKE '%a'",
        "x LIKE '%ba'",
        "x LIKE 'b%_ba'",
        "x = 'cba'",
        "x IN ('a', 'ca')",
        "x LIKE '%é􏿿'",
        "x IS NULL",
        "x IS NOT NULL",
    ),
    *("x > 1.0000000000000002", "x BETWEEN 1 AND 1.0000000000000002", "x >= 'a' AND x <= 'a\0'", "x IN ('a', 'a\0')"),
    *("x <= ''", "x < 'b'", "x IN ('', '\0')", "x <= '\0'", "x > 1" + "0" * 400, "x < -1" + "0" * 400),
    *("x = 'é'", "x > 'ÿ'", "x > 'Āb'", "x = 'Āa'", "x NOT IN (1, 2)", "x = 1" + "0" * 400),
]
leaves = st.sampled_from([*PREDICATES, *(predicate.replace("x", "y") for predicate in PREDICATES)])
alternatives = st.lists(st.lists(leaves, min_size=1, max_size=3).map(" AND ".join), min_size=1, max_size=3)
filters = alternatives.map(" OR ".join).map(Filter.parse)


@given(st.lists(filters, min_size=2, max_size=8))
@settings(max_examples=400, deadline=None)
def test_a_filter_that_covers_another_has_a_cell_that_holds_its_witness(several: list[Filter]) -> None:
    for wide, narrow in itertools.product(several, several):
        if wide.covers(narrow):
            assert any(holds(cell, narrow.witness) for cell in wide.cells), (wide, narrow)


def test_a_short_range_covers_a_part_of_it_that_a_pattern_describes() -> None:
    wide, narrow = Filter.parse("x >= 'a' AND x <= 'a\0'"), Filter.parse("x >= 'a' AND x <= 'a\0' AND x LIKE '%a'")
    assert wide.covers(narrow)
    assert any(holds(cell, narrow.witness) for cell in wide.cells)


def test_of_two_predicates_none_that_covers_is_ruled_out() -> None:
    for one, other in itertools.product(map(Filter.parse, PREDICATES), repeat=2):
        assert any(holds(cell, other.witness) for cell in one.cells) or not one.covers(other), (one, other)


@given(st.text(alphabet="\0aéÿĀb\U0010ffff", max_size=8), st.text(alphabet="\0aéÿĀb\U0010ffff", max_size=8))
@settings(max_examples=500)
def test_strings_never_change_places(one: str, other: str) -> None:
    low, high = sorted([one, other])
    assert _place(low) <= _place(high)


@given(st.integers() | st.floats(allow_nan=False), st.integers(-(10**400), 10**400))
def test_numbers_never_change_places(one: float, other: int) -> None:
    low, high = sorted([one, other])
    assert _float(low) <= _float(high)


def test_numbers_beyond_all_floats_are_at_the_end() -> None:
    assert (_float(10**400), _float(-(10**400))) == (math.inf, -math.inf)


def test_listed_values_have_a_cell_each() -> None:
    assert [cell.spans["x"].value for cell in Filter.parse("x IN ('b', 'a') AND y > 1").cells] == ["a", "b"]
    assert len(Filter.parse("x IN (1, 2) OR y = 3").cells) == 3
    assert Filter.parse("x > 1 AND x < 1").cells == (NOWHERE,)


@pytest.mark.parametrize("count", [2, 20])
def test_cells_are_bounded(count: int) -> None:
    values = ", ".join(map(str, range(60)))
    cells = Filter.parse(" OR ".join(f"x{number} IN ({values})" for number in range(count))).cells
    assert count < len(cells) <= CELLS_MAX
