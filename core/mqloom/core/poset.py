"""Subscriptions ordered by covering, and their maximal ones: the covering set (CSS: covering subscription set).

Theory of operation. Equal subscriptions share one node. A node that another covers hangs below one that does, so the
nodes make a forest whose roots are the maximal ones; these alone stand in the index. A new node is compared with roots
only. If a root covers it, it hangs below that one; else it becomes a root and takes the roots that it covers below
itself, with all that hangs there. When a root goes, those directly below it look for another root or become one; what
hangs below these stays where it is.

To let go of root after root of a long chain, widest first, would cost a pass over all others each time, if all
hung directly below the root. So those who have lost their root are first played off against each other in pairs, as
in a tournament: a winner keeps the loser below itself, and the next time only those are asked again whom the winner
beat, not whom these did.

Covering is only claimed where it is certain, so it need not be transitive: a may cover b and b cover c, and nobody
sees that a covers c. Then the covering set may hold c beside a, which costs one announcement; nothing is lost.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from mqloom.core.covering_index import CoveringIndex
from mqloom.core.subscription import Subscription

Key = TypeVar("Key", bound=Hashable)


class Change(NamedTuple, Generic[Key]):
    """How the covering set has changed: those that belong to it now, and those that do no longer."""

    gained: list[Key]
    lost: list[Key]


class Poset(Generic[Key]):
    """Subscriptions by key, of which it always knows a covering set: no member covers another, all else is covered.

    Of equal ones the first stands for all.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, _Node[Key]] = {}
        self._nodes: dict[Subscription, _Node[Key]] = {}
        self._roots: dict[_Node[Key], None] = {}
        self._index = CoveringIndex()

    def add(self, key: Key, subscription: Subscription) -> Change[Key]:
        """Take in a subscription under a key that is not in use."""
        assert key not in self._by_key
        node = self._nodes.get(subscription)
        if node is not None:
            node.keys[key] = None
            self._by_key[key] = node
            return Change([], [])
        node = self._by_key[key] = self._nodes[subscription] = _Node(key, subscription)
        return self._settle([node])

    def remove(self, key: Key) -> Change[Key]:
        """Remove a subscription. Raises KeyError if there is none of that key."""
        node = self._by_key.pop(key)
        was_first = node.first == key
        del node.keys[key]
        if node.keys:
            return Change([node.first], [key]) if was_first and node.parent is None else Change([], [])
        del self._nodes[node.subscription]
        below = list(node.below)
        if node.parent is not None:
            del node.parent.below[node]
            for child in below:
                node.parent.adopt(child)
            return Change([], [])
        self._lower(node)
        for child in below:
            child.parent = None
        gained, lost = self._settle(_tournament(below))
        return Change(gained, [key, *lost])

    def covering_set(self) -> list[Key]:
        """Return the keys of the maximal subscriptions."""
        return [node.first for node in self._roots]

    def cover(self, key: Key) -> Key:
        """Return the key in the covering set that stands for this one; it may be itself."""
        node = self._by_key[key]
        while node.parent is not None:
            node = node.parent
        return node.first

    def covered(self, key: Key) -> list[Key]:
        """Return the keys that the given one, of the covering set, stands for, without itself."""
        root = self._by_key[key]
        assert root.parent is None
        assert root.first == key
        nodes, keys = [root], list[Key]()
        while nodes:
            node = nodes.pop()
            keys += node.keys
            nodes += reversed(node.below)
        return keys[1:]

    def __getitem__(self, key: Key) -> Subscription:
        return self._by_key[key].subscription

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def check(self) -> None:
        """State the invariants: a forest of covering, whose roots are in the index."""
        assert len(self._index) == len(self._roots)
        assert sum(len(node.keys) for node in self._nodes.values()) == len(self._by_key)
        for subscription, node in self._nodes.items():
            assert node.subscription == subscription
            assert all(self._by_key[key] is node for key in node.keys)
            assert (node.parent is None) == (node in self._roots)
            assert node.parent is None or node in node.parent.below
            for child in node.below:
                assert child.parent is node
                assert node.subscription.covers(child.subscription)
        assert sum(len(self.covered(key)) + 1 for key in self.covering_set()) == len(self._by_key)

    def _settle(self, nodes: "Iterable[_Node[Key]]") -> Change[Key]:
        """Find a place for nodes that have none, below a root or as one."""
        gained: dict[_Node[Key], None] = {}
        lost: dict[_Node[Key], None] = {}
        for node in nodes:
            covering = self._index.find_covering(node.subscription)
            if covering is not None:
                self._nodes[covering].adopt(node)
                continue
            for covered in self._index.find_covered(node.subscription):
                other = self._nodes[covered]
                self._lower(other)
                node.adopt(other)
                if other in gained:
                    del gained[other]
                else:
                    lost[other] = None
            self._roots[node] = gained[node] = None
            self._index.add(node.subscription)
        return Change([node.first for node in gained], [node.first for node in lost])

    def _lower(self, root: "_Node[Key]") -> None:
        del self._roots[root]
        self._index.remove(root.subscription)


class _Node(Generic[Key]):
    """A subscription, the keys it is known under, and where it stands."""

    __slots__ = ("below", "keys", "parent", "subscription")

    def __init__(self, key: Key, subscription: Subscription) -> None:
        self.subscription = subscription
        self.keys: dict[Key, None] = {key: None}
        self.parent: _Node[Key] | None = None
        self.below: dict[_Node[Key], None] = {}

    @property
    def first(self) -> Key:
        return next(iter(self.keys))

    def adopt(self, child: "_Node[Key]") -> None:
        self.below[child] = None
        child.parent = self


def _tournament(nodes: "list[_Node[Key]]") -> "list[_Node[Key]]":
    """Let roots that are similar take each other below themselves; return those that are left, the widest forms first.

    A round is one comparison for two nodes; there is a next one as long as every second pair had a winner.
    """
    similar: dict[Hashable, list[_Node[Key]]] = {}
    for node in nodes:
        outline = node.subscription.where.witness
        key = node.subscription.topics, outline.form, outline.form.key(outline.spans)
        similar.setdefault(key, []).append(node)
    for players in similar.values():
        left = _play(players)
        while 1 < len(left) <= len(players) * 3 // 4:
            players, left = left, _play(left)  # noqa: PLW2901  (the next round)
    roots = [node for node in nodes if node.parent is None]
    return sorted(roots, key=lambda node: len(node.subscription.where.witness.form.traits))


def _play(players: "list[_Node[Key]]") -> "list[_Node[Key]]":
    left = players[len(players) // 2 * 2 :]
    for one, other in zip(players[::2], players[1::2], strict=False):
        if one.subscription.covers(other.subscription):
            one.adopt(other)
            left.append(one)
        elif other.subscription.covers(one.subscription):
            other.adopt(one)
            left.append(other)
        else:
            left += one, other
    return left
