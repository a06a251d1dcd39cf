"""What neighbours told of the primary network, joined to a master map; and what we tell each of them in turn.

Section 3 lets changes travel hop by hop. Here each gateway tells a neighbour the tree behind itself, delta - 1 hops of
it, whenever that changes; so the news of a change goes delta hops, and no farther.

A neighbour from which no view has come is not passed on: it may be one that keeps no map (S0), which could not tell
from which side a publication over a soft link came.

A view that contradicts the tree (a gateway in two places, or ourselves in it) is refused, and what the neighbour said
before is kept. It is tried again when another neighbour has changed its mind: when a gateway moves, the news of its new
place may come before that of its leaving the old one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqloom.core.ids import GatewayId
from mqloom.plugins.overlay.bodies import View
from mqloom.plugins.overlay.limits import BODY_BYTES_MAX, VIEW_GATEWAYS_MAX
from mqloom.plugins.overlay.master_map import MasterMap, Tree


@dataclass(slots=True)
class Told:
    """What one neighbour said: the tree that we believe, the number of its view, and a tree refused so far."""

    tree: Tree = ()
    number: int | None = None
    refused: tuple[Tree, int] | None = None


@dataclass(slots=True)
class Neighbourhood:
    """The joined views of all primary neighbours."""

    us: GatewayId
    neighbours: Sequence[GatewayId]
    delta: int
    map: MasterMap = field(init=False)
    _told: dict[GatewayId, Told] = field(init=False)

    def __post_init__(self) -> None:
        self._told = {neighbour: Told() for neighbour in self.neighbours}
        self.map = self._join()

    def take(self, neighbour: GatewayId, view: View) -> bool:
        """Believe a neighbour's view if it fits; whether it does. Raises ValueError if it is no tree."""
        tree = self._read(view)
        told = self._told[neighbour]
        told.refused = (tree, view.number)
        fits = self._believe(neighbour)
        while any(self._believe(other) for other in self.neighbours if self._told[other].refused):
            pass  # each time one fewer is refused
        joined = self._join()
        if joined != self.map:
            self.map = joined
        return fits

    def set_neighbours(self, neighbours: Sequence[GatewayId]) -> None:
        """Have other neighbours: nothing is known yet behind one that is new."""
        self.neighbours = tuple(neighbours)
        self._told = {neighbour: self._told.get(neighbour, Told()) for neighbour in neighbours}
        while any(self._believe(other) for other in self.neighbours if self._told[other].refused):
            pass
        self.map = self._join()

    def number_of(self, neighbour: GatewayId) -> int | None:
        """Return the number of the view that we believe of a neighbour."""
        return self._told[neighbour].number

    def members(self, neighbour: GatewayId) -> list[GatewayId]:
        """Return who is in the view that we believe of a neighbour, in its order, itself first."""
        return [neighbour, *(gateway for gateway, _ in self._told[neighbour].tree)]

    def tree_for(self, target: GatewayId) -> Tree:
        """Return what a neighbour is told: the tree behind us as seen from it, delta - 1 hops of it."""
        places = {-1: 0}
        tree: list[tuple[GatewayId, int]] = []
        room = BODY_BYTES_MAX - 100
        for number, gateway in enumerate(self.map.gateways):
            side = self.map.gateways[self.map.sides[number]]
            if side == target or self._told[side].number is None or self.map.distances[number] >= self.delta:
                continue
            room -= len(gateway.encode()) + 8
            if room < 0 or len(tree) == VIEW_GATEWAYS_MAX:
                break  # what is nearer comes first, so the rest is a tree
            tree.append((gateway, places[self.map.parents[number]]))
            places[number] = len(tree)
        return tuple(tree)

    def _read(self, view: View) -> Tree:
        """Return a view's tree as far as it concerns us: delta - 1 hops. Raises ValueError if it is none."""
        if len({self.us, *view.gateways}) <= len(view.gateways):
            raise ValueError("a gateway has two places, or we are in it")
        depths = [0]
        for place, parent in enumerate(view.parents):
            if parent > place:
                raise ValueError("a parent comes after its child")
            depths.append(depths[parent] + 1)
        if depths != sorted(depths):
            raise ValueError("nearer gateways must come first")
        near = sum(depth < self.delta for depth in depths) - 1
        return tuple(zip(view.gateways[:near], view.parents, strict=False))

    def _believe(self, neighbour: GatewayId) -> bool:
        told = self._told[neighbour]
        assert told.refused is not None
        tree, number = told.refused
        elsewhere = set(self.neighbours)
        for other in self.neighbours:
            if other != neighbour:
                elsewhere.update(gateway for gateway, _ in self._pruned(self._told[other].tree))
        if any(gateway in elsewhere for gateway, _ in tree):
            return False
        told.tree, told.number, told.refused = tree, number, None
        return True

    def _pruned(self, tree: Tree) -> Tree:
        """Return a tree without our own neighbours, and what is beyond them: we know better where those are."""
        if not any(gateway in self._told for gateway, _ in tree):
            return tree
        places, kept = {0: 0}, []
        for place, (gateway, parent) in enumerate(tree, 1):
            if gateway not in self._told and parent in places:
                kept.append((gateway, places[parent]))
                places[place] = len(kept)
        return tuple(kept)

    def _join(self) -> MasterMap:
        trees = {neighbour: self._pruned(told.tree) for neighbour, told in self._told.items()}
        return MasterMap(self.us, self.neighbours, trees)

    def check(self) -> None:
        """State the invariants."""
        assert all(distance <= self.delta for distance in self.map.distances)
        assert self.us not in self.map.numbers
