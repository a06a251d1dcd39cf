"""The covering set, kept up under insertions and deletions, against comparing all pairs."""

import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mqloom.core.poset import Change, Poset
from mqloom.core.subscription import Subscription

TOPICS = ["#", "a/#", "a/+", "a/b", "+/b", "$SYS/#"]

# Conjunctions of which covering is exact, and therefore transitive.
EXACT = [
    "",
    *(f"x {operator} {number}" for operator in ("=", "<", "<=", ">", ">=") for number in (1, 2, 2.5)),
    *(f"x BETWEEN {low} AND {high}" for low, high in [(1, 2), (1, 3), (2, 3), (2, 2.5), (0, 9)]),
    *("x IN (1, 2)", "x IN (1, 2, 2.5)", "x IN (1, 'a')", "x IN ('a', 'ab', 'b')", "x IN (TRUE, FALSE, 1)"),
    *(
        "s LIKE 'a%'",
        "s LIKE 'ab%'",
        "s >= 'a'",
        "s < 'b'",
        "s = 'ab'",
        "s IN ('ab', 'abc')",
        "s >= 'a' AND s <= 'a\0'",
    ),
    *("x = TRUE", "x IS NULL", "x IS NOT NULL", "s IS NOT NULL", "x > 2 AND x < 2", "x = 'a' AND x = 1"),
    *("x >= 9007199254740992 AND x <= 9007199254740993", "x IN (9007199254740992, 9007199254740993)"),
    *("x > 1" + "0" * 400, "x > 1" + "0" * 399, "x < 1" + "0" * 400),
]
LOOSE = [
    *("x = 1 OR x = 2", "x < 1 OR x > 2", "x <= 2 OR s = 'a'", "x <> 2", "x NOT IN (1, 2)", "NOT s LIKE 'a%'"),
    *("s LIKE '%b'", "s LIKE 'a%b'", "s LIKE '%b%' OR x > 2", "s LIKE 'a_'", "x = 1 AND s = 'a' OR x = 2 AND s = 'b'"),
    *("x IN (1, 2) AND s IN ('a', 'b')", "x IN (1, 2) AND s = 'a' OR x IN (1, 2) AND s = 'b'"),
    *("x = 1 AND s = 'a' OR x = 1 AND s = 'b' OR x = 2 AND s = 'a' OR x = 2 AND s = 'b'", "x IS NULL OR x > 2"),
]


