"""A node: the leaves of all conjunctions that ask for the same keys."""

from collections.abc import Hashable
from sys import getsizeof
from typing import Final

from mqloom.plugins.content.boxes import Boxes
from mqloom.plugins.content.cases import Cases
from mqloom.plugins.content.entries import FIRST_CODE, Code, LeafName, container
from mqloom.plugins.content.keys import Signature
from mqloom.plugins.content.lists import Listed
from mqloom.plugins.content.planning import BoxLeaf, CaseLeaf, Checks, ThresholdLeaf, TriedLeaf
from mqloom.plugins.content.selections import LeafObject, Selection, lead_of
from mqloom.plugins.content.thresholds import Thresholds
from mqloom.plugins.content.tried import Tried

_NO_GROUPS: "Final[dict[Checks, Node]]" = {}


class Node:
    """Leaves by name; and groups: nodes of those that have, besides, the same checks."""

    __slots__ = ("_code", "_selection", "groups", "key", "lead", "leaves", "parent", "signature")

    def __init__(self, signature: Signature, key: Hashable, parent: "Node | None" = None) -> None:
        self.signature = signature
        self.key = key
        self.parent = parent
        self.leaves: dict[LeafName, LeafObject] = {}
        self.groups = _NO_GROUPS
        self.lead: str | None = None
        """Of a group, an attribute without which its checks cannot be true."""
        self._code: Code = FIRST_CODE
        self._selection: Selection | None = None

    def __bool__(self) -> bool:
        return bool(self.leaves or self.groups)

    def grow(self, name: LeafName, code: Code) -> LeafObject:
        """Make a leaf."""
        leaf = name[0]
        self._code = code
        made: LeafObject
        if isinstance(leaf, ThresholdLeaf):
            made = Thresholds(name, leaf, self, code)
        elif isinstance(leaf, BoxLeaf):
            made = Boxes(name, leaf.paths, self, code)
        elif isinstance(leaf, TriedLeaf):
            made = Tried(name, leaf, self, code)
        elif isinstance(leaf, CaseLeaf):
            made = Cases(name, leaf, self, code)
        else:
            made = Listed(name, self, code)
        self.leaves[name] = made
        self._selection = None
        return made

    def drop(self, gone: LeafObject) -> None:
        """Forget a leaf that has become empty."""
        del self.leaves[gone.name]
        if isinstance(gone, Thresholds):
            gone.row = None  # it holds the leaf in turn
        self._selection = None

    def grow_group(self, checks: Checks, code: Code) -> "Node":
        """Make the node for those that have these checks in common."""
        if not self.groups:
            self.groups = {}
        made = self.groups[checks] = Node(self.signature, checks, self)
        made.lead = lead_of(checks)
        self._code = code
        self._selection = None
        return made

    def drop_group(self, checks: Checks) -> None:
        """Forget a group that has become empty."""
        del self.groups[checks]
        self._selection = None

    def selection(self) -> Selection:
        """Return what to ask of a publication that has the node's keys."""
        if self._selection is None:
            groups = [(node.lead, checks, node.selection) for checks, node in self.groups.items()]
            self._selection = Selection(self.leaves.values(), groups, container(self._code))
        return self._selection

    def forget_selection(self) -> None:
        """Give its memory back until it is asked for."""
        self._selection = None

    def turn(self, code: Code) -> None:
        """Hold more kinds of ids from now on."""
        self._code = code
        self._selection = None
        for leaf in self.leaves.values():
            leaf.turn(code)
        for node in self.groups.values():
            node.turn(code)

    def all_leaves(self) -> list[LeafObject]:
        """Return all leaves, those of groups among them."""
        return [*self.leaves.values(), *(leaf for node in self.groups.values() for leaf in node.leaves.values())]

    def size_bytes(self) -> int:
        """Return the memory it takes, with its leaves and groups, without the ids."""
        own = getsizeof(self) + getsizeof(self.leaves)
        own += getsizeof(self.groups) if self.groups else 0
        own += 0 if self._selection is None else self._selection.size_bytes()
        leaves = sum(leaf.size_bytes() for leaf in self.leaves.values())
        return own + leaves + sum(node.size_bytes() for node in self.groups.values())
