"""What the engine owes its callers besides the right matches: errors, snapshots, memory, odd values."""

import enum
import math
import random
from array import array
from collections.abc import Callable, Hashable

import pytest

from mqloom.plugins.content import Engine, Filter


class Level(enum.IntEnum):
    ONE = 1


def engine_of(*texts: str) -> Engine:
    engine = Engine()
    for text in texts:
        engine.add(text, Filter.parse(text))
    return engine


def test_an_id_is_added_once_and_removed_once() -> None:
    engine = engine_of("a = 1")
    with pytest.raises(KeyError):
        engine.add("a = 1", Filter.ALL)
    assert "a = 1" in engine
    assert set(engine.match({"a": 1})) == {"a = 1"}
    engine.remove("a = 1")
    with pytest.raises(KeyError):
        engine.remove("a = 1")
    assert len(engine) == 0
    assert "a = 1" not in engine


def test_the_empty_filter_matches_everything_even_nothing() -> None:
    engine = Engine()
    engine.add(None, Filter.ALL, "north")
    assert list(engine.match({})) == [None]
    assert None in engine.match({"a": 1})
    assert engine.destinations({}) == {"north"}


def test_who_has_no_destination_reaches_none() -> None:
    engine = engine_of("a = 1")
    assert engine.destinations({"a": 1}) == set()
    engine.add("b", Filter.parse("a > 0"), ("a", "tuple"))
    assert engine.destinations({"a": 1}) == {("a", "tuple")}
    engine.remove("b")
    assert engine.destinations({"a": 1}) == set()


def test_a_match_stays_what_it_was() -> None:
    engine = Engine()
    for number in range(5000):
        engine.add(number, Filter.parse(f"a > {number}"))
    before = engine.match({"a": 4000.5})
    for number in range(5000):
        engine.remove(number)
    for number in range(5000, 10_000):
        engine.add(number, Filter.parse("a > 0"))
    assert len(before) == 4001
    assert set(before) == set(range(4001))
    assert set(engine.match({"a": 4000.5})) == set(range(5000, 10_000))


def test_ids_come_in_an_array_while_all_are_integers_of_64_bits() -> None:
    engine = Engine()
    shapes = ["a > 1", "a > 1 OR b = 2", "a > 0 AND b < 9", "a > 0 AND a < 9 AND b LIKE '%x%'", "b IS NULL", ""]
    filters = {number: Filter.parse(shapes[number % len(shapes)]) for number in range(300)}
    for number, filter_ in filters.items():
        engine.add(number, filter_)
    event = {"a": 3}
    expected = [number for number, filter_ in filters.items() if filter_.matches(event)]
    for _ in range(3):
        found = engine.match(event)
        assert isinstance(found, array)
        assert sorted(found) == expected
    engine.add("text", Filter.parse("a = 3"))
    for _ in range(3):
        found = engine.match(event)
        assert isinstance(found, list)
        assert sorted(found, key=str) == sorted([*expected, "text"], key=str)
        assert all(type(id_) is int or id_ == "text" for id_ in found)
    assert list(map(len, engine.match_batch([event] * 10))) == [len(expected) + 1] * 10
    engine.remove("text")
    assert isinstance(engine.match(event), list)
    for number in filters:
        engine.remove(number)
    assert engine.match(event) == array("q")
    engine.add(7, filters[0])
    assert engine.match(event) == array("q", [7])


@pytest.mark.parametrize("id_", [True, 1.0, 2**63, -(2**63) - 1, "1", Level.ONE, None, (1,)])
def test_an_id_comes_back_as_it_was_added(id_: Hashable) -> None:
    engine = Engine()
    engine.add(5, Filter.parse("a > 0"))
    assert list(engine.match({"a": 1})) == [5]
    engine.add(id_, Filter.parse("a > 0"))
    for _ in range(3):
        found = engine.match({"a": 1})
        assert isinstance(found, list)
        assert [(type(each), each) for each in found] == [(int, 5), (type(id_), id_)]


ALL_MATCHING = (
    "a > 0",
    "a > 0 AND b > 0",
    "k = 1 AND (a > 0 OR b > 5)",
    "a = 1",
    "",
    "b IS NOT NULL",
    "k = 1 AND s LIKE '%x%'",
)
WIDER = (2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, "text")


@pytest.mark.parametrize("several", [1, 40])
def test_arrays_widen_with_the_ids_and_become_lists(several: int) -> None:
    engine = Engine()
    event = {"a": 1, "b": 1, "k": 1, "s": "axe"}
    expected: set[Hashable] = set()
    ids: list[Hashable] = [*range(several * len(ALL_MATCHING)), *WIDER]
    for place, id_ in enumerate(ids):
        engine.add(id_, Filter.parse(ALL_MATCHING[place % len(ALL_MATCHING)]), place % 3)
        expected.add(id_)
        if place >= several * len(ALL_MATCHING) - 2:
            for found in (engine.match(event), *engine.match_batch([event] * 9)):
                assert sorted(map(str, found)) == sorted(map(str, expected))
            assert engine.destinations(event) == set(range(3))
    assert isinstance(engine.match(event), list)  # a text is among them
    for id_ in ids:
        engine.remove(id_)
    engine.add(7, Filter.parse("a > 0"))
    assert engine.match(event) == array("i", [7])


