"""The engine: subscriptions in, matches out."""

from array import array
from collections.abc import Hashable, Sequence
from sys import getsizeof
from typing import Any, Final, TypeAlias, cast

from mqloom.core.filter import Filter
from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.destinations import Destinations
from mqloom.plugins.content.drafts import Draft, are_disjoint, drafts_of, paths_of
from mqloom.plugins.content.entries import (
    CHECKED,
    SEVERAL,
    Candidate,
    Entry,
    Item,
    Mask,
    Rest,
    code_for,
    container,
)
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.nested import Attributes, NestedPaths
from mqloom.plugins.content.planning import (
    SINGLE,
    Checks,
    Plan,
    case_plan,
    plan_of,
    plan_quickly,
    tried_plan,
)
from mqloom.plugins.content.selections import LeafObject, Pools, Postponed, collect_all, conclude, holds
from mqloom.plugins.content.tables import Tables

Ids: TypeAlias = "array[int] | list[Hashable]"
"""The ids that match, each once, in no particular order, in a container that is the caller's own.

An array while all ids in the engine are integers of at most 64 bits, else a list: to copy numbers that lie side by side
costs much less than to touch thousands of objects, most of them not in the processor's cache. While 32 bits are enough
numbers of 32 bits are copied, half as many bytes.
"""

Place = tuple[LeafObject, Any]

BATCH_MIN: Final = 8
"""Fewer publications than that are asked of boxes one by one."""

TABLES_MAX: Final = 256
"""With more tables than that, new conjunctions are kept by one of their keys, and the others are checked."""

POPULAR_MIN: Final = 8
"""When more filters than that have had the same checks, they share a group."""

POPULARITIES_MAX: Final = 4096
"""Of so many different checks it is known how many filters had them."""

GROUPS_MAX: Final = 4096
"""In a node with fewer groups, filters whose checks are of texts form a group whatever their number."""

SHRINK_MIN: Final = 1024
SHRINK_SHARE: Final = 4
"""When of so many subscriptions one is left, memory is given back, if they were many enough."""


