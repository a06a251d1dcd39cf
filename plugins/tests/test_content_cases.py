"""Filters that ask for values of an attribute within an object, and share their other keys."""

import enum
import math
import random
from itertools import product

import pytest

from mqloom.plugins.content import Engine, Filter
from mqloom.plugins.content.cases import CASES_MAX


class Level(enum.IntEnum):
    TWO = 2


NAMES = ["'x'", "'y'", "2", "2.5", "TRUE"]
VALUES = ["x", "y", "z", 2, 2.0, Level.TWO, 2.5, True, None, [1], math.nan, {"name": "x"}]
BOUNDS = [0, 1, 2, 2**53 + 2]
DELAYS = [-1, 0, 0.5, 1, True, 2, Level.TWO, 2**53 + 1, None, "1", math.nan, math.inf]


@pytest.mark.parametrize("bound", ["", "<", "<=", ">", ">="])
def test_they_match_as_each_by_itself_says(bound: str) -> None:
    randomness = random.Random(f"cases {bound}")
    engine = Engine()
    filters: dict[int, Filter] = {}
    for number in range(CASES_MAX + 30):
        names = randomness.sample(NAMES, randomness.choice((1, 1, 3)))
        where = f"key IN (1, {randomness.choice((2, 3))}) AND inner.name IN ({', '.join(names)})"
        if bound:
            where += f" AND inner.delay {bound} {randomness.choice(BOUNDS)}"
        filters[number] = Filter.parse(where)
        engine.add(number, filters[number], number % 3)
    events = [
        {"key": key, "inner": {"name": name, "delay": delay}} for key, name, delay in product((1, 2, 4), VALUES, DELAYS)
    ]
    events += [{"key": 1}, {"key": 1, "inner": 3}, {"key": 1, "inner.name": "x", "inner": {"name": "y", "delay": 1}}]
    for _ in range(3):
        for event in randomness.sample(events, len(events)):
            expected = {number for number, filter_ in filters.items() if filter_.matches(event)}
            found = engine.match(event)
            assert len(found) == len(expected), event
            assert set(found) == expected, event
            assert engine.destinations(event) == {number % 3 for number in expected}, event
        for number in randomness.sample(sorted(filters), 90):
            engine.remove(number)
            del filters[number]
    for number in filters:
        engine.remove(number)
    assert engine.stats()["nodes"] == 1


def test_an_attribute_within_an_object_does_not_multiply_what_is_kept_ready() -> None:
    engine = Engine()
    for number, (key, name) in enumerate(product(range(10), range(20))):
        engine.add(number, Filter.parse(f"key = {key} AND inner.name = {name} AND inner.delay < 3"))
    for _ in range(2):
        for key, name in product(range(10), range(20)):
            assert list(engine.match({"key": key, "inner": {"name": name, "delay": 1}})) == [key * 20 + name]
    assert len(engine._tables.known) == 10


def test_an_id_that_is_no_number_comes_out_as_it_went_in() -> None:
    engine = Engine()
    engine.add(1, Filter.parse("key = 1 AND inner.name = 'x'"))
    event = {"key": 1, "inner": {"name": "x"}}
    engine.match(event).append(7)
    engine.add("text", Filter.parse("key = 1 AND inner.name = 'x' AND inner.delay IS NOT NULL"))
    engine.add("other", Filter.parse("key = 1 AND inner.name = 'x'"))
    assert set(engine.match(event)) == {1, "other"}
