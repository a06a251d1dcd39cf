"""Points in blocks, against looking at each."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.dominance import BLOCK_MAX, Dominance

coordinates = st.sampled_from([-math.inf, -1.0, 0.0, 1.0, 2.0, math.inf])
points = st.tuples(coordinates, coordinates, coordinates)
Kept = dict[int, tuple[float, ...]]


def assert_right(dominance: Dominance[int], kept: Kept, asked: tuple[float, ...]) -> None:
    below = [number for number, point in kept.items() if all(x <= y for x, y in zip(point, asked, strict=True))]
    above = [number for number, point in kept.items() if all(x >= y for x, y in zip(point, asked, strict=True))]
    assert sorted(dominance.not_above(asked)) == sorted(below)
    assert sorted(dominance.not_below(asked)) == sorted(above)
    assert bool(dominance) is bool(kept)


@given(st.lists(st.tuples(st.booleans(), points), max_size=40), points)
def test_it_finds_what_is_nowhere_above_and_nowhere_below(
    steps: list[tuple[bool, tuple[float, ...]]], asked: tuple[float, ...]
) -> None:
    dominance: Dominance[int] = Dominance()
    kept: Kept = {}
    for number, (grows, point) in enumerate(steps):
        if grows or not kept:
            dominance.add(point, number, number)
            kept[number] = point
        else:
            gone = list(kept)[number % len(kept)]
            dominance.remove(kept.pop(gone), gone)
        assert_right(dominance, kept, asked)


def test_it_stays_right_over_many_blocks() -> None:
    generator = random.Random(3)
    dominance: Dominance[int] = Dominance()
    kept: Kept = {}
    for number in range(20 * BLOCK_MAX):
        kept[number] = (float(generator.randrange(50)), float(generator.randrange(50)))
        dominance.add(kept[number], number, number)
    while kept:
        for gone in generator.sample(sorted(kept), min(len(kept), BLOCK_MAX)):
            dominance.remove(kept.pop(gone), gone)
        assert_right(dominance, kept, (float(generator.randrange(50)), float(generator.randrange(50))))


def test_points_without_places_are_all_the_same() -> None:
    dominance: Dominance[str] = Dominance()
    dominance.add((), 1, "one")
    dominance.add((), 2, "two")
    assert list(dominance.not_above(())) == list(dominance.not_below(())) == ["one", "two"]
    dominance.remove((), 1)
    assert dominance.any() == "two"