class Engine:
    """Filters by id. Exactly those match of which `Filter.matches` is true."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, Entry] = {}
        self._tables = Tables()
        self._nested = NestedPaths()
        self._destinations = Destinations()
        self._unsettled: dict[LeafObject, None] = {}
        self._next_number = 0
        self._most = SHRINK_MIN
        self._popularity: dict[Checks, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._entries

    def add(self, id: Hashable, filter: Filter, destination: Hashable | None = None) -> None:  # noqa: A002  (as callers say it)
        """Take a subscription in; with a destination, `destinations` tells about it. Raises KeyError on a known id."""
        entries, tables = self._entries, self._tables
        if id in entries:
            raise KeyError(id)
        quick = plan_quickly(filter)
        if quick is not None and len(tables) >= TABLES_MAX and quick[0] not in tables:
            quick = None
        drafts = drafts_of(filter) if quick is None else []
        if tables.code and code_for(id, tables.code) != tables.code:
            tables.turn(code_for(id, tables.code))
        number = self._next_number
        self._next_number = number + 1
        entry = entries[id] = Entry(0 if destination is None else self._destinations.use(destination), number)
        if quick is None:
            self._keep_all(id, entry, drafts, filter)
            return
        signature, key, name, argument = quick
        leaf = entry.leaf = tables.leaf(signature, key, name)
        entry.argument = leaf.add(entry, id, argument)
        if leaf.waiting:
            self._unsettled[leaf] = None

    def _keep_all(self, id_: Hashable, entry: Entry, drafts: list[Draft], filter_: Filter) -> None:
        plans = [self._plan(draft) for draft in drafts]
        several = len(drafts) > 1 and not are_disjoint(drafts)
        tried = tried_plan(plans) if plans else None
        if tried is not None and self._tables.has_room(tried):
            plans, several = [tried], False
        case = case_plan(plans[0]) if len(plans) == 1 else None
        if case is not None and self._tables.has_room(case):
            plans = [case]
        places: list[Place] = []
        for plan in plans:
            places += self._keep(id_, entry, plan, several)
        nested = tuple({path for path in paths_of(filter_) if "." in path})
        for path in nested:
            self._nested.count(path, 1)
        if places:
            entry.leaf, entry.argument = places[0]
        if nested or len(places) != 1 or len(drafts) != 1:
            entry.rest = Rest(places[1:], len(drafts), nested)

    def _plan(self, draft: Draft) -> Plan:
        plan = plan_of(draft)
        if len(self._tables) >= TABLES_MAX and plan.signature not in self._tables:
            return plan_of(draft, parts_max=1)
        return plan

    def _keep(self, id_: Hashable, entry: Entry, plan: Plan, several: bool) -> list[Place]:
        bucket = SEVERAL if several else SINGLE
        item: Item = id_
        checks: Checks | None = plan.checks or None
        if checks and not self._is_grouped(plan):
            bucket = CHECKED
            item = Candidate(id_, entry.bit, checks, several)
            checks = None
        places: list[Place] = []
        for key in plan.keys:
            for name, argument in plan.leaves:
                leaf = self._tables.leaf(plan.signature, key, (name, bucket), checks)
                places.append((leaf, leaf.add(entry, item, argument)))
                if leaf.waiting:
                    self._unsettled[leaf] = None
        return places

    def _is_grouped(self, plan: Plan) -> bool:
        """Say whether it pays to do the checks once for all filters that have the same."""
        if all(check.of_text for check in plan.checks):
            groups = max((self._tables.groups_of(plan.signature, key) for key in plan.keys), default=0)
            if groups < GROUPS_MAX:
                return True
        if len(self._popularity) >= POPULARITIES_MAX:
            self._popularity.clear()
        seen = self._popularity.get(plan.checks, 0) + 1
        self._popularity[plan.checks] = seen
        return seen > POPULAR_MIN

    def remove(self, id: Hashable) -> None:  # noqa: A002  (as above)
        """Forget a subscription. Raises KeyError on an unknown id."""
        entry = self._entries.pop(id)
        if entry.leaf is not None:
            self._take_out(entry, entry.leaf, entry.argument)
        if entry.rest is not None:
            for leaf, argument in entry.rest.places:
                self._take_out(entry, leaf, argument)
            for path in entry.rest.nested:
                self._nested.count(path, -1)
        if entry.bit:
            self._destinations.free(entry.bit)
        count = len(self._entries)
        if count >= self._most:
            self._most = count + 1
        elif count * SHRINK_SHARE < self._most > SHRINK_MIN:
            self._shrink()
        if not count:
            self._tables.turn_back()

    def _take_out(self, entry: Entry, leaf: LeafObject, argument: Any) -> None:
        leaf.remove(entry, argument)
        if not len(leaf):
            self._unsettled.pop(leaf, None)
            self._tables.drop(leaf)
        elif leaf.waiting:
            self._unsettled[leaf] = None

    def _shrink(self) -> None:
        """Make the dicts anew: what is deleted from one stays allocated."""
        self._most = max(len(self._entries), SHRINK_MIN)
        self._entries = dict(self._entries)
        self._tables.shrink()

    def match(self, attributes: Attributes) -> Ids:
        """Return the ids of all filters that match."""
        if self._unsettled:
            self._settle()
        values = self._nested.flat(attributes) if self._nested.heads else attributes
        get = values.get
        tables = self._tables
        key = tables.key(get)
        selection = tables.known.get(key)
        if selection is None:
            return self._match_anew(values, key)
        if selection.sole is not None:
            return cast(Ids, selection.sole.match(get))
        out: Ids = selection.collect(get)
        if selection.more:
            pools: Pools = out, out[:0], []
            selection.collect_more(get, pools)
            if pools[1] or pools[2]:
                conclude(get, pools)
        return out

    def _match_anew(self, values: Attributes, key: Hashable) -> Ids:
        pools = self._empty_pools()
        selections = self._tables.select(values, key)
        if selections:
            collect_all(selections, values.get, pools)
            conclude(values.get, pools)
        return cast(Ids, pools[0])

    def _empty_pools(self) -> Pools:
        code = self._tables.code
        return container(code), container(code), []

    def match_batch(self, batch: Sequence[Attributes]) -> list[Ids]:
        """Return the same as `match` for each; for filters of several ranges it takes less time."""
        if len(batch) < BATCH_MIN or not self._tables.has_boxes:
            return [self.match(attributes) for attributes in batch]
        if self._unsettled:
            self._settle()
        several = [self._nested.flat(attributes) for attributes in batch] if self._nested.heads else batch
        sole = self._tables.sole_boxes()
        if sole is not None:
            return sole.match_batch([values.get for values in several])
        results = [self._empty_pools() for _ in several]
        postponed: Postponed = {}
        for number, (values, pools) in enumerate(zip(several, results, strict=True)):
            key = self._tables.key(values.get)
            known = self._tables.known.get(key)
            selections = self._tables.select(values, key) if known is None else (known,)
            collect_all(selections, values.get, pools, postponed, number)
        for boxes, numbers in postponed.items():
            gets = [several[number].get for number in numbers]
            together = boxes.match_batch(gets) if len(gets) >= BATCH_MIN else [boxes.match(get) for get in gets]
            bucket = boxes.name[1]
            for number, items in zip(numbers, together, strict=True):
                pool = results[number][bucket]
                pool += items
        for values, pools in zip(several, results, strict=True):
            conclude(values.get, pools)
        return [pools[0] for pools in results]

    def destinations(self, attributes: Attributes) -> frozenset[Hashable]:
        """Return the destinations with a filter that matches."""
        if self._unsettled:
            self._settle()
        values = self._nested.flat(attributes) if self._nested.heads else attributes
        get = values.get
        tables, destinations = self._tables, self._destinations
        full = destinations.full
        candidates: list[Candidate] = []
        key = tables.key(get)
        selection = tables.known.get(key)
        mask: Mask = 0
        if selection is not None and selection.sole is not None:
            mask = selection.sole.mask(get)
            known = destinations.sets.get(mask)
            return destinations.set_of(mask) if known is None else known
        for each in tables.select(values, key) if selection is None else (selection,):
            mask = each.reach(get, mask, full, candidates)
            if mask == full:
                break
        else:
            for candidate in candidates:
                if mask | candidate.bit != mask and holds(candidate.checks, get):
                    mask |= candidate.bit
        known = destinations.sets.get(mask)
        return destinations.set_of(mask) if known is None else known

    def destinations_batch(self, batch: Sequence[Attributes]) -> list[frozenset[Hashable]]:
        """Return the same as `destinations` for each."""
        return [self.destinations(attributes) for attributes in batch]

    def _settle(self) -> None:
        for leaf in self._unsettled:
            leaf.settle()
        self._unsettled.clear()

    def stats(self) -> dict[str, int]:
        """Return what the engine holds, and an estimate of its memory in bytes, with the ids."""
        counts = dict.fromkeys(("lists", "thresholds", "boxes", "in_lists", "in_thresholds", "in_boxes"), 0)
        tombstones = 0
        nodes = list(self._tables)
        for leaf in [leaf for node in nodes for leaf in node.all_leaves()]:
            name = "lists" if isinstance(leaf, Listed) else "boxes" if isinstance(leaf, Boxes) else "thresholds"
            counts[name] += 1
            counts[f"in_{name}"] += len(leaf)
            tombstones += leaf.dead if isinstance(leaf, Boxes) else 0
        parts = (self._tables, self._nested, self._destinations)
        size = getsizeof(self._entries) + sum(map(getsizeof, self._entries)) + sum(part.size_bytes() for part in parts)
        entries = self._entries.values()
        return {
            "subscriptions": len(entries),
            "conjunctions": sum(1 if entry.rest is None else entry.rest.conjunctions for entry in entries),
            "tables": len(self._tables),
            "nodes": len(nodes),
            **counts,
            "tombstones": tombstones,
            "bytes": size + sum(map(_entry_bytes, entries)),
        }


def _entry_bytes(entry: Entry) -> int:
    rest = entry.rest
    more = 0 if rest is None else getsizeof(rest) + getsizeof(rest.places) + 72 * len(rest.places)
    return getsizeof(entry) + getsizeof(entry.number) + more
