"""The engine: subscriptions in, matches out."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from sys import getsizeof
from typing import Final, NamedTuple

from mqloom.core.filter import Filter, lookup
from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.entries import CHECKED, SEVERAL, SINGLE, Candidate, Entry, Mask, Place, Settling
from mqloom.plugins.content.keys import Get, Signature, finder
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.matches import Matches
from mqloom.plugins.content.nodes import Found, Node
from mqloom.plugins.content.planning import Plan, are_disjoint, drafts_of, paths_of, plan_of

Attributes = Mapping[str, object]

BATCH_MIN: Final = 8
"""In smaller batches, publications go one by one."""

SCANNED_TABLES_MAX: Final = 12
"""With more tables than that, only those are asked whose first attribute the publication has."""

TABLES_MAX: Final = 256
"""With more tables than that, new conjunctions are kept by one of their keys, and the others are checked."""

SETS_MAX: Final = 4096
"""So many sets of destinations are kept ready."""


class Table(NamedTuple):
    """All nodes of one signature by key, and the function that finds a publication's node."""

    nodes: dict[Hashable, Node]
    find: Callable[[Get], Node | None]


class Engine:
    """Filters by id. Exactly those match of which `Filter.matches` is true."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, Entry] = {}
        self._root = Node()
        self._tables: dict[Signature, Table] = {}
        self._finds: list[Callable[[Get], Node | None]] = []
        self._finds_by_path: dict[str, list[Callable[[Get], Node | None]]] = {}
        self._unsettled: dict[Settling, None] = {}
        self._nested: dict[str, dict[str, int]] = {}
        self._next_number = 0
        self._bits: dict[Hashable, Mask] = {}
        self._uses: dict[Mask, int] = {}
        self._full: Mask = 0
        self._sets: dict[Mask, frozenset[Hashable]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._entries

    def add(self, id: Hashable, filter: Filter, destination: Hashable | None = None) -> None:  # noqa: A002  (as callers say it)
        """Take a subscription in; with a destination, `destinations` tells about it. Raises KeyError on a known id."""
        if id in self._entries:
            raise KeyError(id)
        entry = Entry(id, 0 if destination is None else self._use_bit(destination), self._next_number)
        self._next_number += 1
        self._entries[id] = entry
        drafts = drafts_of(filter)
        several = len(drafts) > 1 and not are_disjoint(drafts)
        places: list[Place] = []
        for draft in drafts:
            plan = plan_of(draft)
            if len(self._tables) >= TABLES_MAX and plan.signature not in self._tables:
                plan = plan_of(draft, parts_max=1)
            places += self._keep(entry, plan, several)
        entry.places = tuple(places)
        entry.conjunctions = len(drafts)
        entry.nested = tuple({path for path in paths_of(filter) if "." in path})
        for path in entry.nested:
            self._use_nested(path, 1)

    def _keep(self, entry: Entry, plan: Plan, several: bool) -> list[Place]:
        bucket = CHECKED if plan.checks else SEVERAL if several else SINGLE
        item: Hashable = Candidate(entry, plan.checks, several) if plan.checks else entry.id
        places = []
        for key in plan.keys:
            node = self._node(plan.signature, key)
            for leaf, argument in plan.leaves:
                made = node.leaf(leaf, bucket)
                kept = made.add(entry, item, argument)
                places.append(Place(plan.signature, key, leaf, bucket, argument if kept is None else kept))
                self._unsettled[made] = None
        return places

    def remove(self, id: Hashable) -> None:  # noqa: A002  (as above)
        """Forget a subscription. Raises KeyError on an unknown id."""
        entry = self._entries.pop(id)
        for signature, key, leaf, bucket, argument in entry.places:
            node = self._tables[signature].nodes[key] if signature else self._root
            made = node.leaf(leaf, bucket)
            made.remove(entry, argument)
            if made:
                self._unsettled[made] = None
            else:
                self._unsettled.pop(made, None)
                node.drop(leaf, bucket)
                if not node and signature:
                    self._prune(signature, key)
        for path in entry.nested:
            self._use_nested(path, -1)
        if entry.bit:
            self._free_bit(entry.bit)

    def _node(self, signature: Signature, key: Hashable) -> Node:
        if not signature:
            return self._root
        table = self._tables.get(signature)
        if table is None:
            nodes: dict[Hashable, Node] = {}
            table = self._tables[signature] = Table(nodes, finder(signature, nodes.get))
            self._arrange()
        node = table.nodes.get(key)
        if node is None:
            node = table.nodes[key] = Node()
        return node

    def _prune(self, signature: Signature, key: Hashable) -> None:
        nodes = self._tables[signature].nodes
        del nodes[key]
        if not nodes:
            del self._tables[signature]
            self._arrange()

    def _arrange(self) -> None:
        """Lay out which tables are asked: all of them, or by the attribute that they need first."""
        self._finds = [table.find for table in self._tables.values()]
        self._finds_by_path = {}
        if len(self._tables) > SCANNED_TABLES_MAX:
            self._finds = []
            for signature, table in self._tables.items():
                self._finds_by_path.setdefault(signature[0][0], []).append(table.find)

    def match(self, attributes: Attributes) -> Matches:
        """Return the ids of all filters that match."""
        if self._unsettled:
            self._settle()
        values = self._flat(attributes) if self._nested else attributes
        found = Found()
        self._collect(values, found)
        return self._result(values.get, found)

    def match_batch(self, batch: Sequence[Attributes]) -> list[Matches]:
        """Return the same as `match` for each; for filters of several ranges it takes less time."""
        if len(batch) < BATCH_MIN or not self._root.has_boxes:
            return [self.match(attributes) for attributes in batch]
        if self._unsettled:
            self._settle()
        flat = [self._flat(attributes) if self._nested else attributes for attributes in batch]
        several = [Found() for _ in flat]
        for values, found in zip(flat, several, strict=True):
            self._collect(values, found, boxes=False)
        self._root.collect_boxes([values.get for values in flat], several)
        return [self._result(values.get, found) for values, found in zip(flat, several, strict=True)]

    def _collect(self, values: Attributes, found: Found, boxes: bool = True) -> None:
        get = values.get
        self._root.collect(get, found, boxes)
        for find in self._finds:
            node = find(get)
            if node is not None:
                node.collect(get, found)
        if self._finds_by_path:
            for path in values:
                for find in self._finds_by_path.get(path, ()):
                    node = find(get)
                    if node is not None:
                        node.collect(get, found)

    def _result(self, get: Get, found: Found) -> Matches:
        if found.several or found.candidates:
            several, singles = set(found.several), []
            for candidate in found.candidates:
                if candidate.id in several:
                    continue
                for path, test in candidate.checks:
                    if not test(get(path)):
                        break
                else:
                    if candidate.several:
                        several.add(candidate.id)
                    else:
                        singles.append(candidate.id)
            found.pieces.append(list(several))
            found.pieces.append(singles)
        return Matches(found.pieces)

    def destinations(self, attributes: Attributes) -> frozenset[Hashable]:
        """Return the destinations with a filter that matches."""
        if self._unsettled:
            self._settle()
        values = self._flat(attributes) if self._nested else attributes
        mask = self._reach(values)
        known = self._sets.get(mask)
        return self._set_of(mask) if known is None else known

    def destinations_batch(self, batch: Sequence[Attributes]) -> list[frozenset[Hashable]]:
        """Return the same as `destinations` for each."""
        return [self.destinations(attributes) for attributes in batch]

    def _reach(self, values: Attributes) -> Mask:
        get, full = values.get, self._full
        candidates: list[Candidate] = []
        mask = self._root.reach(get, 0, full, candidates)
        for find in self._asked(values):
            if mask == full:
                return mask
            node = find(get)
            if node is not None:
                mask = node.reach(get, mask, full, candidates)
        for candidate in candidates:
            if mask | candidate.bit != mask and all(test(get(path)) for path, test in candidate.checks):
                mask |= candidate.bit
        return mask

    def _asked(self, values: Attributes) -> list[Callable[[Get], Node | None]]:
        if not self._finds_by_path:
            return self._finds
        return [find for path in values for find in self._finds_by_path.get(path, ())]

    def _set_of(self, mask: Mask) -> frozenset[Hashable]:
        if len(self._sets) >= SETS_MAX:
            self._sets.clear()
        found = self._sets[mask] = frozenset(name for name, bit in self._bits.items() if bit & mask)
        return found

    def _settle(self) -> None:
        for leaf in self._unsettled:
            leaf.settle()
        self._unsettled.clear()

    def _flat(self, attributes: Attributes) -> Attributes:
        """Return the attributes with those that filters reach through dots."""
        found: dict[str, object] | None = None
        for head, paths in self._nested.items():
            if isinstance(attributes.get(head), Mapping):
                for path in paths:
                    if path not in attributes:
                        found = dict(attributes) if found is None else found
                        found[path] = lookup(attributes, path)
        return attributes if found is None else found

    def _use_nested(self, path: str, count: int) -> None:
        paths = self._nested.setdefault(path.partition(".")[0], {})
        paths[path] = paths.get(path, 0) + count
        if not paths[path]:
            del paths[path]
            if not paths:
                del self._nested[path.partition(".")[0]]

    def _use_bit(self, destination: Hashable) -> Mask:
        bit = self._bits.get(destination)
        if bit is None:
            bit = ~self._full & (self._full + 1)
            self._bits[destination] = bit
            self._full |= bit
            self._uses[bit] = 0
            self._sets.clear()
        self._uses[bit] += 1
        return bit

    def _free_bit(self, bit: Mask) -> None:
        self._uses[bit] -= 1
        if not self._uses[bit]:
            del self._uses[bit], self._bits[next(name for name, known in self._bits.items() if known == bit)]
            self._full &= ~bit
            self._sets.clear()

    def stats(self) -> dict[str, int]:
        """Return what the engine holds, and an estimate of its memory in bytes, without the ids themselves."""
        counts = dict.fromkeys(("lists", "thresholds", "boxes", "in_lists", "in_thresholds", "in_boxes"), 0)
        nodes = [self._root, *(node for table in self._tables.values() for node in table.nodes.values())]
        tombstones = size = 0
        for node in nodes:
            size += node.size_bytes()
            for leaf in node.leaves():
                name = "lists" if isinstance(leaf, Listed) else "boxes" if isinstance(leaf, Boxes) else "thresholds"
                counts[name] += 1
                counts[f"in_{name}"] += len(leaf)
                tombstones += leaf.dead if isinstance(leaf, Boxes) else 0
        size += getsizeof(self._entries) + sum(map(getsizeof, (table.nodes for table in self._tables.values())))
        size += sum(map(_entry_bytes, self._entries.values()))
        return {
            "subscriptions": len(self._entries),
            "conjunctions": sum(entry.conjunctions for entry in self._entries.values()),
            "tables": len(self._tables),
            "nodes": len(nodes),
            **counts,
            "tombstones": tombstones,
            "bytes": size,
        }


def _entry_bytes(entry: Entry) -> int:
    places = getsizeof(entry.places) + sum(map(getsizeof, entry.places))
    return getsizeof(entry) + 16 + getsizeof(entry.number) + places + (getsizeof(entry.nested) if entry.nested else 0)
