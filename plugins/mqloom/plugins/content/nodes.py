"""A node: the leaves of all conjunctions that ask for the same keys."""

from collections.abc import Callable, Hashable, Sequence
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.entries import CHECKED, SINGLE, Candidate, LeafName, Mask
from mqloom.plugins.content.keys import Get, Signature
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.matches import Slot, Slots
from mqloom.plugins.content.planning import PLAIN, BoxLeaf, ThresholdLeaf
from mqloom.plugins.content.thresholds import Thresholds

LeafObject = Listed | Thresholds | Boxes

Found = tuple[list[Slots], list[Slot], list[Candidate]]
"""What comes out of the leaves, by bucket: pieces of slots, slots that may come several times, and candidates."""

_NUMBERS: Final = frozenset((int, float))
_TEXTS: Final = frozenset((str,))


_Row = tuple[int, Callable[[Any, Any], int], Any, bool, Any, Thresholds]
"""What a match needs of a leaf of thresholds: bucket, search, thresholds, tail, items; and the leaf."""


class Node:
    """Leaves by what they say and by bucket; besides, the same leaves as rows to run through."""

    __slots__ = ("_boxes", "_leaves", "_lists", "_plain", "_rows", "key", "signature")

    def __init__(self, signature: Signature, key: Hashable) -> None:
        self.signature = signature
        self.key = key
        self._leaves: dict[LeafName, LeafObject] = {}
        self._plain: Listed | None = None
        self._rows: list[tuple[str, frozenset[type], list[_Row]]] = []
        self._lists: list[tuple[str | None, bool, int, Listed]] = []
        self._boxes: list[tuple[int, Boxes]] = []

    def __bool__(self) -> bool:
        return bool(self._leaves)

    @property
    def has_many_boxes(self) -> bool:
        """Whether a batch gains by `collect_boxes`."""
        return any(boxes.are_many for _, boxes in self._boxes)

    def leaf(self, name: LeafName) -> LeafObject:
        """Return a leaf, made when first asked for."""
        found = self._leaves.get(name)
        return self._grow(name) if found is None else found

    def _grow(self, name: LeafName) -> LeafObject:
        leaf, bucket = name
        made: LeafObject
        if isinstance(leaf, ThresholdLeaf):
            made = Thresholds(name, leaf)
            rows = self._rows_of(leaf.path, _TEXTS if leaf.kind == "string" else _NUMBERS)
            rows.append((bucket, made.search, made.thresholds, made.tail, made.items, made))
        elif isinstance(leaf, BoxLeaf):
            made = Boxes(name, leaf.paths)
            self._boxes.append((bucket, made))
        else:
            made = Listed(name)
            if leaf == PLAIN and bucket == SINGLE:
                self._plain = made
            else:
                self._lists.append((leaf.path, leaf.present, bucket, made))
        self._leaves[name] = made
        return made

    def _rows_of(self, path: str, types: frozenset[type]) -> list[_Row]:
        for known_path, known_types, rows in self._rows:
            if known_path == path and known_types is types:
                return rows
        self._rows.append((path, types, []))
        return self._rows[-1][2]

    def drop(self, gone: LeafObject) -> None:
        """Forget a leaf that has become empty."""
        del self._leaves[gone.name]
        if gone is self._plain:
            self._plain = None
        for _, _, rows in self._rows:
            rows[:] = [row for row in rows if row[-1] is not gone]
        self._rows = [group for group in self._rows if group[2]]
        self._lists = [row for row in self._lists if row[-1] is not gone]
        self._boxes = [row for row in self._boxes if row[-1] is not gone]

    def collect(self, get: Get, found: Found, boxes: bool = True) -> None:
        """Add what matches; without `boxes`, leave them out."""
        pieces = found[0]
        if self._plain is not None:
            pieces.append(self._plain.items)
        for path, types, rows in self._rows:
            value = get(path)
            # NaN is not equal to itself.
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for bucket, search, thresholds, tail, items, _ in rows:
                    cut = search(thresholds, value)
                    if bucket:
                        found[bucket].extend(items[cut:] if tail else items[:cut])
                    else:
                        pieces.append(items[cut:] if tail else items[:cut])
        if self._lists:
            self._collect_lists(get, found)
        if boxes and self._boxes:
            for bucket, box in self._boxes:
                _put(found, bucket, box.match(get))

    def _collect_lists(self, get: Get, found: Found) -> None:
        for path, present, bucket, listed in self._lists:
            if path is None or (get(path) is not None) is present:
                _put(found, bucket, listed.items)

    def collect_boxes(self, gets: Sequence[Get], several: Sequence[Found]) -> None:
        """Add to each publication's matches those of the boxes."""
        for bucket, box in self._boxes:
            for found, items in zip(several, box.match_batch(gets), strict=True):
                _put(found, bucket, items)

    def reach(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        """Return `mask` with the destinations that match, as soon as it is `full`; candidates are for later."""
        if self._plain is not None:
            mask |= self._plain.mask()
            if mask == full:
                return mask
        for path, types, rows in self._rows:
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for bucket, search, thresholds, tail, items, leaf in rows:
                    if bucket == CHECKED:
                        cut = search(thresholds, value)
                        candidates += items[cut:] if tail else items[:cut]
                    else:
                        mask |= leaf.mask(value)
        if mask == full or not (self._lists or self._boxes):
            return mask
        return self._reach_others(get, mask, candidates)

    def _reach_others(self, get: Get, mask: Mask, candidates: list[Candidate]) -> Mask:
        for place, present, bucket, listed in self._lists:
            if place is None or (get(place) is not None) is present:
                if bucket == CHECKED:
                    candidates += listed.items
                else:
                    mask |= listed.mask()
        for bucket, box in self._boxes:
            if bucket == CHECKED:
                candidates += box.match(get)
            else:
                mask |= box.mask(get)
        return mask

    def leaves(self) -> list[LeafObject]:
        """Return all leaves."""
        return list(self._leaves.values())

    def size_bytes(self) -> int:
        """Return the memory it takes, with its leaves, without the ids."""
        lists = (self, self._leaves, self._lists, self._rows, self._boxes)
        rows = 120 * len(self._leaves)
        return sum(map(getsizeof, lists)) + rows + sum(leaf.size_bytes() for leaf in self._leaves.values())


def _put(found: Found, bucket: int, items: Any) -> None:
    if bucket == SINGLE:
        found[0].append(items)
    else:
        found[bucket].extend(items)


def _is_of_kind(value: object, types: frozenset[type]) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, str if types is _TEXTS else (int, float))