def test_ids_that_are_equal_are_one_id() -> None:
    engine = Engine()
    engine.add(1, Filter.ALL)
    for same in (True, 1.0, Level.ONE):
        if hash(same) == hash(1):
            assert same in engine
            with pytest.raises(KeyError):
                engine.add(same, Filter.ALL)
    assert isinstance(engine.match({}), array)  # none of them came in
    engine.remove(True)
    assert len(engine) == 0


@pytest.mark.parametrize("kind", [int, str])
def test_what_a_match_returns_is_the_callers_own(kind: Callable[[int], Hashable]) -> None:
    engine = Engine()
    shapes = ["a > {n}", "b > {n} OR a > {n}", "a > {n} AND b > {n}", "a = 200", "", "b IS NOT NULL", "b LIKE '%{n}%'"]
    for number in range(400):
        engine.add(kind(number), Filter.parse(shapes[number % len(shapes)].format(n=number)))
    event = {"a": 200, "b": 300}
    expected = sorted(engine.match(event), key=str)
    for _ in range(3):
        for found in (engine.match(event), *engine.match_batch([event] * 9)):
            assert sorted(found, key=str) == expected
            del found[:]


def test_true_is_not_one() -> None:
    engine = engine_of("a = 1", "a = TRUE", "a >= 1", "a IN (1, 2)", "a <> FALSE", "a BETWEEN 0 AND 2")
    assert set(engine.match({"a": True})) == {"a = TRUE", "a <> FALSE"}
    assert set(engine.match({"a": 1.0})) == {"a = 1", "a >= 1", "a IN (1, 2)", "a BETWEEN 0 AND 2"}


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 + 1, -(2**63) - 1, 2**2000 + 1])
@pytest.mark.parametrize("shape", ["a {} {}", "a {} {} AND b > 0", "a {} {} AND a > -{huge} AND a < {huge}"])
def test_integers_that_no_double_can_be_are_compared_exactly(value: int, shape: str) -> None:
    engine, filters = Engine(), {}
    for operator in ("=", "<", "<=", ">", ">=", "<>"):
        for near in (value - 1, value, value + 1):
            filters[operator, near] = Filter.parse(shape.format(operator, near, huge=10**605))
    for id_, filter_ in filters.items():
        engine.add(id_, filter_)
    for near in (value - 2, value - 1, value, value + 1, value + 2):
        event = {"a": near, "b": 1}
        assert set(engine.match(event)) == {id_ for id_, filter_ in filters.items() if filter_.matches(event)}


def test_nan_matches_no_comparison_and_infinity_every_bound_below_it() -> None:
    engine = engine_of(
        "a > 1", "a >= 1", "a < 1", "a <= 1", "a > 1.7976931348623157e308", "a > 1 AND a < 9", "a IS NOT NULL"
    )
    assert set(engine.match({"a": math.nan})) == {"a IS NOT NULL"}
    assert set(engine.match({"a": math.inf})) == {"a > 1", "a >= 1", "a > 1.7976931348623157e308", "a IS NOT NULL"}
    assert set(engine.match({"a": -math.inf})) == {"a < 1", "a <= 1", "a IS NOT NULL"}


class Name(str):
    __slots__ = ()


def test_subclasses_of_numbers_and_strings_are_what_they_derive_from() -> None:
    engine = engine_of("a = 1", "a < 2", "a BETWEEN 0 AND 2", "a = 'x'", "a LIKE 'x%'", "a >= 'w'", "a = 1 AND b = 'x'")
    assert set(engine.match({"a": Level.ONE})) == {"a = 1", "a < 2", "a BETWEEN 0 AND 2"}
    assert set(engine.match({"a": Name("x")})) == {"a = 'x'", "a LIKE 'x%'", "a >= 'w'"}
    assert set(engine.match({"a": Level.ONE, "b": Name("x")})) > {"a = 1 AND b = 'x'"}


@pytest.mark.parametrize("value", [[], {}, {"x": 1}, b"x", None, object(), {1}])
def test_values_of_no_kind_are_there_and_nothing_more(value: object) -> None:
    engine = engine_of("a = 1", "a <> 1", "a > 1", "a LIKE 'a%'", "a IN (1, 'x')", "a > 1 AND a < 3", "a = 1 AND b = 1")
    assert not engine.match({"a": value, "b": value})
    engine.add("there", Filter.parse("a IS NOT NULL"))
    assert set(engine.match({"a": value})) == ({"there"} if value is not None else set())


