"""Filters of two bounds that share their keys: either must hold, or both."""

import enum
import math
import random
from itertools import product

import pytest

from mqloom.plugins.content import Engine, Filter
from mqloom.plugins.content.tried import TRIED_MAX


class Level(enum.IntEnum):
    TWO = 2


BOUNDS = [-1, 0, 0.5, 1, 2, 3, 2**53, 2**53 + 2]
VALUES = [-2, -1, 0, 0.25, 0.5, 1, True, 2, Level.TWO, 2.5, 3, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 1e300, 10**400]
AWKWARD = [None, "2", math.nan, math.inf, -math.inf, [1]]


@pytest.mark.parametrize("joined", ["OR", "AND"])
@pytest.mark.parametrize("operators", list(product(("<", "<=", ">", ">="), repeat=2)), ids=" ".join)
def test_they_match_as_each_by_itself_says(joined: str, operators: tuple[str, str]) -> None:
    randomness = random.Random(f"{joined} {operators}")
    one, two = operators
    engine = Engine()
    filters: dict[int, Filter] = {}
    for number in range(TRIED_MAX + 3):
        bounds = f"(a {one} {randomness.choice(BOUNDS)} {joined} b {two} {randomness.choice(BOUNDS)})"
        filters[number] = Filter.parse(f"key = 1 AND {bounds}")
        engine.add(number, filters[number], number % 3)
    pairs = list(product(VALUES + AWKWARD, repeat=2))
    for _ in range(2):
        for a, b in randomness.sample(pairs, len(pairs)):
            event = {"key": 1, "a": a, "b": b}
            expected = {number for number, filter_ in filters.items() if filter_.matches(event)}
            assert set(engine.match(event)) == expected, event
            assert engine.destinations(event) == {number % 3 for number in expected}, event
        for number in randomness.sample(sorted(filters), 10):
            engine.remove(number)
            del filters[number]


def test_what_they_return_is_the_callers_own() -> None:
    engine = Engine()
    engine.add(1, Filter.parse("key = 1 AND (a > 1 OR b > 1)"))
    engine.match({"key": 1, "a": 2}).append(7)
    assert list(engine.match({"key": 1, "a": 2})) == [1]
    engine.add("text", Filter.parse("key = 1 AND (a > 1 OR b > 1)"))
    assert set(engine.match({"key": 1, "a": 2})) == {1, "text"}
