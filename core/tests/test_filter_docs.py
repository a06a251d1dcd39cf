"""Every example in docs/filters.md is tried, and its limits are those of the code."""

import json
import re
from pathlib import Path

import pytest

from mqloom.core.errors import FilterError
from mqloom.core.filter import Filter, limits

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text("utf-8")
ANSWERS = {"yes": True, "no": False, "unknown": None}


def rows(*header: str) -> list[list[str]]:
    """Return the cells of all tables with that header, without backticks around a whole cell."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        if lines[0] == list(header):
            found += [[re.sub(r"^`(.*)`$", r"\1", cell) for cell in line] for line in lines[2:]]
    assert found, header
    return found


@pytest.mark.parametrize(("text", "attributes", "answer"), rows("filter", "attributes", "matches"))
def test_an_example_matches_as_the_page_says(text: str, attributes: str, answer: str) -> None:
    filter_, event = Filter.parse(text), json.loads(attributes)
    assert filter_.evaluate(event) is ANSWERS[answer]
    assert filter_.matches(event) is (answer == "yes")


@pytest.mark.parametrize("text", "".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)).splitlines())
def test_a_filter_on_the_page_parses(text: str) -> None:
    assert Filter.parse(str(Filter.parse(text))) == Filter.parse(text)


@pytest.mark.parametrize("cell", [row[0] for row in rows("predicate", "true if the attribute")])
def test_a_predicate_on_the_page_parses(cell: str) -> None:
    for text in cell.split("`, `"):
        assert Filter.parse(text).attributes == {"x"}


@pytest.mark.parametrize("cell", [row[1] for row in rows("literal", "examples", "")])
def test_a_literal_on_the_page_parses(cell: str) -> None:
    for text in cell.replace("`", "").split(", "):
        Filter.parse(f"x = {text}")


@pytest.mark.parametrize(("triples", "same"), rows("triples", "the same"))
def test_triples_are_the_same_as_the_page_says(triples: str, same: str) -> None:
    assert Filter.parse(triples) == Filter.parse(same)


@pytest.mark.parametrize(("text", "canonical"), rows("written", "canonical"))
def test_the_canonical_text_is_what_the_page_says(text: str, canonical: str) -> None:
    assert str(Filter.parse(text)) == canonical


@pytest.mark.parametrize(("wide", "narrow", "answer"), rows("filter", "covers", ""))
def test_a_filter_covers_as_the_page_says(wide: str, narrow: str, answer: str) -> None:
    assert Filter.parse(wide).covers(Filter.parse(narrow)) is ANSWERS[answer]


@pytest.mark.parametrize(("one", "other", "answer"), rows("filter", "intersects", ""))
def test_filters_intersect_as_the_page_says(one: str, other: str, answer: str) -> None:
    assert Filter.parse(one).intersects(Filter.parse(other)) is ANSWERS[answer]
    assert Filter.parse(other).intersects(Filter.parse(one)) is ANSWERS[answer]


@pytest.mark.parametrize(("text", "column", "problem"), rows("filter", "column", "problem"))
def test_a_mistake_is_answered_as_the_page_says(text: str, column: str, problem: str) -> None:
    with pytest.raises(FilterError) as caught:
        Filter.parse(text)
    assert (caught.value.column, caught.value.problem) == (int(column), problem)


def test_the_limits_are_on_the_page() -> None:
    on_the_page = [int(re.findall(r"\d+", value)[0]) for _, value in rows("limit", "")]
    assert on_the_page == [
        limits.TEXT_MAX,
        limits.DEPTH_MAX,
        limits.VALUES_MAX,
        limits.DIGITS_MAX,
        limits.CONJUNCTIONS_MAX,
        limits.PREDICATES_MAX,
    ]
    assert len(on_the_page) == sum(name.endswith("_MAX") for name in dir(limits))


def test_the_page_shows_every_operator_of_the_triples() -> None:
    with pytest.raises(FilterError) as caught:
        Filter.parse("[a,nonsense,1]")
    for word in re.findall(r"\w+(?:-\w+)?(?=,|$)", caught.value.problem.split("operators")[1].split(", found")[0]):
        assert f",{word}," in PAGE, word
