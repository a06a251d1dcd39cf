"""Two plain matchers in Python: every filter tried, and a numpy scan of all subscriptions."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from mqloom.core.filter import And, Comparison, Filter, Node
from mqloom.lab.peers import InProcess, text_id
from mqloom.lab.workloads import Event

Side = tuple[str, int]
"""A path, and 1 for its lower bounds or -1 for its upper ones."""

SMALL_MAX: Final = 4_000
"""Up to so many subscriptions the scan keeps all bounds as doubles."""

_INTEGER_MAX: Final = 2**31 - 2
_UNKNOWN: Final = -1
"""The number of a text that no subscription mentions."""


class BruteForce(InProcess):
    """`Filter.matches` of every subscription."""

    engine = "brute force"
    chunk = 1

    def __init__(self, filters: Sequence[Filter], events: Sequence[Event]) -> None:
        super().__init__(events)
        self._tests = [each.matches for each in filters]
        for test in self._tests:
            test(events[0])  # a filter is compiled when first used: not to be timed

    def match(self, events: list[Event]) -> Iterable[Collection[int]]:
        """See `InProcess`."""
        return ([number for number, test in enumerate(self._tests) if test(event)] for event in events)


class NumpyScan(InProcess):
    """All subscriptions compared with an event by whole columns.

    The text equalities and ranges of a filter become a column of lower bounds and negated upper bounds, so that
    `bounds <= point` is the whole test: one matrix of 32-bit integers, for texts (by number) and for attributes whose
    values and bounds are all integers, and one of doubles for the others. Bounds on which all subscriptions agree are
    compared once. A filter with more than such parts is tried by itself where its column passes.
    """

    engine = "numpy scan"
    chunk = 8

    def __init__(self, filters: Sequence[Filter], events: Sequence[Event]) -> None:
        super().__init__(events)
        parts = [list(_bounds(each.tree)) for each in filters]
        self._texts = {each.path for one in parts for each in one if isinstance(each.value, str)}
        whole = _integer_paths(parts, events) - self._texts
        self._codes: dict[object, int] = {}
        columns = [self._column(each, whole) for each in parts]
        sides = sorted({side for column in columns for side in column})
        bounds = {side: {column.get(side, -math.inf) for column in columns} for side in sides}
        self._agreed = [(side, bounds[side].pop()) for side in sides if len(bounds[side]) == 1]
        varied = [side for side in sides if bounds[side]]
        # One matrix where a call costs more than the bytes it reads.
        exact = self._texts | whole if len(filters) > SMALL_MAX else set()
        groups = (
            ([side for side in varied if side[0] in exact], np.int32),
            ([side for side in varied if side[0] not in exact], np.float64),
        )
        self._rows = [_Rows(group, columns, kind) for group, kind in groups if group]
        partial = [len(each) < _size(one.tree) for one, each in zip(filters, parts, strict=True)]
        self._partial = np.array(partial) if any(partial) else None
        self._tests = [each.matches for each in filters]

    def __len__(self) -> int:
        return len(self._tests)

    def match(self, events: list[Event]) -> Iterable[Collection[int]]:
        """See `InProcess`."""
        return map(self.match_one, events)

    def with_texts(self) -> "NumpyScanTexts":
        """Return the same scan with texts for ids."""
        return NumpyScanTexts(self, self._events)

    def match_one(self, event: Event) -> Collection[int]:
        """Return what matches an event."""
        for side, bound in self._agreed:
            (coordinate,) = self._point([side], event, -math.inf)
            if coordinate < bound:
                return ()
        mask: NDArray[np.bool_] | None = None
        for rows in self._rows:
            found = rows.test(self._point(rows.sides, event, rows.pad))
            mask = found if mask is None else np.logical_and(mask, found, out=mask)
        passed = np.arange(len(self._tests)) if mask is None else mask.nonzero()[0]
        return cast(Collection[int], passed if self._partial is None else self._tried(passed, self._partial, event))

    def _point(self, sides: Sequence[Side], event: Event, pad: float) -> list[float]:
        """Return what the bounds of each side are compared with."""
        point: list[float] = []
        for path, sign in sides:
            value = event.get(path)
            if type(value) is str and path in self._texts:
                point.append(self._codes.get(value, _UNKNOWN) * sign)
            elif (type(value) is int or type(value) is float) and path not in self._texts:
                point.append(value * sign)
            else:
                point.append(pad)
        return point

    def _tried(self, passed: NDArray[np.intp], partial: NDArray[np.bool_], event: Event) -> NDArray[np.intp]:
        """Return those that match by the parts, too, that the columns leave out."""
        doubtful = partial[passed]
        surely = [number for number in passed[doubtful].tolist() if self._tests[number](event)]
        return np.concatenate((passed[~doubtful], np.array(surely, dtype=passed.dtype)))

    def _column(self, parts: Sequence[Comparison], whole: set[str]) -> dict[Side, float]:
        """Return the tightest bound of each side."""
        column: dict[Side, float] = {}
        for part in parts:
            for side, bound in self._sides(part, part.path in whole):
                column[side] = max(bound, column.get(side, bound))
        return column

    def _sides(self, part: Comparison, whole: bool) -> list[tuple[Side, float]]:
        value = part.value
        if isinstance(value, str):
            value = self._codes.setdefault(value, len(self._codes))
        match part.operator:
            case "=":
                return [((part.path, 1), value), ((part.path, -1), -value)]
            case ">" | ">=":
                return [((part.path, 1), _at_least(value, strict=part.operator == ">", whole=whole))]
            case _:
                return [((part.path, -1), _at_least(-value, strict=part.operator == "<", whole=whole))]


class NumpyScanTexts(InProcess):
    """The scan with texts for ids: they are taken from an array of objects, and put into a list."""

    engine = NumpyScan.engine
    mode = "one by one, text ids"
    gives_texts = True
    chunk = NumpyScan.chunk

    def __init__(self, scan: NumpyScan, events: Sequence[Event]) -> None:
        super().__init__(events)
        self._scan = scan
        self._ids = np.array([text_id(number) for number in range(len(scan))], dtype=object)

    def match(self, events: list[Event]) -> Iterable[Collection[str]]:
        """See `InProcess`."""
        return map(self._match, events)

    def _match(self, event: Event) -> list[str]:
        numbers = np.asarray(self._scan.match_one(event), dtype=np.intp)
        return cast("list[str]", self._ids.take(numbers).tolist())


class _Rows:
    """The bounds of one number type: a row for each side that some subscription bounds."""

    def __init__(
        self, sides: list[Side], columns: Sequence[dict[Side, float]], kind: type[np.int32] | type[np.float64]
    ) -> None:
        self.sides = sides
        self.pad: float = -(2**31) if kind is np.int32 else -math.inf
        """A bound that everything satisfies, a missing attribute too."""
        self._kind = kind
        self._bounds = np.array([[column.get(side, self.pad) for column in columns] for side in sides], dtype=kind)
        self._passed: NDArray[np.bool_] = np.empty(self._bounds.shape, dtype=np.bool_)
        self._mask: NDArray[np.bool_] = np.empty(len(columns), dtype=np.bool_)

    def test(self, point: list[float]) -> NDArray[np.bool_]:
        """Return which columns pass, in an array that the next call overwrites."""
        column = np.array(point, dtype=self._kind)
        column.shape = (len(point), 1)
        np.less_equal(self._bounds, column, self._passed)
        np.logical_and.reduce(self._passed, axis=0, out=self._mask)
        return self._mask


def _bounds(tree: Node) -> Iterator[Comparison]:
    """Yield those parts of a conjunction that bound an attribute of the event itself."""
    for part in tree.parts if isinstance(tree, And) else (tree,):
        if not isinstance(part, Comparison) or "." in part.path or part.kind == "boolean":
            continue
        if part.operator == "=" or (part.operator != "<>" and part.kind == "number"):
            yield part


def _size(tree: Node) -> int:
    return len(tree.parts) if isinstance(tree, And) else 1


def _integer_paths(parts: Sequence[Sequence[Comparison]], events: Sequence[Event]) -> set[str]:
    """Return the attributes all of whose values and bounds are integers that fit in 32 bits."""
    values: dict[str, list[object]] = {}
    for one in parts:
        for part in one:
            values.setdefault(part.path, []).append(part.value)
    return {
        path
        for path, bounds in values.items()
        if all(map(_fits, bounds)) and all(_fits(event[path]) for event in events if path in event)
    }


def _fits(value: object) -> bool:
    return type(value) is int and abs(value) <= _INTEGER_MAX


def _at_least(bound: float, *, strict: bool, whole: bool) -> float:
    """Return the bound b with `b <= x` where the given one is `bound < x` or, if not strict, `bound <= x`."""
    if not strict:
        return bound
    return bound + 1 if whole else math.nextafter(bound, math.inf)
