"""A node: the leaves of all conjunctions that ask for the same keys."""

from collections.abc import Callable, Hashable, Sequence
from sys import getsizeof
from typing import Any, Final

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.entries import CHECKED, SINGLE, Candidate, LeafName, Mask
from mqloom.plugins.content.keys import Get, Signature
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.matches import Slots
from mqloom.plugins.content.planning import PLAIN, BoxLeaf, Checks, ThresholdLeaf
from mqloom.plugins.content.thresholds import Thresholds

LeafObject = Listed | Thresholds | Boxes

Found = tuple[list[Slots], list[Slots], list[Candidate]]
"""What comes out of the leaves, by bucket: pieces of slots, such that may repeat each other, and candidates."""

_NUMBERS: Final = frozenset((int, float))
_TEXTS: Final = frozenset((str,))


_Row = tuple[int, Callable[[Any, Any], int], Any, bool, Any, Thresholds]
"""What a match needs of a leaf of thresholds: bucket, search, thresholds, tail, items; and the leaf."""


class Node:
    """Leaves by what they say and by bucket; besides, the same leaves as rows to run through."""

    __slots__ = ("_boxes", "_groups", "_leaves", "_lists", "_plain", "_rows", "key", "parent", "signature")

    def __init__(self, signature: Signature, key: Hashable, parent: "Node | None" = None) -> None:
        self.signature = signature
        self.key = key
        self.parent = parent
        self._leaves: dict[LeafName, LeafObject] = {}
        self._plain: Listed | None = None
        self._rows: list[tuple[str, frozenset[type], list[_Row]]] = []
        self._lists: list[tuple[str | None, bool, int, Listed]] = []
        self._boxes: list[tuple[int, Boxes]] = []
        self._groups: dict[str | None, dict[Checks, Node]] = {}

    def __bool__(self) -> bool:
        return bool(self._leaves or self._groups)

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

    def group(self, checks: Checks) -> "Node":
        """Return the node for those that have these checks in common, made when first asked for."""
        groups = self._groups.setdefault(_lead(checks), {})
        found = groups.get(checks)
        if found is None:
            found = groups[checks] = Node(self.signature, checks, self)
        return found

    def drop_group(self, checks: Checks) -> None:
        """Forget a group that has become empty."""
        lead = _lead(checks)
        del self._groups[lead][checks]
        if not self._groups[lead]:
            del self._groups[lead]

    def _open_groups(self, get: Get) -> "list[Node]":
        """Return the groups of which all checks are true."""
        return [
            node
            for lead, groups in self._groups.items()
            if lead is None or get(lead) is not None
            for checks, node in groups.items()
            if all([test(get(path)) for path, test in checks])  # noqa: C419  (half the time of a generator)
        ]

    def collect(self, get: Get, found: Found, boxes: bool = True) -> None:
        """Add what matches; without `boxes`, leave them out."""
        if self._plain is not None:
            found[0].append(self._plain.items)
        for path, types, rows in self._rows:
            value = get(path)
            # NaN is not equal to itself.
            if (value.__class__ in types or _is_of_kind(value, types)) and value == value:  # noqa: PLR0124
                for bucket, search, thresholds, tail, items, _ in rows:
                    cut = search(thresholds, value)
                    if bucket == CHECKED:
                        found[2].extend(items[cut:] if tail else items[:cut])
                    else:
                        found[bucket].append(items[cut:] if tail else items[:cut])
        if self._lists or self._groups or (boxes and self._boxes):
            self._collect_others(get, found, boxes)

    def _collect_others(self, get: Get, found: Found, boxes: bool) -> None:
        for path, present, bucket, listed in self._lists:
            if path is None or (get(path) is not None) is present:
                _put(found, bucket, listed.items)
        if boxes:
            for bucket, box in self._boxes:
                _put(found, bucket, box.match(get))
        if self._groups:
            for node in self._open_groups(get):
                node.collect(get, found)

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
                        candidates.extend(items[cut:] if tail else items[:cut])
                    else:
                        mask |= leaf.mask(value)
        if mask == full or not (self._lists or self._boxes or self._groups):
            return mask
        return self._reach_others(get, mask, full, candidates)

    def _reach_others(self, get: Get, mask: Mask, full: Mask, candidates: list[Candidate]) -> Mask:
        for place, present, bucket, listed in self._lists:
            if place is None or (get(place) is not None) is present:
                if bucket == CHECKED:
                    candidates.extend(listed.items)
                else:
                    mask |= listed.mask()
        for bucket, box in self._boxes:
            if bucket == CHECKED:
                candidates.extend(box.match(get))
            else:
                mask |= box.mask(get)
        if self._groups:
            for node in self._open_groups(get):
                mask = node.reach(get, mask, full, candidates)
        return mask

    def leaves(self) -> list[LeafObject]:
        """Return all leaves."""
        groups = [leaf for groups in self._groups.values() for node in groups.values() for leaf in node.leaves()]
        return [*self._leaves.values(), *groups]

    def size_bytes(self) -> int:
        """Return the memory it takes, with its leaves, without the ids."""
        lists = (self, self._leaves, self._lists, self._rows, self._boxes, self._groups)
        rows = 120 * len(self._leaves)
        groups = sum(
            getsizeof(groups) + sum(node.size_bytes() for node in groups.values()) for groups in self._groups.values()
        )
        return sum(map(getsizeof, lists)) + rows + groups + sum(leaf.size_bytes() for leaf in self._leaves.values())


def _lead(checks: Checks) -> str | None:
    """Return an attribute without which the checks cannot be true, or None if there is none."""
    return next((path for path, test in checks if not test(None)), None)


def _put(found: Found, bucket: int, items: Any) -> None:
    if bucket == CHECKED:
        found[2].extend(items)
    else:
        found[bucket].append(items)


def _is_of_kind(value: object, types: frozenset[type]) -> bool:
    """Say the same of values of types that nobody expects, such as an IntEnum."""
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, str if types is _TEXTS else (int, float))
