"""The index of boxes against a plain scan of them."""

import math
import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from mqloom.plugins.content import box_rows, cells, layout
from mqloom.plugins.content.box_rows import BoxRows
from mqloom.plugins.content.entries import Box, Entry

Draw = Callable[[random.Random], tuple[float, float]]

_GREATEST = float(np.finfo(float).max)


def _integers(randomness: random.Random) -> tuple[float, float]:
    low = randomness.randrange(100)
    return low, low + randomness.randrange(40)


def _floats(randomness: random.Random) -> tuple[float, float]:
    low = randomness.lognormvariate(0, 3)
    return low, low * randomness.uniform(1, 4)


def _tiny(randomness: random.Random) -> tuple[float, float]:
    low = randomness.uniform(0, 10)
    return low, randomness.choice((low, math.nextafter(low, math.inf), low + 0.01))


def _equal(_: random.Random) -> tuple[float, float]:
    return 3.0, 5.0


def _odd(randomness: random.Random) -> tuple[float, float]:
    ends = (-math.inf, -_GREATEST, -1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, 3.0, _GREATEST, math.inf)
    low, high = randomness.choices(ends, k=2)  # which may be the wrong way round
    return low, high


def _half_open(randomness: random.Random) -> tuple[float, float]:
    low, high = _floats(randomness) if randomness.random() < 0.5 else _integers(randomness)
    return randomness.choice(((low, math.inf), (-math.inf, high), (low, high), (-math.inf, math.inf)))


DRAWS = (_integers, _floats, _tiny, _equal, _odd, _half_open)


class Scanned:
    """Boxes in an index and in a dict, each with its bounds, item and destination."""

    def __init__(self, randomness: random.Random, draws: tuple[Draw, ...], destinations: int = 20) -> None:
        self._randomness = randomness
        self._draws = draws
        self._destinations = destinations
        self.rows = BoxRows(len(draws), code="i")
        self.boxes: dict[int, Box] = {}
        self._next = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            bounds = [bound for draw in self._draws for bound in draw(self._randomness)]
            bit = 1 << self._randomness.randrange(self._destinations)
            box = Box(Entry(bit, 0), self._next, tuple(bounds), None)
            self.boxes[self._next] = box
            self.rows.add(box)
            self._next += 1

    def remove(self, count: int) -> None:
        for item in self._randomness.sample(sorted(self.boxes), min(count, len(self.boxes))):
            self.rows.remove(self.boxes.pop(item))

    def points(self, count: int) -> list[list[float]]:
        """Return points on bounds, next to bounds, and anywhere."""
        points = []
        known = list(self.boxes.values())
        for _ in range(count):
            point = []
            for place, draw in enumerate(self._draws):
                source = self._randomness.choice(known).bounds if known else ()
                value = self._randomness.choice((*source[2 * place : 2 * place + 2], *draw(self._randomness)))
                near = math.nextafter(value, self._randomness.choice((-math.inf, math.inf)))
                point.append(self._randomness.choice((value, value, near, np.trunc(value).item())))
            points.append(point)
        return points

    def check(self, points: list[list[float]]) -> None:
        self.rows.settle()
        expected = [sorted(item for item, box in self.boxes.items() if _holds(box, point)) for point in points]
        found = [sorted(self.rows.match(point).tolist()) for point in points]
        assert found == expected
        assert [sorted(items.tolist()) for items in self.rows.match_batch(np.array(points, float))] == expected
        masks = [0] * len(points)
        for place, items in enumerate(expected):
            for item in items:
                masks[place] |= self.boxes[item].entry.bit
        assert [self.rows.mask(point) for point in points] == masks


def _holds(box: Box, point: list[float]) -> bool:
    lows, highs = box.bounds[::2], box.bounds[1::2]
    return all(low <= value <= high for low, value, high in zip(lows, point, highs, strict=True))


@pytest.fixture(params=["usual", "small"])
def _limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits as they are, and others that bring about with few boxes what takes many."""
    if request.param == "usual":
        monkeypatch.setattr(box_rows, "INDEXED_MIN", 32)
        monkeypatch.setattr(box_rows, "WAITING_MIN", 24)
        monkeypatch.setattr(layout, "BOXES_PER_CELL", 4)
        return
    monkeypatch.setattr(box_rows, "INDEXED_MIN", 4)
    monkeypatch.setattr(box_rows, "WAITING_MIN", 3)
    monkeypatch.setattr(box_rows, "PATIENCE", 1)
    monkeypatch.setattr(box_rows, "CHUNK", 3)
    monkeypatch.setattr(layout, "BOXES_PER_CELL", 1)
    monkeypatch.setattr(cells, "COPIES_MAX", 400)
    monkeypatch.setattr(cells, "COPIES_BYTES_MAX", 10_000)
    monkeypatch.setattr(cells, "CHUNK", 3)
    monkeypatch.setattr(cells, "BYTES_PER_BOX_MAX", 20_000)


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize(("dimensions", "seed"), list(product((1, 2, 3, 4, 6, 9), range(8))))
def test_boxes_come_and_go_and_every_point_finds_its_own(dimensions: int, seed: int) -> None:
    randomness = random.Random(f"{dimensions} {seed}")
    scanned = Scanned(randomness, tuple(randomness.choice(DRAWS) for _ in range(dimensions)))
    for _ in range(6):
        scanned.add(randomness.choice((0, 1, 5, 40, 150)))
        scanned.check(scanned.points(20))
        scanned.remove(randomness.choice((0, 1, 3, 20, 100)))
        scanned.check(scanned.points(20))


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize("draw", DRAWS)
def test_one_kind_of_bounds_in_all_dimensions(draw: Draw) -> None:
    scanned = Scanned(random.Random(1), (draw,) * 3)
    scanned.add(400)
    scanned.check(scanned.points(60))
    scanned.add(30)
    scanned.remove(300)
    scanned.check(scanned.points(60))
    scanned.remove(130)
    scanned.check(scanned.points(5) if scanned.boxes else [[3.0, 3.0, 3.0]])


def test_what_the_index_was_built_of_may_go_and_others_come() -> None:
    scanned = Scanned(random.Random(2), (_floats, _integers))
    scanned.add(1000)
    scanned.check(scanned.points(50))
    for _ in range(8):
        scanned.remove(300)
        scanned.add(300)
        scanned.check(scanned.points(50))


def test_more_destinations_than_a_word_has_bits() -> None:
    scanned = Scanned(random.Random(3), (_integers, _floats), destinations=200)
    scanned.add(600)
    scanned.check(scanned.points(50))
    scanned.remove(50)
    scanned.check(scanned.points(50))


def test_many_different_bounds_need_several_words() -> None:
    scanned = Scanned(random.Random(4), (_floats, _floats, _half_open, _floats, _tiny))
    scanned.add(6000)
    scanned.check(scanned.points(30))
    scanned.add(500)
    scanned.check(scanned.points(30))


def test_the_index_reports_about_the_memory_it_takes() -> None:
    scanned = Scanned(random.Random(5), (_integers, _integers, _integers))
    scanned.add(2000)
    scanned.check(scanned.points(200))
    full = scanned.rows.size_bytes()
    scanned.remove(1900)
    scanned.check(scanned.points(10))
    assert scanned.rows.size_bytes() < full / 4
