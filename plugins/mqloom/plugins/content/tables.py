"""The nodes by signature and key, and which of them a publication can reach.

To find the nodes takes a lookup for each signature. But the same values come again and again, and publications with the
same values for all keys reach the same nodes: for values that were seen twice, the leaves of all those nodes are laid
out as one selection, which a single lookup finds. Checks on texts that groups of filters share are done then, too.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from sys import getsizeof
from typing import Final, NamedTuple, cast

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.bundles import Bundles
from mqloom.plugins.content.cases import CASES_MAX
from mqloom.plugins.content.entries import FIRST_CODE, Code, LeafName, container
from mqloom.plugins.content.keys import Get, Signature, finder, values_key
from mqloom.plugins.content.nodes import Node
from mqloom.plugins.content.planning import SINGLE, CaseLeaf, Checks, Plan
from mqloom.plugins.content.selections import Group, LeafObject, Selection, holds
from mqloom.plugins.content.tried import TRIED_MAX

Find = Callable[[Get], Node | None]

SCANNED_TABLES_MAX: Final = 12
"""With more tables than that, only those are asked whose first attribute the publication has."""

KEY_PATHS_MAX: Final = 8
"""With more attributes than that among the keys, there are no selections of several nodes."""

SELECTIONS_MAX: Final = 4096
"""So many selections are kept ready."""


REPEATED_SHARE: Final = 4
"""Unless one in so many keys came a second time, selections of several nodes are not worth their while."""


class Table(NamedTuple):
    """All nodes of one signature by key, and the function that finds a publication's node."""

    nodes: dict[Hashable, Node]
    find: Find


