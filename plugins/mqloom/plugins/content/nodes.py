"""A node: the leaves of all conjunctions that ask for the same keys."""

from collections.abc import Hashable, Sequence
from sys import getsizeof
from typing import Final

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.entries import CHECKED, SEVERAL, SINGLE, Candidate, Mask
from mqloom.plugins.content.keys import Get
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.planning import PLAIN, BoxLeaf, Leaf, ThresholdLeaf
from mqloom.plugins.content.thresholds import Thresholds

LeafObject = Listed | Thresholds | Boxes

_NUMBERS: Final = frozenset((int, float))
_TEXTS: Final = frozenset((str,))


class Found:
    """What comes out of the leaves: pieces of ids, ids that may come several times, and candidates."""

    __slots__ = ("candidates", "pieces", "several")

    def __init__(self) -> None:
        self.pieces: list[Sequence[Hashable]] = []
        self.several: list[Hashable] = []
        self.candidates: list[Candidate] = []

    def add(self, items: Sequence[Hashable], bucket: int) -> None:
        """Take in items of a bucket."""
        if bucket == SINGLE:
            self.pieces.append(items)
        elif bucket == SEVERAL:
            self.several += items
        else:
            self.candidates += items  # type: ignore[arg-type]  # what a leaf of this bucket holds


class Node:
    """Leaves by what they say and by bucket; besides, the same leaves as rows to run through."""

    __slots__ = ("_boxes", "_leaves", "_lists", "_plain", "_thresholds")

    def __init__(self) -> None:
        self._leaves: dict[tuple[Leaf, int], LeafObject] = {}
        self._plain: Listed | None = None
        self._lists: list[tuple[str | None, bool, Listed, int]] = []
        self._thresholds: list[tuple[str, frozenset[type], bool, Thresholds, int]] = []
        self._boxes: list[tuple[Boxes, int]] = []

    def __bool__(self) -> bool:
        return bool(self._leaves)

    @property
    def has_boxes(self) -> bool:
        """Whether a batch gains by `collect_boxes`."""
        return bool(self._boxes)

    def leaf(self, leaf: Leaf, bucket: int) -> LeafObject:
        """Return a leaf, made when first asked for."""
        found = self._leaves.get((leaf, bucket))
        return self._grow(leaf, bucket) if found is None else found

    def _grow(self, leaf: Leaf, bucket: int) -> LeafObject:
        made: LeafObject
        if isinstance(leaf, ThresholdLeaf):
            made = Thresholds(leaf.operator)
            self._thresholds.append((leaf.path, _TEXTS if leaf.textual else _NUMBERS, leaf.textual, made, bucket))
        elif isinstance(leaf, BoxLeaf):
            made = Boxes(leaf.paths)
            self._boxes.append((made, bucket))
        else:
            made = Listed()
            if leaf == PLAIN and bucket == SINGLE:
                self._plain = made
            else:
                self._lists.append((leaf.path, leaf.present, made, bucket))
        self._leaves[leaf, bucket] = made
        return made

    def drop(self, leaf: Leaf, bucket: int) -> None:
        """Forget a leaf that has become empty."""
        gone = self._leaves.pop((leaf, bucket))
        if gone is self._plain:
            self._plain = None
        self._lists = [row for row in self._lists if row[2] is not gone]
        self._thresholds = [row for row in self._thresholds if row[3] is not gone]
        self._boxes = [row for row in self._boxes if row[0] is not gone]

    def collect(self, get: Get, found: Found, boxes: bool = True) -> None:
        """Add what matches; without `boxes`, leave them out."""
        if self._plain is not None:
            found.pieces.append(self._plain.items)
        for path, types, textual, leaf, bucket in self._thresholds:
            value = get(path)
            # NaN is not equal to itself.
            if (value.__class__ in types or _is_of_kind(value, textual)) and value == value:  # noqa: PLR0124
                cut = leaf.search(leaf.thresholds, value)
                items = leaf.items[cut:] if leaf.tail else leaf.items[:cut]
                if bucket == SINGLE:
                    found.pieces.append(items)
                else:
                    found.add(items, bucket)
        if self._lists:
            for place, present, listed, bucket in self._lists:
                if place is None or (get(place) is not None) is present:
                    found.add(listed.items, bucket)
        if boxes and self._boxes:
            for box, bucket in self._boxes:
                found.add(box.match(get), bucket)

    def collect_boxes(self, gets: Sequence[Get], several: Sequence[Found]) -> None:
        """Add to each publication's matches those of the boxes."""
        for box, bucket in self._boxes:
            for found, items in zip(several, box.match_batch(gets), strict=True):
                found.add(items, bucket)

    def reach(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        """Return `mask` with the destinations that match, as soon as it is `full`; candidates are for later."""
        if self._plain is not None:
            mask |= self._plain.mask()
        for path, types, textual, leaf, bucket in self._thresholds:
            if mask == full:
                return mask
            value = get(path)
            if (value.__class__ in types or _is_of_kind(value, textual)) and value == value:  # noqa: PLR0124
                if bucket != CHECKED:
                    mask |= leaf.mask(value)
                else:
                    cut = leaf.search(leaf.thresholds, value)
                    candidates += leaf.items[cut:] if leaf.tail else leaf.items[:cut]  # type: ignore[arg-type]  # as above
        for place, present, listed, bucket in self._lists:
            if place is None or (get(place) is not None) is present:
                if bucket == CHECKED:
                    candidates += listed.items  # type: ignore[arg-type]  # as above
                else:
                    mask |= listed.mask()
        for box, bucket in self._boxes:
            if mask == full:
                return mask
            if bucket == CHECKED:
                candidates += box.match(get)  # type: ignore[arg-type]  # as above
            else:
                mask |= box.mask(get)
        return mask

    def leaves(self) -> list[LeafObject]:
        """Return all leaves."""
        return list(self._leaves.values())

    def size_bytes(self) -> int:
        """Return the memory it takes, with its leaves, without the ids."""
        lists = (self, self._leaves, self._lists, self._thresholds, self._boxes)
        rows = 96 * len(self._leaves)
        return sum(map(getsizeof, lists)) + rows + sum(leaf.size_bytes() for leaf in self._leaves.values())


def _is_of_kind(value: object, textual: bool) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if textual:
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)
