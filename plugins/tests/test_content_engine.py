"""The engine against the plain version: a dict of filters, each asked in turn."""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from mqloom.core.errors import FilterError
from mqloom.core.filter import Filter
from mqloom.plugins.content import (
    Engine,
    box_rows,
    boxes,
    cells,
    layout,
    planning,
    selections,
    tables,
    thresholds,
)
from mqloom.plugins.content import engine as engine_module

# Filters and publications as in core's test of the language, with more values near each other.

Raw = tuple[Any, ...]

PATHS = ["a", "b", "c.d", "c.d.e", "weird name"]
NUMBERS: list[int | float] = [
    *(-1, 0, 1, 1.5, 2, -0.1, math.nextafter(1.5, 2), 5e-324, 1e300, 1.7976931348623157e308),
    *(
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**53 + 2,
        -(2**53) - 1,
        2**63 - 1,
        2**63,
        2**63 + 1,
        10**22,
        10**23,
        2**2000,
        -(2**2000),
    ),
]
STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "aba",
    "%",
    "_",
    "\\",
    "a%",
    "it's",
    "é",
    "\U0001f600",
    "a\0",
    "x" * 40,
    "x" * 41,
    "x" * 70 + "y",
]
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
    "x" * 40 + "%",
    "%" + "x" * 69 + "y",
    "x" * 9 + "%y",
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
values = st.sampled_from([*NUMBERS, *STRINGS, True, False, *ODD])


@st.composite
def events(draw: st.DrawFn) -> dict[str, object]:
    event: dict[str, object] = {}
    for path in PATHS:
        if draw(st.integers(0, 4)):
            event[path] = draw(values)
    if draw(st.booleans()):
        event["c"] = draw(
            st.one_of(values, st.fixed_dictionaries({"d": values | st.fixed_dictionaries({"e": values})}), st.just({}))
        )
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


def filter_of(raw: Raw) -> Filter:
    try:
        return Filter.parse(written(raw))
    except FilterError:
        return Filter.ALL  # multiplied out, it would be too large


# Conjunctions of bounds, which random trees seldom are.
bounds = st.tuples(
    st.just("compare"), paths, st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(NUMBERS), st.just(False)
)
equalities = st.tuples(st.just("compare"), paths, st.just("="), literals, st.just(False))
conjunctions = st.tuples(st.just("and"), st.lists(bounds | bounds | equalities, min_size=2, max_size=6))
filters = st.one_of(st.just(Filter.ALL), raws.map(filter_of), raws.map(filter_of), conjunctions.map(filter_of))
ids = st.integers(0, 30) | st.sampled_from(["a", ("t", 1), frozenset((1,)), None])
destinations = st.none() | st.integers(0, 5) | st.sampled_from(["north", ("south",)])


class Plain:
    """What the engine should be."""

    def __init__(self) -> None:
        self.filters: dict[Hashable, tuple[Filter, Hashable | None]] = {}

    def match(self, event: Mapping[str, object]) -> set[Hashable]:
        return {id_ for id_, (filter_, _) in self.filters.items() if filter_.matches(event)}

    def destinations(self, event: Mapping[str, object]) -> set[Hashable]:
        reached = {destination for filter_, destination in self.filters.values() if filter_.matches(event)}
        return reached - {None}


def assert_same(engine: Engine, plain: Plain, several: list[dict[str, object]]) -> None:
    for event in [*several, *several]:  # what comes again takes another way
        expected = plain.match(event)
        found = engine.match(event)
        assert len(found) == len(expected)
        assert set(found) == expected
    batch = engine.match_batch(several)
    assert [len(found) for found in batch] == [len(plain.match(event)) for event in several]
    assert [set(found) for found in batch] == [plain.match(event) for event in several]
    assert engine.destinations_batch(several) == [plain.destinations(event) for event in several]


def add_all(engine: Engine, plain: Plain, several: list[tuple[Filter, Hashable | None]]) -> None:
    for number, (filter_, destination) in enumerate(several):
        engine.add(number, filter_, destination)
        plain.filters[number] = filter_, destination


def remove_every_other(engine: Engine, plain: Plain) -> None:
    for id_ in list(plain.filters)[::2]:
        engine.remove(id_)
        del plain.filters[id_]


subscriptions = st.tuples(filters, destinations)


@given(st.lists(subscriptions, max_size=12), st.lists(events(), min_size=1, max_size=10))
@settings(max_examples=200, deadline=None)
def test_the_engine_finds_what_every_filter_by_itself_says(
    several: list[tuple[Filter, Hashable | None]], published: list[dict[str, object]]
) -> None:
    engine, plain = Engine(), Plain()
    add_all(engine, plain, several)
    assert_same(engine, plain, published)
    remove_every_other(engine, plain)
    assert_same(engine, plain, published)


