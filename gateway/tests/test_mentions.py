"""What filters mention is what they depend on."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.gateway.mentions import MENTIONED_MAX, Mentions, reached


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("", set()),
        ("a = 1", {"a"}),
        ("a = 1 AND NOT (b LIKE 'x%' OR a IN (2, 3))", {"a", "b"}),
        ("a.b.c IS NULL", {"a", "a.b.c"}),
        ("a.b > 1 OR a.c > 1 OR a > 1", {"a", "a.b", "a.c"}),
        ('"a b".c = 1', {"a b", "a b.c"}),
    ],
)
def test_a_filter_reaches_the_names_of_its_paths_and_where_they_begin(where: str, names: set[str]) -> None:
    assert reached(Filter.parse(where)) == names


def test_the_names_are_the_same_object_until_they_change() -> None:
    mentions = Mentions()
    before = mentions.names
    mentions.add(Filter.ALL)
    assert mentions.names is before
    mentions.add(Filter.parse("a = 1"))
    after = mentions.names
    assert after == frozenset({"a"})
    mentions.add(Filter.parse("a = 2"))
    mentions.remove(Filter.parse("a = 1"))
    assert mentions.names is after


def test_past_the_bound_there_are_no_names() -> None:
    mentions = Mentions()
    filters = [Filter.parse(f"x{number} = 1") for number in range(MENTIONED_MAX + 1)]
    for where in filters:
        assert mentions.names is not None
        mentions.add(where)
    assert mentions.names is None
    mentions.remove(filters[0])
    assert mentions.names == frozenset(f"x{number}" for number in range(1, MENTIONED_MAX + 1))


filters = st.sampled_from(["a = 1", "a.b = 1", "b = 1 OR a.c = 2", "", "c.d.e IS NULL", "c = 5"]).map(Filter.parse)


@given(st.lists(filters), st.randoms(use_true_random=False))
def test_the_names_are_those_of_the_filters_that_stand(standing: list[Filter], random: Random) -> None:
    mentions = Mentions()
    for where in standing:
        mentions.add(where)
    random.shuffle(standing)
    while standing:
        assert mentions.names == frozenset(name for where in standing for name in reached(where))
        mentions.remove(standing.pop())
    assert mentions.names == frozenset()