class Tables:
    """All nodes. `known[key(get)]` is a publication's selection, if there is one ready."""

    __slots__ = (
        "_bundles",
        "_check_paths",
        "_finds",
        "_finds_by_path",
        "_paths",
        "_seen",
        "_tables",
        "code",
        "has_boxes",
        "key",
        "known",
        "root",
    )

    def __init__(self) -> None:
        self.root = Node((), ())
        self.code: Code = FIRST_CODE
        """How leaves hold ids."""
        self.has_boxes = False
        """Whether there was a leaf of boxes since the tables were last empty."""
        self.known: dict[Hashable, Selection] = {}
        self._seen: set[Hashable] = set()
        self._bundles = Bundles()
        self._tables: dict[Signature, Table] = {}
        self._check_paths: dict[str, int] = {}
        self._arrange()

    def __len__(self) -> int:
        return len(self._tables)

    def __contains__(self, signature: object) -> bool:
        return signature in self._tables

    def __iter__(self) -> Iterator[Node]:
        yield self.root
        for table in self._tables.values():
            yield from table.nodes.values()

    def leaf(self, signature: Signature, key: Hashable, name: LeafName, checks: Checks | None = None) -> LeafObject:
        """Return a leaf, made when first asked for; if there are checks, of the group that has them."""
        node = self._node(signature, key)
        if checks is not None:
            group = node.groups.get(checks)
            node = self._grow_group(node, checks) if group is None else group
        found = node.leaves.get(name)
        if found is None:
            found = node.grow(name, self.code)
            self.has_boxes = self.has_boxes or isinstance(found, Boxes)
            self._forget()
        return found

    def _node(self, signature: Signature, key: Hashable) -> Node:
        if not signature:
            return self.root
        table = self._tables.get(signature)
        if table is None:
            table = self._tables[signature] = _table(signature, {})
            self._arrange()
        node = table.nodes.get(key)
        if node is None:
            node = table.nodes[key] = Node(signature, key)
        return node

    def has_room(self, plan: Plan) -> bool:
        """Say whether the leaves of a plan that is tried, or of cases, can take one more."""
        leaf = plan.leaves[0][0]
        most = CASES_MAX if isinstance(leaf, CaseLeaf) else TRIED_MAX
        found = [self._node(plan.signature, key).leaves.get((leaf, SINGLE)) for key in plan.keys]
        return all(each is None or len(each) < most for each in found)

    def groups_of(self, signature: Signature, key: Hashable) -> int:
        """Return how many groups a node has."""
        return len(self._node(signature, key).groups)

    def _grow_group(self, node: Node, checks: Checks) -> Node:
        made = node.grow_group(checks, self.code)
        self._count_paths(checks, 1)
        return made

    def _count_paths(self, checks: Checks, change: int) -> None:
        """Know of one group more, or less, whose checks can be done for a selection."""
        if not all(check.of_text for check in checks):
            return
        for path, _, _ in checks:
            count = self._check_paths[path] = self._check_paths.get(path, 0) + change
            if not count:
                del self._check_paths[path]
            if count <= 1:
                self._arrange()

    def drop(self, leaf: LeafObject) -> None:
        """Forget a leaf that has become empty, and what becomes empty with it."""
        node: Node = leaf.node
        node.drop(leaf)
        self._forget()
        while not node and node is not self.root:
            parent = node.parent
            if parent is None:
                nodes = self._tables[node.signature].nodes
                del nodes[node.key]
                if not nodes:
                    del self._tables[node.signature]
                    self._arrange()
                return
            checks = cast(Checks, node.key)
            parent.drop_group(checks)
            self._count_paths(checks, -1)
            node = parent

    def _forget(self) -> None:
        """Forget all selections, as they are no longer right."""
        if self._seen:
            self._seen.clear()
            self.known.clear()
            self._bundles.clear()

    def _arrange(self) -> None:
        """Lay out which tables are asked: all of them, or by the attribute that they need first."""
        self._finds: list[Find] = []
        self._finds_by_path: dict[str, list[Find]] = {}
        if len(self._tables) <= SCANNED_TABLES_MAX:
            self._finds = [table.find for table in self._tables.values()]
        else:
            for signature, table in self._tables.items():
                self._finds_by_path.setdefault(signature[0][0], []).append(table.find)
        paths = {path for signature in self._tables for path, _ in signature}.union(self._check_paths)
        self._paths = paths if len(paths) <= KEY_PATHS_MAX else None
        self.key = values_key(() if self._paths is None else sorted(paths))
        self._forget()

    def select(self, values: Mapping[str, object], key: Hashable) -> list[Selection]:
        """Return the selections for a publication whose `key` is not among those that are known."""
        nodes = self._nodes_for(values)
        if self._paths is not None:
            if key in self._seen:
                made = self.known[key] = self._merged(nodes, values.get, self._paths)
                return [made]
            if len(self._seen) >= SELECTIONS_MAX:
                self._start_anew()
            self._seen.add(key)
        return [node.selection() for node in nodes]

    def sole_boxes(self) -> Boxes | None:
        """Return the boxes that are all there is for every publication, if it is so and known."""
        selection = None if self._paths else self.known.get(())
        return None if selection is None else selection.sole

    def _start_anew(self) -> None:
        """Forget all selections, as they are too many; if hardly any values came again, do without from now on."""
        is_in_vain = len(self.known) * REPEATED_SHARE < len(self._seen)
        self._forget()
        if is_in_vain:
            self._paths = None
            self.key = values_key(())

    def _merged(self, nodes: list[Node], get: Get, paths: set[str]) -> Selection:
        leaves: list[LeafObject] = []
        groups: list[Group] = []
        for node in nodes:
            leaves += node.leaves.values()
            node.forget_selection()
            for checks, group in node.groups.items():
                if not all([check.path in paths and check.of_text for check in checks]):  # noqa: C419  (half the time)
                    groups.append((group.lead, checks, group.selection))
                elif holds(checks, get):
                    leaves += group.leaves.values()
        return Selection(leaves, groups, container(self.code), self._bundles)

    def _nodes_for(self, values: Mapping[str, object]) -> list[Node]:
        """Return the nodes whose keys a publication has."""
        get = values.get
        finds = self._finds
        if self._finds_by_path:
            finds = [find for path in values for find in self._finds_by_path.get(path, ())]
        found = [self.root] if self.root else []
        for find in finds:
            node = find(get)
            if node is not None:
                found.append(node)
        return found

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        self.code = code
        for node in self:
            node.turn(code)
        self._forget()

    def turn_back(self) -> None:
        """Hold ids in the smallest arrays again, as there are none."""
        self.code = FIRST_CODE
        self.has_boxes = False
        self._forget()

    def shrink(self) -> None:
        """Make the dicts anew: what is deleted from one stays allocated."""
        for signature, (nodes, _) in list(self._tables.items()):
            self._tables[signature] = _table(signature, dict(nodes))
        self._arrange()

    def size_bytes(self) -> int:
        """Return the memory it takes, without the ids."""
        dicts = sum(map(getsizeof, (self.known, self._seen, *(table.nodes for table in self._tables.values()))))
        keys = sum(map(getsizeof, self._seen)) + sum(
            getsizeof(key) for table in self._tables.values() for key in table.nodes
        )
        selections = sum(selection.size_bytes() for selection in self.known.values())
        return dicts + keys + selections + self._bundles.size_bytes() + sum(node.size_bytes() for node in self)


def _table(signature: Signature, nodes: dict[Hashable, Node]) -> Table:
    return Table(nodes, finder(signature, nodes.get))
