"""A selection: the leaves that publications with the same values for keys can reach, laid out to be run through."""

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Any, Final

import numpy as np

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.bundles import Bundles
from mqloom.plugins.content.entries import CHECKED, Candidate, Items, Mask
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.planning import SINGLE, Checks, ThresholdLeaf
from mqloom.plugins.content.thresholds import Row, Thresholds
from mqloom.plugins.content.tried import Tried

LeafObject = Listed | Thresholds | Boxes | Tried

Pools = tuple[Items, Items, list[Candidate]]
"""What comes out of the leaves, by bucket: ids, such that may repeat each other, and candidates."""

Postponed = dict[Boxes, list[int]]
"""Boxes that wait for a whole batch, and the numbers of the publications that ask them."""

_NUMBERS: Final = frozenset((int, float))
_TEXTS: Final = frozenset((str,))

_FEW: Final = 64
"""So many ids are made distinct without numpy."""


_Rows = tuple[tuple[str, frozenset[type], tuple[Row, ...]], ...]
"""Rows of leaves by attribute. A leaf has but one row: what selections share may stay in the processor's cache."""


class Selection:
    """If there is `more`, `collect_more`; then `collect`. Small parts come first: a container that grows is copied."""

    __slots__ = (
        "_boxes",
        "_groups",
        "_joined",
        "_listed",
        "_lists",
        "_other_rows",
        "_rows",
        "_tried",
        "empty",
        "more",
        "sole",
    )

    def __init__(
        self, leaves: Iterable[LeafObject], groups: "list[Group]", empty: Items = (), bundles: Bundles | None = None
    ) -> None:
        listed: list[Listed] = []
        lists: list[tuple[str | None, bool, int, Listed]] = []
        boxes: list[tuple[int, Boxes]] = []
        tried: list[Tried] = []
        rows: dict[tuple[str, bool], list[Row]] = {}
        other_rows: dict[tuple[str, bool], list[Row]] = {}
        alike: dict[Any, list[Thresholds]] = {}
        for leaf in leaves:
            name: Any
            name, bucket = leaf.name
            if isinstance(leaf, Thresholds):
                if bucket == SINGLE:
                    alike.setdefault(name, []).append(leaf)
                else:
                    other_rows.setdefault(_place(name), []).append(leaf.row or leaf.make_row())
            elif isinstance(leaf, Boxes):
                boxes.append((bucket, leaf))
            elif isinstance(leaf, Tried):
                tried.append(leaf)
            elif name.path is None and bucket == SINGLE:
                listed.append(leaf)
            else:
                lists.append((name.path, name.present, bucket, leaf))
        for name, several in alike.items():
            made = [leaf.row or leaf.make_row() for leaf in several] if bundles is None else bundles.rows(several)
            rows.setdefault(_place(name), []).extend(made)
        self._rows = _laid_out(rows, by_size=True)
        self._other_rows = _laid_out(other_rows)
        self._listed = tuple(listed)
        self._lists = tuple(lists)
        self._boxes = tuple(boxes)
        self._tried = tuple(tried)
        self._groups = tuple(groups)
        self.empty = empty
        self._joined = tuple([leaf.items for leaf in sorted(listed, key=len)])
        self.more = bool(lists or boxes or tried or groups or other_rows)
        others = listed or lists or tried or groups or rows or other_rows
        self.sole: Boxes | None = boxes[0][1] if not others and [bucket for bucket, _ in boxes] == [SINGLE] else None
        """The boxes, if there is nothing else: their answer is the whole answer."""

    def collect(self, get: Get, out: Items) -> None:
        """Add the ids of the leaves of which each id comes once; and those only that need no more than a bound."""
        for path, types, rows in self._rows:
            value = get(path)
            # NaN is not equal to itself.
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for _, search, thresholds, tail, items, _ in rows:
                    cut = search(thresholds, value)
                    out += items[cut:] if tail else items[:cut]
        for items in self._joined:
            out += items

    def collect_more(self, get: Get, pools: Pools, postponed: Postponed | None = None, number: int = 0) -> None:
        """Add what is in the other leaves; if asked to, postpone those of many boxes for publication `number`."""
        for path, types, rows in self._other_rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for bucket, search, thresholds, tail, items, _ in rows:
                    cut = search(thresholds, value)
                    pool = pools[bucket]
                    pool += items[cut:] if tail else items[:cut]
        for place, present, bucket, listed in self._lists:
            if place is None or (get(place) is not None) is present:
                pool = pools[bucket]
                pool += listed.items
        for tried in self._tried:
            pools[SINGLE].extend(tried.match(get))
        for bucket, boxes in self._boxes:
            if postponed is not None and boxes.are_many:
                postponed.setdefault(boxes, []).append(number)
            else:
                pool = pools[bucket]
                pool += boxes.match(get)
        if self._groups:
            collect_all(self._open_groups(get), get, pools, postponed, number)

    def _open_groups(self, get: Get) -> "list[Selection]":
        """Return the groups of which all checks are true."""
        return [
            selection()
            for lead, checks, selection in self._groups
            if (lead is None or get(lead) is not None) and holds(checks, get)
        ]

    def reach(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        """Return `mask` with the destinations that match, as soon as it is `full`; candidates are for later."""
        for leaf in self._listed:
            mask |= leaf.mask()
            if mask == full:
                return mask
        for path, types, rows in self._rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for row in rows:
                    mask |= row[-1].mask(value)
        return self._reach_more(get, mask, full, candidates) if self.more and mask != full else mask

    def _reach_more(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        for path, types, rows in self._other_rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for bucket, search, thresholds, tail, items, leaf in rows:
                    if bucket == CHECKED:
                        cut = search(thresholds, value)
                        candidates += items[cut:] if tail else items[:cut]
                    else:
                        mask |= leaf.mask(value)
        for place, present, bucket, listed in self._lists:
            if place is None or (get(place) is not None) is present:
                if bucket == CHECKED:
                    candidates += listed.items
                else:
                    mask |= listed.mask()
        for tried in self._tried:
            mask |= tried.mask(get)
        return self._reach_boxes(get, mask, full, candidates) if self._boxes or self._groups else mask

    def _reach_boxes(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        for bucket, boxes in self._boxes:
            if bucket == CHECKED:
                candidates += boxes.match(get)
            else:
                mask |= boxes.mask(get)
        if self._groups and mask != full:
            for selection in self._open_groups(get):
                mask = selection.reach(get, mask, full, candidates)
        return mask

    def size_bytes(self) -> int:
        """Return the memory it takes, without the leaves."""
        tuples = (
            self._rows,
            self._other_rows,
            self._listed,
            self._lists,
            self._boxes,
            self._tried,
            self._groups,
            self._joined,
        )
        inner = (each for several in (self._lists, self._boxes, self._groups) for each in several)
        rows = (part for row in (*self._rows, *self._other_rows) for part in (row, row[2]))
        return sum(map(getsizeof, (self, *filter(None, tuples), *inner, *rows)))


Group = tuple[str | None, Checks, Callable[[], Selection]]
"""An attribute without which the checks cannot be true, the checks, and what returns the selection behind them."""


def collect_all(
    selections: Iterable[Selection], get: Get, pools: Pools, postponed: Postponed | None = None, number: int = 0
) -> None:
    """Add what is in any of these; see `Selection.collect_more`."""
    out = pools[SINGLE]
    for selection in selections:
        if selection.more:
            selection.collect_more(get, pools, postponed, number)
        selection.collect(get, out)


def holds(checks: Checks, get: Get) -> bool:
    """Say whether all checks are true."""
    for path, test, _ in checks:  # noqa: SIM110  (half the time of a generator)
        if not test(get(path)):
            return False
    return True


def conclude(get: Get, pools: Pools) -> None:
    """Check the candidates, and see to it that every id comes once."""
    out, repeated, candidates = pools
    for candidate in candidates:
        if holds(candidate.checks, get):
            (repeated if candidate.several else out).append(candidate.id)
    if not repeated:
        return
    if len(repeated) <= _FEW or repeated.__class__ is list:
        out.extend(dict.fromkeys(repeated))
        return
    ordered = np.array(repeated)
    ordered.sort()
    first = np.empty(len(ordered), bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    out.frombytes(ordered[first].tobytes())


def _place(leaf: ThresholdLeaf) -> tuple[str, bool]:
    return leaf.path, leaf.kind == "string"


def _laid_out(rows: dict[tuple[str, bool], list[Row]], by_size: bool = False) -> _Rows:
    if by_size:
        for each in rows.values():
            each.sort(key=_row_size)
        rows = dict(sorted(rows.items(), key=lambda item: _row_size(item[1][-1])))
    return tuple([(path, _TEXTS if of_texts else _NUMBERS, tuple(each)) for (path, of_texts), each in rows.items()])


def _row_size(row: Row) -> int:
    return len(row[4])


def lead_of(checks: Checks) -> str | None:
    """Return an attribute without which the checks cannot be true, or None if there is none."""
    return next((check.path for check in checks if not check.test(None)), None)


def _is_of_kind(value: object, types: frozenset[type]) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, str if types is _TEXTS else (int, float))