def test_an_id_comes_once_though_several_of_its_conjunctions_hold() -> None:
    engine = engine_of(*(f"a = 1 OR a > 0 OR b = 2 OR b > {bound} OR c LIKE 'x%'" for bound in range(100)))
    assert len(engine.match({"a": 1, "b": 2, "c": "xyz"})) == 100


def test_a_literal_key_comes_before_nested_ones() -> None:
    engine = engine_of("a.b = 1", "a.b.c = 2", "a.b IS NULL")
    assert set(engine.match({"a": {"b": 1}})) == {"a.b = 1"}
    assert set(engine.match({"a.b": 1, "a": {"b": 5}})) == {"a.b = 1"}
    assert set(engine.match({"a.b": None, "a": {"b": 1}})) == {"a.b IS NULL"}
    assert set(engine.match({"a": {"b": {"c": 2}}})) == {"a.b.c = 2"}
    engine.remove("a.b = 1")
    engine.remove("a.b.c = 2")
    assert set(engine.match({"a": {"b": 1}})) == set()


def test_very_long_strings_match_exactly() -> None:
    long = "x" * 5000
    engine = engine_of(f"a = '{long}'", f"a LIKE '{long}%'", f"a LIKE '%{long}'", f"a > '{long}'")
    assert set(engine.match({"a": long})) == {f"a = '{long}'", f"a LIKE '{long}%'", f"a LIKE '%{long}'"}
    assert set(engine.match({"a": long + "y"})) == {f"a LIKE '{long}%'", f"a > '{long}'"}
    assert not engine.match({"a": long[1:]})


def test_values_that_never_come_again_match_as_others_do() -> None:
    engine = Engine()
    for number in range(10_000):
        engine.add(number, Filter.parse(f"a = {number} AND b > 0"))
    bytes_before = engine.stats()["bytes"]
    for number in range(10_000):
        assert list(engine.match({"a": number, "b": number})) == ([number] if number else [])
        assert not engine.match({"a": -1 - number, "b": 1})
    assert engine.stats()["bytes"] < 2 * bytes_before
    for _ in range(3):
        assert list(engine.match({"a": 5, "b": 1})) == [5]


def test_very_many_different_attributes_cost_nothing_when_absent() -> None:
    engine = Engine()
    for number in range(600):
        engine.add(number, Filter.parse(f"a{number} = 1 AND b{number % 7} = 2 AND c = 3"))
    assert set(engine.match({"a5": 1, "b5": 2, "c": 3})) == {5}
    assert set(engine.match({f"a{number}": 1 for number in range(600)} | {"b1": 2, "c": 3})) == set(range(1, 600, 7))
    assert engine.stats()["tables"] <= 900


SHAPES = [
    "s = 'S{s}' AND x > {x}",
    "s = 'S{s}'",
    "x > {x} AND x < {y} AND z > {x} AND z < {y}",
    "s = 'S{s}' AND x BETWEEN {x} AND {y}",
    "s LIKE 'S{s}%' OR z < {x}",
    "x <> {x} AND t LIKE '%{s}%'",
]


def churn(engine: Engine, rng: random.Random, ids: list[int], count: int) -> None:
    for _ in range(count):
        id_ = rng.randrange(10**9)
        low, high = sorted((rng.uniform(0, 100), rng.uniform(0, 100)))
        engine.add(id_, Filter.parse(rng.choice(SHAPES).format(s=rng.randrange(40), x=low, y=high)), id_ % 5)
        ids.append(id_)
    engine.match({"s": "S1", "x": 50.0, "z": 50.0, "t": "11"})
    engine.match_batch([{"s": "S1", "x": 50.0, "z": 50.0}] * 20)


def test_memory_is_given_back_and_tombstones_are_purged() -> None:
    engine, rng, ids = Engine(), random.Random(7), list[int]()
    churn(engine, rng, ids, 3000)
    most = engine.stats()["bytes"]
    for _ in range(6):
        rng.shuffle(ids)
        for _ in range(2500):
            engine.remove(ids.pop())
        engine.match({"s": "S1", "x": 50.0, "z": 50.0})
        stats = engine.stats()
        assert stats["tombstones"] <= 2048
        churn(engine, rng, ids, 2500)
        assert engine.stats()["bytes"] < 1.5 * most
    for id_ in ids:
        engine.remove(id_)
    engine.match({})
    stats = engine.stats()
    assert stats["subscriptions"] == stats["conjunctions"] == stats["tables"] == 0
    assert stats["in_lists"] == stats["in_thresholds"] == stats["in_boxes"] == 0
    assert stats["bytes"] < most / 10


def test_stats_count_what_is_where() -> None:
    engine = engine_of("a = 1", "a = 1 AND b > 2", "b > 1 AND c < 2", "a = 1 OR b = 2")
    stats = engine.stats()
    assert stats["subscriptions"] == 4
    assert stats["conjunctions"] == 5
    assert (stats["in_lists"], stats["in_thresholds"], stats["in_boxes"]) == (3, 1, 1)
    assert stats["tombstones"] == 0
    assert stats["bytes"] > 1000