# With limits as low as these, a few filters take every way that a million may take.
LOW = {
    box_rows: {"INDEXED_MIN": 3, "WAITING_MIN": 2, "WAITING_SHARE": 1000, "PATIENCE": 1, "CHUNK": 2},
    boxes: {"FEW_MAX": 2},
    cells: {"COPIES_MAX": 1000, "COPIES_BYTES_MAX": 10_000, "BYTES_PER_BOX_MAX": 200, "CHUNK": 3},
    layout: {"BOXES_PER_CELL": 1},
    engine_module: {
        "BATCH_MIN": 2,
        "POPULAR_MIN": 1,
        "POPULARITIES_MAX": 3,
        "GROUPS_MAX": 2,
        "TABLES_MAX": 3,
        "SHRINK_MIN": 2,
    },
    planning: {"EXPANSION_MAX": 3},
    selections: {"_FEW": 1},
    tables: {"SCANNED_TABLES_MAX": 1, "KEY_PATHS_MAX": 2, "SELECTIONS_MAX": 3, "REPEATED_SHARE": 2, "TRIED_MAX": 3},
    thresholds: {"SORTED_AT_ONCE_MAX": 2, "STEPS_MIN": 2, "_FEW": 1},
}


@pytest.fixture(scope="class")
def low_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, limits in LOW.items():
            for name, limit in limits.items():
                patch.setattr(module, name, limit)
        yield


# Many of one shape, so that leaves grow.
crowds = st.builds(
    lambda shape, numbers: [
        (Filter.parse(shape.format(low=min(pair), high=max(pair))), index % 3) for index, pair in enumerate(numbers)
    ],
    st.sampled_from(
        [
            "a > {low} AND a <= {high}",
            "a >= {low} AND b < {high}",
            "a > {low} AND a < {high} AND b >= {low} AND b <= {high} AND c.d > {low}",
            "a = 1 AND b BETWEEN {low} AND {high}",
            "a = 1 AND (b > {low} OR c.d <= {high})",
            "a = 1 AND (b >= {low} OR b < {high})",
            "a = 1 AND b < {high} AND c.d >= {low}",
            "a > {low} AND b <= {high} AND c.d LIKE '%b%'",
            "a > {low} OR b <= {high}",
            "a > {low} AND b IS NULL",
            "a <> {low}",
            "a IN ({low}, {high}, 'a', TRUE) AND c.d IN (1, 'ab')",
            "a NOT IN ({low}, {high}) AND b > {low}",
        ]
    ),
    st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)), min_size=4, max_size=24),
)


@pytest.mark.usefixtures("low_limits")
class TestWithLowLimits:
    @given(
        st.lists(crowds, min_size=1, max_size=3), st.lists(subscriptions, max_size=6), st.lists(events(), min_size=1)
    )
    @settings(max_examples=200, deadline=None)
    def test_whatever_way_they_take_the_matches_are_the_same(
        self,
        groups: list[list[tuple[Filter, Hashable | None]]],
        others: list[tuple[Filter, Hashable | None]],
        published: list[dict[str, object]],
    ) -> None:
        engine, plain = Engine(), Plain()
        add_all(engine, plain, [*(pair for group in groups for pair in group), *others])
        assert_same(engine, plain, published)
        remove_every_other(engine, plain)
        assert_same(engine, plain, published)
        for number, (filter_, destination) in enumerate(groups[0]):
            engine.add(("again", number), filter_, destination)
            plain.filters["again", number] = filter_, destination
        assert_same(engine, plain, published)
        for id_ in list(plain.filters):
            engine.remove(id_)
        assert engine.stats()["nodes"] == 1
        assert not any(engine.match_batch(published))


class Interleaved(RuleBasedStateMachine):
    """Add, remove and match in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.plain = Plain()

    known = Bundle("known")

    @rule(target=known, id_=ids, filter_=filters, destination=destinations)
    def add(self, id_: Hashable, filter_: Filter, destination: Hashable | None) -> Hashable:
        assume(id_ not in self.plain.filters)
        self.engine.add(id_, filter_, destination)
        self.plain.filters[id_] = filter_, destination
        return id_

    @rule(id_=consumes(known))
    def remove(self, id_: Hashable) -> None:
        self.engine.remove(id_)
        del self.plain.filters[id_]

    @rule(event=events())
    def match(self, event: dict[str, object]) -> None:
        found = self.engine.match(event)
        assert len(found) == len(set(found))
        assert set(found) == self.plain.match(event)

    @rule(several=st.lists(events(), max_size=12))
    def match_batch(self, several: list[dict[str, object]]) -> None:
        assert list(map(set, self.engine.match_batch(several))) == list(map(self.plain.match, several))

    @rule(event=events())
    def destinations(self, event: dict[str, object]) -> None:
        assert self.engine.destinations(event) == self.plain.destinations(event)

    @invariant()
    def holds_what_was_added(self) -> None:
        assert len(self.engine) == len(self.plain.filters)
        assert all(id_ in self.engine for id_ in self.plain.filters)
        stats = self.engine.stats()
        assert stats["subscriptions"] == len(self.plain.filters)
        assert self.plain.filters or stats["nodes"] == 1


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.usefixtures("low_limits")
class TestInterleavedWithLowLimits(Interleaved.TestCase):  # type: ignore[valid-type,misc]  # made at run time
    settings = TestInterleaved.settings
