"""A selection: the leaves that publications with the same values for keys can reach, laid out to be run through."""

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Any, Final

import numpy as np

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.bundles import Bundles
from mqloom.plugins.content.entries import CHECKED, NUMBERS, Candidate, Items, Mask
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

_TEXTS: Final = frozenset((str,))

_FEW: Final = 64
"""So many ids are made distinct without numpy."""


_Rows = tuple[tuple[str, frozenset[type], tuple[Row, ...]], ...]
"""Rows of leaves by attribute. A leaf has but one row: what selections share may stay in the processor's cache."""


_Lead = tuple[Row, str, frozenset[type]]
"""A row, and its attribute with the types that its values have."""


class Selection:
    """`first`, then if there is `more`, `collect_more`; then `collect`.

    What comes first is likely most of it, and is not copied again but when its container grows.
    """

    __slots__ = (
        "_boxes",
        "_empty",
        "_groups",
        "_joined",
        "_lead",
        "_listed",
        "_lists",
        "_other_rows",
        "_rows",
        "_tried",
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
        self._lead = _take_largest(rows)
        self._rows = _laid_out(rows)
        self._other_rows = _laid_out(other_rows)
        self._listed = tuple(listed)
        self._lists = tuple(lists)
        self._boxes = tuple(boxes)
        self._tried = tuple(tried)
        self._groups = tuple(groups)
        self._empty = empty
        self._joined = tuple([leaf.items for leaf in sorted(listed, key=len)])
        self.more = bool(lists or boxes or tried or groups or other_rows)
        others = listed or lists or tried or groups or self._lead or other_rows
        self.sole: Boxes | None = boxes[0][1] if not others and [bucket for bucket, _ in boxes] == [SINGLE] else None
        """The boxes, if there is nothing else: their answer is the whole answer."""

    def first(self, get: Get) -> Items:
        """Return the ids of the largest leaf of one bound, in a container of the caller's own."""
        if self._lead is not None:
            (_, search, thresholds, tail, items, _), path, types = self._lead
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                cut = search(thresholds, value)
                return items[cut:] if tail else items[:cut]
        return self._empty[:]

    def collect(self, get: Get, out: Items) -> None:
        """Add the ids of the other leaves of which each id comes once, and which need no more than a bound."""
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
            pool = pools[SINGLE]
            pool += tried.find(get)[0]
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
        if self._lead is not None:
            row, path, types = self._lead
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                mask |= row[-1].mask(value)
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
            mask |= tried.find(get)[1]
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
        return sum(map(getsizeof, (self, *filter(None, (self._lead, *tuples)), *inner, *rows)))


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
        first = selection.first(get)
        if first:
            out += first
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


def _laid_out(rows: dict[tuple[str, bool], list[Row]]) -> _Rows:
    return tuple([(path, _TEXTS if of_texts else NUMBERS, tuple(each)) for (path, of_texts), each in rows.items()])


def _take_largest(rows: dict[tuple[str, bool], list[Row]]) -> _Lead | None:
    """Take the largest row out of those by attribute."""
    if not rows:
        return None
    (path, of_texts), row = max(((place, row) for place, each in rows.items() for row in each), key=_row_size)
    rows[path, of_texts] = [each for each in rows[path, of_texts] if each is not row]
    if not rows[path, of_texts]:
        del rows[path, of_texts]
    return row, path, _TEXTS if of_texts else NUMBERS


def _row_size(placed: tuple[tuple[str, bool], Row]) -> int:
    return len(placed[1][4])


def lead_of(checks: Checks) -> str | None:
    """Return an attribute without which the checks cannot be true, or None if there is none."""
    return next((check.path for check in checks if not check.test(None)), None)


def _is_of_kind(value: object, types: frozenset[type]) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, str if types is _TEXTS else (int, float))
