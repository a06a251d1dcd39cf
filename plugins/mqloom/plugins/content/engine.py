"""The engine: subscriptions in, matches out."""

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from sys import getsizeof
from typing import Any, Final, NamedTuple, cast

from mqloom.core.filter import Filter, lookup
from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.entries import CHECKED, SEVERAL, SINGLE, Candidate, Entry, Item, LeafName, Mask, Settling
from mqloom.plugins.content.keys import Get, Signature, finder
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.matches import SLOT_CODE, Ids, Matches, Slot, distinct
from mqloom.plugins.content.nodes import Found, LeafObject, Node
from mqloom.plugins.content.planning import (
    Checks,
    Draft,
    Plan,
    are_disjoint,
    drafts_of,
    paths_of,
    plan_of,
    plan_quickly,
)

Attributes = Mapping[str, object]
Find = Callable[[Get], Node | None]
Place = tuple[Node, LeafObject, Any]
"""Where a conjunction is kept: the node, the leaf in it, and what the leaf needs to find it."""

BATCH_MIN: Final = 8
"""In smaller batches, publications go one by one."""

SCANNED_TABLES_MAX: Final = 12
"""With more tables than that, only those are asked whose first attribute the publication has."""

TABLES_MAX: Final = 256
"""With more tables than that, new conjunctions are kept by one of their keys, and the others are checked."""

POPULAR_MIN: Final = 8
"""When more filters than that have had the same checks, they share a group."""

POPULARITIES_MAX: Final = 4096
"""Of so many different checks it is known how many filters had them."""

SHRINK_MIN: Final = 1024
SHRINK_SHARE: Final = 4
"""When of so many subscriptions one is left, memory is given back, if they were many enough."""

SETS_MAX: Final = 4096
"""So many sets of destinations are kept ready."""


class Table(NamedTuple):
    """All nodes of one signature by key, and the function that finds a publication's node."""

    signature: Signature
    nodes: dict[Hashable, Node]
    find: Find


