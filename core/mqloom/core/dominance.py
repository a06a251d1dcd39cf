"""A set of points that finds those nowhere above a given one, and those nowhere below it.

The points are tuples of floats, all of one length, and stand sorted in blocks. Each block knows how far its points
reach in each place, so that most blocks are passed over at one look.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from operator import le
from typing import Final, Generic, TypeVar

BLOCK_MAX: Final = 128
"""Points of a block; one that has more is split."""

Item = TypeVar("Item")
Point = tuple[float, ...]


class Dominance(Generic[Item]):
    """Points with an item each. The number that comes with a point tells it from others at the same place."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[_Block[Item]] = []

    def add(self, point: Point, number: int, item: Item) -> None:
        """Take in a point; no two have the same number."""
        if not self._blocks:
            self._blocks.append(_Block([(point, number, item)]))
            return
        index = self._find(point, number)
        block = self._blocks[index]
        block.add((point, number, item))
        if len(block.rows) > BLOCK_MAX:
            half = len(block.rows) // 2
            self._blocks[index : index + 1] = _Block(block.rows[:half]), _Block(block.rows[half:])

    def remove(self, point: Point, number: int) -> None:
        """Remove a point that is there."""
        index = self._find(point, number)
        rows = self._blocks[index].rows
        del rows[[row[1] for row in rows].index(number)]
        if not rows:
            del self._blocks[index]

    def not_above(self, point: Point) -> Iterator[Item]:
        """Yield the items of all points that are at most `point` in every place."""
        for block in self._blocks:
            if all(map(le, block.least, point)):
                for known, _, item in block.rows:
                    if all(map(le, known, point)):
                        yield item

    def not_below(self, point: Point) -> Iterator[Item]:
        """Yield the items of all points that are at least `point` in every place."""
        for block in self._blocks:
            if all(map(le, point, block.greatest)):
                for known, _, item in block.rows:
                    if all(map(le, point, known)):
                        yield item

    def any(self) -> Item:
        """Return some item; there has to be one."""
        return self._blocks[0].rows[0][2]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def _find(self, point: Point, number: int) -> int:
        """Return the index of the block where the point is, or belongs."""
        return max(bisect_right(self._blocks, (point, number), key=_first) - 1, 0)


class _Block(Generic[Item]):
    __slots__ = ("greatest", "least", "rows")

    def __init__(self, rows: list[tuple[Point, int, Item]]) -> None:
        self.rows = rows
        columns = list(zip(*(point for point, _, _ in rows), strict=True))
        self.least = tuple(map(min, columns))
        self.greatest = tuple(map(max, columns))

    def add(self, row: tuple[Point, int, Item]) -> None:
        insort(self.rows, row, key=_place)
        # Not drawn in again when points go: a block that claims too much costs only time.
        self.least = tuple(map(min, self.least, row[0]))
        self.greatest = tuple(map(max, self.greatest, row[0]))


def _first(block: _Block[Item]) -> tuple[Point, int]:
    return _place(block.rows[0])


def _place(row: tuple[Point, int, Item]) -> tuple[Point, int]:
    return row[:2]