def both(wheres: list[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(st.sampled_from(wheres), st.sampled_from(wheres))
    return pairs.map(lambda pair: " AND ".join(f"({where})" for where in pair if where)) | st.sampled_from(wheres)


def scripts(wheres: list[str]) -> st.SearchStrategy[list[tuple[bool, int, Subscription]]]:
    wishes = st.builds(Subscription.parse, st.sampled_from(TOPICS), both(wheres))
    return st.lists(st.tuples(st.booleans() | st.just(True), st.integers(0, 99), wishes), max_size=40)


def follow(keys: Iterable[int], change: Change[int]) -> set[int]:
    """Return the covering set after a change, which says nothing twice and nothing in vain."""
    before = set(keys)
    assert len(set(change.gained)) == len(change.gained)
    assert len(set(change.lost)) == len(change.lost)
    assert not before & set(change.gained)
    assert set(change.lost) <= before
    return before - set(change.lost) | set(change.gained)


def maximal(known: Mapping[int, Subscription]) -> list[Subscription]:
    """Return those that no other covers, of equal ones the first: the obviously right way."""
    return [
        wish
        for number, wish in known.items()
        if not any(
            other.covers(wish) and (number > before or not wish.covers(other))
            for before, other in known.items()
            if before != number
        )
    ]


def run(script: list[tuple[bool, int, Subscription]]) -> Iterable[tuple[Poset[int], dict[int, Subscription]]]:
    """Carry out the steps; what holds always is checked after each."""
    poset: Poset[int] = Poset()
    known: dict[int, Subscription] = {}
    told: set[int] = set()
    for number, (grows, which, wish) in enumerate(script):
        if grows or not known:
            known[number] = wish
            told = follow(told, poset.add(number, wish))
        else:
            gone = list(known)[which % len(known)]
            del known[gone]
            told = follow(told, poset.remove(gone))
        poset.check()
        assert set(poset.covering_set()) == told
        assert {key: poset[key] for key in poset} == known
        assert len(poset) == len(known)
        assert not any(known[one].covers(known[other]) for one, other in itertools.permutations(told, 2))
        for root in told:
            assert poset.cover(root) == root
            assert all(poset.cover(key) == root for key in poset.covered(root))
        yield poset, known


@given(scripts(EXACT))
@settings(max_examples=150, deadline=None)
def test_the_covering_set_is_that_of_comparing_all_pairs(script: list[tuple[bool, int, Subscription]]) -> None:
    for poset, known in run(script):
        chosen = [known[key] for key in poset.covering_set()]
        expected = maximal(known)
        # Which of several that say the same stands for all depends on what went before.
        assert len(chosen) == len(expected)
        assert all(any(one.equal(other) for other in expected) for one in chosen)


@given(scripts(EXACT + LOOSE * 2))
@settings(max_examples=150, deadline=None)
def test_in_the_whole_language_it_is_so_wherever_covering_is_transitive(
    script: list[tuple[bool, int, Subscription]],
) -> None:
    for poset, known in run(script):
        distinct = list(dict.fromkeys(known.values()))
        pairs = {(one, other) for one, other in itertools.product(distinct, distinct) if one.covers(other)}
        if any((one, last) not in pairs for one, middle in pairs for then, last in pairs if then == middle):
            event("not transitive")
            continue
        chosen = [known[key] for key in poset.covering_set()]
        expected = maximal(known)
        assert len(chosen) == len(expected)
        assert all(any(one.equal(other) for other in expected) for one in chosen)


# ---- scripts -----------------------------------------------------------------------------------------------------


def poset_of(*wheres: str) -> Poset[int]:
    poset: Poset[int] = Poset()
    for number, where in enumerate(wheres):
        poset.add(number, Subscription.parse("a/#", where))
    return poset


def test_what_is_covered_changes_nothing_when_it_comes_or_goes() -> None:
    poset = poset_of("x > 1")
    assert poset.add(1, Subscription.parse("a/b", "x > 2")) == ([], [])
    assert poset.cover(1) == 0
    assert poset.covered(0) == [1]
    assert poset.remove(1) == ([], [])


def test_what_covers_takes_the_place_of_the_covered() -> None:
    poset = poset_of("x > 1", "y > 1", "z > 1")
    assert poset.add(3, Subscription.parse("#", "y > 0")) == ([3], [1])
    assert poset.covering_set() == [0, 2, 3]


def test_of_equal_ones_the_first_stands_for_all_and_the_next_takes_its_place() -> None:
    poset = poset_of("x > 1", "x > 1", "x > 1")
    assert poset.remove(0) == ([1], [0])
    assert poset.remove(2) == ([], [])
    assert poset.remove(1) == ([], [1])
    assert len(poset) == 0


def test_the_next_widest_come_forward_when_their_cover_goes() -> None:
    poset = poset_of("", "x > 2", "x > 1", "y > 1", "x > 3")
    assert poset.remove(0) == ([2, 3], [0])
    assert poset.covered(2) == [1, 4]


def test_what_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(KeyError):
        poset_of("x > 1").remove(7)


# ---- how long it takes -------------------------------------------------------------------------------------------


def stock(count: int) -> list[Subscription]:
    """The subscriptions of paper 000, section 6.2."""
    generator = random.Random(11)
    found = []
    for _ in range(count):
        share = generator.random()
        where = "class = 'STOCK'" + f" AND symbol = 'S{generator.randrange(100)}'" * (share < 0.94)
        if share < 0.2:
            where += f" AND high > {generator.uniform(10, 100):.2f}"
        elif share < 0.4:
            where += f" AND low < {generator.uniform(10, 100):.2f}"
        elif share < 0.6 or 0.94 <= share < 0.99:
            where += f" AND volume > {generator.randrange(1_000_000)}"
        found.append(Subscription.parse("stocks/#", where))
    return found


def chain(count: int) -> list[Subscription]:
    return [Subscription.parse("a", f"x > {number}") for number in range(count)]


def staircase(count: int) -> list[Subscription]:
    return [Subscription.parse("a", f"x > {number} AND y < {number}") for number in range(count)]


def several_values(count: int) -> list[Subscription]:
    return [Subscription.parse("a", f"s IN ('S{number}', 'S{number + 1}')") for number in range(count)]


def narrowest_first(count: int) -> list[Subscription]:
    return chain(count)[::-1]


@pytest.mark.parametrize("workload", [stock, chain, narrowest_first, staircase, several_values])
def test_thousands_take_no_long_time_even_if_the_widest_always_goes_first(
    workload: Callable[[int], list[Subscription]],
) -> None:
    wishes = workload(2_000)
    began = time.process_time()
    poset: Poset[int] = Poset()
    for number, wish in enumerate(wishes):
        poset.add(number, wish)
    left = poset.covering_set()
    while left:
        left += poset.remove(left.pop(0)).gained
    assert len(poset) == 0
    # Comparing all pairs would take from ten times to a hundred times as long.
    assert time.process_time() - began < 6
