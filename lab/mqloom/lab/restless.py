"""An overlay for storms: it knows the whole tree, and opens and closes soft links at random.

Its routing is by paths in the tree alone, each found by walking it, so that it is obviously right, whatever the links
are. It is what custody has to endure, not what anybody should use.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    LinkStood,
    NeighbourTold,
    OpenSoftLink,
    OverlayEffect,
    OverlayEvent,
    OverlayWoke,
    TellNeighbour,
    WakeOverlayAt,
)

PAUSES_S: Final = (0.05, 0.5, 2.0, 8.0)
"""How long it lets everything be, at most."""

Tree = Mapping[str, Sequence[str]]


class RestlessOverlay:
    """One gateway's part. `until` is when it comes to rest."""

    def __init__(self, gateway: GatewayId, tree: Tree, randomness: random.Random, until: float) -> None:
        self._gateway = gateway
        self._neighbours = [GatewayId(name) for name in tree[gateway]]
        self._paths = _paths_from(gateway, tree)
        self._randomness = randomness
        self._until = until
        self._delta = randomness.randint(2, 5)
        self._knows_far = randomness.random() < 0.5
        self._far = [name for name, path in self._paths.items() if len(path) >= 2]
        self._wanted: set[GatewayId] = set()
        self._standing: set[GatewayId] = set()

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Everybody but the source."""
        return [each for each in self._neighbours if each != source]

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """To the nearest of those that are wanted, and to nobody behind these; of several ways to say so any."""
        came_from = None if source is None else self._paths[source][0]
        paths = [self._paths[each] for each in wanted if self._paths[each][0] != came_from]
        linked = self._standing.union(self._neighbours)
        hops = [_last_in(path, linked) for path in paths]
        if self._randomness.random() < 0.5:  # as S1 would: one way as long as there is but one
            hops = [_last_in(_common(self._paths[hop], hops, self._paths), linked) for hop in hops]
        nearest = {hop for hop in hops if not any(other != hop and other in self._paths[hop] for other in hops)}
        return sorted(nearest)

    def knows(self, gateway: GatewayId) -> bool:
        """Everybody is on the map."""
        return gateway in self._paths

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """Return the anchor if it is near enough."""
        path = self._paths.get(anchor, ())
        return anchor if self._knows_far and path[:1] == (neighbour,) and len(path) <= self._delta else neighbour

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Return the anchor, or one that is nearer if it is too far."""
        if anchor is None:
            return self._gateway
        path = self._paths[anchor]
        if len(path) < self._delta:
            return anchor
        return path[-2] if len(path) > 1 else self._gateway

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Do something at random."""
        if isinstance(event, LinkStood):
            if event.gateway not in self._neighbours:
                (self._standing.add if event.up else self._standing.discard)(event.gateway)
            return self._tell(event)
        if isinstance(event, NeighbourTold):
            return ()
        effects: list[OverlayEffect] = []
        if now < self._until:
            effects.append(WakeOverlayAt(now + self._randomness.choice(PAUSES_S) * self._randomness.random()))
        if isinstance(event, OverlayWoke):
            effects += self._change()
        return effects

    def _tell(self, event: LinkStood) -> Sequence[OverlayEffect]:
        return [TellNeighbour(event.gateway, b"hello")] if event.up and event.gateway in self._neighbours else ()

    def _change(self) -> list[OverlayEffect]:
        if self._randomness.random() < 0.1:
            self._knows_far = not self._knows_far
            return [AnchorsChanged()]
        if self._wanted and self._randomness.random() < 0.4:
            gone = self._randomness.choice(sorted(self._wanted))
            self._wanted.discard(gone)
            self._standing.discard(gone)
            return [CloseSoftLink(gone)]
        if not self._far:
            return []
        new = self._randomness.choice(self._far)
        self._wanted.add(new)
        return [OpenSoftLink(new)]


def _paths_from(gateway: GatewayId, tree: Tree) -> dict[GatewayId, tuple[GatewayId, ...]]:
    """Return the way to each other gateway, without the first."""
    paths: dict[GatewayId, tuple[GatewayId, ...]] = {gateway: ()}
    waiting = [gateway]
    while waiting:
        here = waiting.pop()
        for name in map(GatewayId, tree[here]):
            if name not in paths:
                paths[name] = (*paths[here], name)
                waiting.append(name)
    del paths[gateway]
    return paths


def _last_in(path: Sequence[GatewayId], linked: Collection[GatewayId]) -> GatewayId:
    return next(each for each in reversed(path) if each in linked)


def _common(
    path: Sequence[GatewayId], hops: Sequence[GatewayId], paths: Mapping[GatewayId, Sequence[GatewayId]]
) -> Sequence[GatewayId]:
    """Return how far a path goes together with all those that begin like it."""
    alike = [paths[hop] for hop in hops if paths[hop][0] == path[0]]
    length = next(
        (
            index
            for index in range(len(path))
            if any(other[index : index + 1] != path[index : index + 1] for other in alike)
        ),
        len(path),
    )
    return path[:length]
