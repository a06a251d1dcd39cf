"""A selection: the leaves that publications with the same values for keys can reach, laid out to be run through."""

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Any, Final

import numpy as np

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.bundles import Bundle, Bundles
from mqloom.plugins.content.cases import CasePlace, Cases, collect_cases
from mqloom.plugins.content.entries import CHECKED, NUMBERS, Candidate, Items, Mask
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.planning import SINGLE, Checks, ThresholdLeaf
from mqloom.plugins.content.thresholds import Thresholds
from mqloom.plugins.content.tried import Tried, TriedRow, collect_tried

LeafObject = Listed | Thresholds | Boxes | Tried | Cases

Pools = tuple[Items, Items, list[Candidate]]
"""What comes out of the leaves, by bucket: ids, such that may repeat each other, and candidates."""

Postponed = dict[Boxes, list[int]]
"""Boxes that wait for a whole batch, and the numbers of the publications that ask them."""

_TEXTS: Final = frozenset((str,))

_EXACT_MAX: Final = 2**53
"""Up to here every integer is a double."""

_FEW: Final = 64
"""So many ids are made distinct without numpy."""


_Search = tuple[Callable[[Any, Any], int], Any, bool, Items]
"""How a value is searched: search, thresholds, tail, items."""

_Row = tuple[str, frozenset[type], _Search, Thresholds | Bundle]
"""What a match needs of a leaf: attribute, types of its values, and how they are searched; and the leaf."""

_ByValue = tuple[str, frozenset[type], tuple[_Search, ...]]
"""An attribute, the types of its values, and all that is searched for its value."""

_TriedPlace = tuple[int, int, list[TriedRow]]
"""Which of the attributes have the values for a leaf that tries, and its row."""