class Engine:
    """Filters by id. Exactly those match of which `Filter.matches` is true."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, Entry] = {}
        self._ids = Ids()
        self._root = Node((), ())
        self._tables: dict[Signature, Table] = {}
        self._finds: list[Find] = []
        self._finds_by_path: dict[str, list[Find]] = {}
        self._arrange()
        self._unsettled: dict[Settling, None] = {}
        self._nested: dict[str, dict[str, int]] = {}
        self._next_number = 0
        self._most = SHRINK_MIN
        self._bits: dict[Hashable, Mask] = {}
        self._uses: dict[Mask, int] = {}
        self._full: Mask = 0
        self._sets: dict[Mask, frozenset[Hashable]] = {}
        self._popularity: dict[Checks, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._entries

    def add(self, id: Hashable, filter: Filter, destination: Hashable | None = None) -> None:  # noqa: A002  (as callers say it)
        """Take a subscription in; with a destination, `destinations` tells about it. Raises KeyError on a known id."""
        if id in self._entries:
            raise KeyError(id)
        quick = plan_quickly(filter)
        if quick is not None and len(self._tables) >= TABLES_MAX and quick[0] not in self._tables:
            quick = None
        drafts = drafts_of(filter) if quick is None else []
        entry = Entry(self._ids.take(id), 0 if destination is None else self._use_bit(destination), self._next_number)
        self._next_number += 1
        self._entries[id] = entry
        self._most = max(self._most, len(self._entries))
        if quick is not None:
            signature, key, name, argument = quick
            entry.places = (self._put(self._node(signature, key), (name, SINGLE), entry, entry.slot, argument),)
            entry.conjunctions = 1
            return
        self._keep_all(entry, drafts)
        entry.nested = tuple({path for path in paths_of(filter) if "." in path})
        for path in entry.nested:
            self._use_nested(path, 1)

    def _keep_all(self, entry: Entry, drafts: list[Draft]) -> None:
        several = len(drafts) > 1 and not are_disjoint(drafts)
        places: list[Place] = []
        for draft in drafts:
            plan = plan_of(draft)
            if len(self._tables) >= TABLES_MAX and plan.signature not in self._tables:
                plan = plan_of(draft, parts_max=1)
            places += self._keep(entry, plan, several)
        entry.places = tuple(places)
        entry.conjunctions = len(drafts)

    def _keep(self, entry: Entry, plan: Plan, several: bool) -> list[Place]:
        bucket = SEVERAL if several else SINGLE
        item: Item = entry.slot
        grouped = bool(plan.checks) and self._is_popular(plan.checks)
        if plan.checks and not grouped:
            bucket = CHECKED
            item = Candidate(entry, plan.checks, several)
        places: list[Place] = []
        for key in plan.keys:
            node = self._node(plan.signature, key)
            if grouped:
                node = node.group(plan.checks)
            places += [self._put(node, (leaf, bucket), entry, item, argument) for leaf, argument in plan.leaves]
        return places

    def _put(self, node: Node, name: LeafName, entry: Entry, item: Item, argument: Any) -> Place:
        leaf = node.leaf(name)
        kept = leaf.add(entry, item, argument)
        self._unsettled[leaf] = None
        if not (self._finds_root or node.signature):
            self._arrange()
        return node, leaf, argument if kept is None else kept

    def _is_popular(self, checks: Checks) -> bool:
        """Say whether so many filters have the same checks that it pays to do them once for all."""
        if len(self._popularity) >= POPULARITIES_MAX:
            self._popularity.clear()
        seen = self._popularity.get(checks, 0) + 1
        self._popularity[checks] = seen
        return seen > POPULAR_MIN

    def remove(self, id: Hashable) -> None:  # noqa: A002  (as above)
        """Forget a subscription. Raises KeyError on an unknown id."""
        entry = self._entries.pop(id)
        for node, leaf, argument in entry.places:
            leaf.remove(entry, argument)
            if leaf:
                self._unsettled[leaf] = None
            else:
                self._unsettled.pop(leaf, None)
                node.drop(leaf)
                if not node:
                    self._prune(node)
        for path in entry.nested:
            self._use_nested(path, -1)
        if entry.bit:
            self._free_bit(entry.bit)
        self._ids.give_up(entry.slot)
        if len(self._entries) * SHRINK_SHARE < self._most:
            self._shrink()

    def _shrink(self) -> None:
        """Make the dicts anew: what is deleted from one stays allocated."""
        self._most = max(len(self._entries), SHRINK_MIN)
        self._entries = dict(self._entries)
        for signature, (_, nodes, _) in list(self._tables.items()):
            self._tables[signature] = _table(signature, dict(nodes))
        self._arrange()
        if not self._entries:
            self._ids = Ids()

    def _node(self, signature: Signature, key: Hashable) -> Node:
        if not signature:
            return self._root
        table = self._tables.get(signature)
        if table is None:
            table = self._tables[signature] = _table(signature, {})
            self._arrange()
        node = table.nodes.get(key)
        if node is None:
            node = table.nodes[key] = Node(table.signature, key)
        return node

    def _prune(self, node: Node) -> None:
        parent = node.parent
        if parent is not None:
            parent.drop_group(cast(Checks, node.key))
            if not parent:
                self._prune(parent)
            return
        if node is self._root:
            self._arrange()
            return
        nodes = self._tables[node.signature].nodes
        del nodes[node.key]
        if not nodes:
            del self._tables[node.signature]
            self._arrange()

    def _arrange(self) -> None:
        """Lay out which tables are asked: all of them, or by the attribute that they need first."""
        self._finds_root = bool(self._root)
        self._finds = [lambda _get: self._root] if self._root else []
        self._finds_by_path = {}
        if len(self._tables) <= SCANNED_TABLES_MAX:
            self._finds += [table.find for table in self._tables.values()]
            return
        for signature, table in self._tables.items():
            self._finds_by_path.setdefault(signature[0][0], []).append(table.find)

    def match(self, attributes: Attributes) -> Matches:
        """Return the ids of all filters that match."""
        if self._unsettled:
            self._settle()
        values = self._flat(attributes) if self._nested else attributes
        get = values.get
        found: Found = [], [], []
        for find in self._asked(values) if self._finds_by_path else self._finds:
            node = find(get)
            if node is not None:
                node.collect(get, found)
        if found[1] or found[2]:
            _conclude(get, found)
        return Matches(self._ids.ids, found[0])

    def match_batch(self, batch: Sequence[Attributes]) -> list[Matches]:
        """Return the same as `match` for each; for filters of several ranges it takes less time."""
        if self._unsettled:
            self._settle()
        if len(batch) < BATCH_MIN or not self._root.has_many_boxes:
            return [self.match(attributes) for attributes in batch]
        several = [self._flat(attributes) for attributes in batch] if self._nested else batch
        gets = [values.get for values in several]
        results: list[Found] = [([], [], []) for _ in several]
        self._root.collect_boxes(gets, results)
        for values, get, found in zip(several, gets, results, strict=True):
            self._root.collect(get, found, boxes=False)
            # The root comes first of those that are asked.
            for find in self._asked(values)[1:] if self._tables else ():
                node = find(get)
                if node is not None:
                    node.collect(get, found)
            if found[1] or found[2]:
                _conclude(get, found)
        ids = self._ids.ids
        return [Matches(ids, found[0]) for found in results]

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
        mask = 0
        for find in self._asked(values):
            node = find(get)
            if node is not None:
                mask = node.reach(get, mask, full, candidates)
                if mask == full:
                    return mask
        for candidate in candidates:
            if mask | candidate.bit != mask and all(test(get(path)) for path, test in candidate.checks):
                mask |= candidate.bit
        return mask

    def _asked(self, values: Attributes) -> list[Find]:
        """Return what finds the nodes for a publication, first of all the root."""
        if not self._finds_by_path:
            return self._finds
        return [*self._finds, *(find for path in values for find in self._finds_by_path.get(path, ()))]

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
            inner = attributes.get(head)
            if inner.__class__ is dict or isinstance(inner, Mapping):
                found = dict(attributes) if found is None else found
                for path in paths:
                    if path not in attributes:
                        rest = path[len(head) + 1 :]
                        found[path] = lookup(attributes, path) if "." in rest else inner.get(rest)
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
        tombstones, size = self._ids.retired, self._ids.size_bytes()
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


def _table(signature: Signature, nodes: dict[Hashable, Node]) -> Table:
    return Table(signature, nodes, finder(signature, nodes.get))


def _conclude(get: Get, found: Found) -> None:
    """Check the candidates, and see to it that every id comes once."""
    pieces, repeated, candidates = found
    if candidates:
        singles: list[Slot] = []
        several: list[Slot] = []
        for candidate in candidates:
            for path, test in candidate.checks:
                if not test(get(path)):
                    break
            else:
                (several if candidate.several else singles).append(candidate.slot)
        pieces.append(array(SLOT_CODE, singles))
        if several:
            repeated.append(array(SLOT_CODE, several))
    if repeated:
        pieces.append(distinct(repeated))


def _entry_bytes(entry: Entry) -> int:
    places = getsizeof(entry.places) + sum(map(getsizeof, entry.places))
    return getsizeof(entry) + 16 + getsizeof(entry.number) + places + (getsizeof(entry.nested) if entry.nested else 0)