class Selection:
    """`collect`, then if there is `more`, `collect_more`.

    The largest leaf comes first: what it gives is not copied again but when its container grows.
    """

    __slots__ = (
        "_all_rows",
        "_boxes",
        "_by_value",
        "_case_rows",
        "_cases",
        "_empty",
        "_groups",
        "_joined",
        "_joined_by_presence",
        "_listed",
        "_lists",
        "_other_rows",
        "_present",
        "_tried",
        "_tried_rows",
        "more",
        "sole",
    )

    def __init__(
        self, leaves: Iterable[LeafObject], groups: "list[Group]", empty: Items, bundles: Bundles | None = None
    ) -> None:
        listed: list[Listed] = []
        present: dict[str, tuple[list[Listed], list[Listed]]] = {}
        lists: list[tuple[str | None, bool, int, Listed]] = []
        boxes: list[tuple[int, Boxes]] = []
        tried: list[Tried] = []
        cases: list[Cases] = []
        other_rows: list[tuple[int, _Row]] = []
        alike: dict[Any, list[Thresholds]] = {}
        for leaf in leaves:
            name: Any
            name, bucket = leaf.name
            if isinstance(leaf, Thresholds):
                if bucket == SINGLE:
                    alike.setdefault(name, []).append(leaf)
                else:
                    other_rows.append((bucket, _row(name, leaf)))
            elif isinstance(leaf, Boxes):
                boxes.append((bucket, leaf))
            elif isinstance(leaf, Tried):
                tried.append(leaf)
            elif isinstance(leaf, Cases):
                cases.append(leaf)
            elif name.path is None and bucket == SINGLE:
                listed.append(leaf)
            elif bucket == SINGLE:
                present.setdefault(name.path, ([], []))[name.present].append(leaf)
            else:
                lists.append((name.path, name.present, bucket, leaf))
        rows = [
            _row(name, leaf)
            for name, several in alike.items()
            for leaf in (several if bundles is None else bundles.join(several))
        ]
        rows.sort(key=_row_size, reverse=True)
        self._all_rows = tuple(rows)
        share: Callable[[Iterable[Any]], Any] = tuple if bundles is None else bundles.share
        by_value, tried_rows, case_rows = _by_value(rows, tried, cases)
        self._by_value: tuple[_ByValue, ...] = tuple(
            [share((path, types, share(some))) for path, types, some in by_value]
        )
        self._tried_rows = share([share(place) for place in tried_rows])
        self._case_rows = share([share(place) for place in case_rows])
        self._other_rows = tuple(other_rows)
        self._listed: tuple[Listed, ...] = share(listed)
        self._present: tuple[tuple[str, tuple[Listed, ...], tuple[Listed, ...]], ...] = share(
            [share((path, share(no), share(yes))) for path, (no, yes) in present.items()]
        )
        self._lists = tuple(lists)
        self._boxes = tuple(boxes)
        self._tried: tuple[Tried, ...] = share(tried)
        self._cases: tuple[Cases, ...] = share(cases)
        self._groups = tuple(groups)
        self._empty = empty
        self._joined = share([leaf.items for leaf in sorted(listed, key=len)])
        self._joined_by_presence: tuple[tuple[str, tuple[Items, ...], tuple[Items, ...]], ...] = share(
            [share((path, *(share([leaf.items for leaf in each]) for each in lists))) for path, *lists in self._present]
        )
        self.more = bool(lists or boxes or groups or other_rows)
        others = listed or present or lists or tried or cases or groups or rows or other_rows
        self.sole: Boxes | None = boxes[0][1] if not others and [bucket for bucket, _ in boxes] == [SINGLE] else None
        """The boxes, if there is nothing else: their answer is the whole answer."""

    def collect(self, get: Get) -> Items:  # noqa: C901, PLR0912  (a call takes as long as a leaf)
        """Return the ids of the leaves of which each id comes once, but for boxes and groups: the caller's own."""
        out: Items = None
        values: list[Any] = []
        for path, types, rows in self._by_value:
            value: Any = get(path)
            if value.__class__ is int and types is NUMBERS:
                if -_EXACT_MAX <= value <= _EXACT_MAX:
                    value = float(value)  # it is compared with doubles: that takes less time if it is one, too
            elif not (value.__class__ in types or _is_of_kind(value, types)) or value != value:  # noqa: PLR0124  (NaN)
                values.append(None)
                continue
            values.append(value)
            for search, thresholds, tail, items in rows:
                cut = search(thresholds, value)
                if out is None:
                    out = items[cut:] if tail else items[:cut]
                else:
                    out += items[cut:] if tail else items[:cut]
        if out is None:
            out = self._empty[:]
        if self._tried_rows:
            collect_tried(self._tried_rows, values, out)
        if self._case_rows:
            collect_cases(self._case_rows, get, values, out)
        for items in self._joined:
            out += items
        for path, without, with_it in self._joined_by_presence:
            for items in without if get(path) is None else with_it:
                out += items
        return out

    def collect_more(self, get: Get, pools: Pools, postponed: Postponed | None = None, number: int = 0) -> None:
        """Add what is in the other leaves; if asked to, postpone those of many boxes for publication `number`."""
        for bucket, (path, types, (search, thresholds, tail, items), _) in self._other_rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                cut = search(thresholds, value)
                pool = pools[bucket]
                pool += items[cut:] if tail else items[:cut]
        for place, present, bucket, listed in self._lists:
            if place is None or (get(place) is not None) is present:
                pool = pools[bucket]
                pool += listed.items
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
        for plain in self._listed:
            mask |= plain.mask()
            if mask == full:
                return mask
        for path, types, _, leaf in self._all_rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                mask |= leaf.mask(value)
        for tried in self._tried:
            mask |= tried.mask(get)
        for cases in self._cases:
            mask |= cases.mask(get)
        for path, without, with_it in self._present:
            for listed in without if get(path) is None else with_it:
                mask |= listed.mask()
        return self._reach_more(get, mask, full, candidates) if self.more and mask != full else mask

    def _reach_more(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        for bucket, (path, types, (search, thresholds, tail, items), leaf) in self._other_rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
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
        """Return the memory it takes, without the leaves, and without what it shares with others."""
        tuples = (self._all_rows, self._by_value, self._other_rows, self._lists, self._boxes, self._groups)
        inner = (each for several in (self._other_rows, self._lists, self._boxes, self._groups) for each in several)
        return sum(map(getsizeof, (self, *filter(None, tuples), *inner)))


Group = tuple[str | None, Checks, Callable[[], Selection]]
"""An attribute without which the checks cannot be true, the checks, and what returns the selection behind them."""


def collect_all(
    selections: Iterable[Selection], get: Get, pools: Pools, postponed: Postponed | None = None, number: int = 0
) -> None:
    """Add what is in any of these; see `Selection.collect_more`."""
    out = pools[SINGLE]
    for selection in selections:
        out += selection.collect(get)
        if selection.more:
            selection.collect_more(get, pools, postponed, number)


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


def _row(name: ThresholdLeaf, leaf: Thresholds | Bundle) -> _Row:
    if leaf.row is None:
        types = _TEXTS if name.kind == "string" else NUMBERS
        leaf.row = name.path, types, (leaf.search, leaf.thresholds, leaf.tail, leaf.items), leaf
    row: _Row = leaf.row
    return row


def _by_value(
    rows: Iterable[_Row], tried: Iterable[Tried], cases: Iterable[Cases]
) -> tuple[list[_ByValue], list[_TriedPlace], list[CasePlace]]:
    """Return the rows by the value that they ask for, the first row first; and where leaves find theirs."""
    places: dict[tuple[str, frozenset[type]], tuple[int, list[_Search]]] = {}

    def place_of(path: str) -> int:
        return places.setdefault((path, NUMBERS), (len(places), []))[0]

    for path, types, search, _ in rows:
        places.setdefault((path, types), (len(places), []))[1].append(search)
    tried_rows = []
    for leaf in tried:
        one, two = map(place_of, leaf.paths)
        tried_rows.append((one, two, leaf.row))
    case_rows: list[CasePlace] = [
        (each.path, place_of(each.bound_path) if each.bound_path else None, each.row) for each in cases
    ]
    by_value = [(path, types, tuple(searches)) for (path, types), (_, searches) in places.items()]
    return by_value, tried_rows, case_rows


def _row_size(row: _Row) -> int:
    return len(row[2][3])


def lead_of(checks: Checks) -> str | None:
    """Return an attribute without which the checks cannot be true, or None if there is none."""
    return next((check.path for check in checks if not check.test(None)), None)


def _is_of_kind(value: object, types: frozenset[type]) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, str if types is _TEXTS else (int, float))
