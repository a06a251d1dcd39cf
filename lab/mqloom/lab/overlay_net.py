"""Overlays joined to each other directly: no nodes, no brokers, a virtual clock; for what only the overlay decides.

Subscriptions are a set of gateways that want a publication. Their anchors are carried over the primary links as nodes
do it, and publications from link to link, at once.
"""

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    LinkStood,
    MoveNear,
    MoveOver,
    NeighboursChanged,
    NeighbourTold,
    OpenSoftLink,
    OverlayEffect,
    OverlayEvent,
    OverlayStarted,
    OverlayWoke,
    TellNeighbour,
    WakeOverlayAt,
)
from mqloom.plugins.overlay import TreeOverlay

COPIES_MAX = 100_000
"""Copies of one publication; more can only be a loop."""

MATCHED_MAX = 1_000_000
"""Answers to who wants what where that are remembered; more are worked out each time."""


@dataclass(frozen=True, slots=True)
class Journey:
    """Where one publication went."""

    hops: Sequence[tuple[GatewayId, GatewayId]]
    """Each copy: from whom, to whom."""
    reached: Counter[GatewayId]
    """How often each gateway got it; its origin once more."""

    def pure_forwards(self, wanting: Collection[GatewayId]) -> int:
        """Return how many copies went to gateways where nobody wanted it."""
        return sum(target not in wanting for _, target in self.hops)


class OverlayNet:
    """A federation of overlays. `settings` are by gateway; soft links take `connect_s`, told bodies `delay_s`."""

    def __init__(
        self,
        links: Iterable[tuple[GatewayId, GatewayId]],
        settings: Mapping[GatewayId, Mapping[str, object]],
        *,
        delay_s: float = 0.001,
        connect_s: float = 0.1,
    ) -> None:
        self.neighbours: dict[GatewayId, list[GatewayId]] = {gateway: [] for gateway in settings}
        for one, other in links:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self.overlays = {
            gateway: TreeOverlay(gateway, near, settings[gateway]) for gateway, near in self.neighbours.items()
        }
        self.now = 0.0
        self.soft: set[tuple[GatewayId, GatewayId]] = set()
        self.body_bytes = 0
        self.changes: Counter[str] = Counter()
        """How many soft links were opened, and closed."""
        self.sent: Counter[GatewayId] = Counter()
        """Copies that have gone out from each gateway; `publish` counts them, whoever else uses `route` must, too."""
        self.crashed: set[GatewayId] = set()
        self._kept: dict[tuple[GatewayId, GatewayId], list[bytes]] = {}
        """What a gateway that moves was told by its neighbour to be, by both."""
        self._delay_s, self._connect_s = delay_s, connect_s
        self._order = count()
        self._events: list[tuple[float, int, GatewayId, OverlayEvent]] = []
        self._wakes: dict[GatewayId, float] = {}
        self._anchors: dict[GatewayId, dict[GatewayId, GatewayId]] | None = None
        self._matched: dict[tuple[GatewayId, frozenset[GatewayId]], frozenset[GatewayId]] = {}

    def start(self) -> None:
        """Start all gateways, and let all primary links come up."""
        for gateway in self.overlays:
            self._give(gateway, OverlayStarted())
        for gateway, near in self.neighbours.items():
            for neighbour in near:
                self._give(gateway, LinkStood(neighbour, True))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until:
            at, _, gateway, event = heapq.heappop(self._events)
            self.now = max(self.now, at)
            if isinstance(event, OverlayWoke) and self._wakes.get(gateway) != at:
                continue  # another waking has replaced it
            if isinstance(event, OverlayWoke):
                event = OverlayWoke(self.sent[gateway])
            if isinstance(event, LinkStood) and event.up and (gateway, event.gateway) not in self.soft:
                continue  # closed meanwhile
            if isinstance(event, NeighbourTold) and event.neighbour not in self.neighbours[gateway]:
                self._kept.get((gateway, event.neighbour), []).append(event.body)  # else it has parted
            elif gateway not in self.crashed:
                self._give(gateway, event)
        self.now = max(self.now, until)

    def crash(self, gateway: GatewayId) -> None:
        """Let a gateway go silent, and whoever has a link to it notice."""
        self.crashed.add(gateway)
        for other in self.neighbours:
            if other not in self.crashed and (gateway in self.neighbours[other] or (other, gateway) in self.soft):
                self._give(other, LinkStood(gateway, False))

    # ---- a move of a primary link, in the order in which nodes tell overlays of it -------------------------------

    def freeze(self, path: Sequence[GatewayId]) -> None:
        """Let everybody keep off the path of a move."""
        for gateway in self.overlays:
            self._give(gateway, MoveNear(path))

    def adopt(self, mover: GatewayId, new: GatewayId) -> None:
        """Let a gateway take on its neighbour to be, which does not use the link yet."""
        self._kept[mover, new] = []
        self._change(new, [*self.neighbours[new], mover])
        self._give(new, LinkStood(mover, True))

    def switch(self, mover: GatewayId, old: GatewayId, new: GatewayId) -> None:
        """Let a gateway have its new neighbour instead of its old one, and hear what that has told meanwhile."""
        self._change(mover, [*(each for each in self.neighbours[mover] if each != old), new])
        self._give(mover, LinkStood(new, True))
        for body in self._kept.pop((mover, new)):
            self._give(mover, NeighbourTold(new, body))

    def part(self, neighbour: GatewayId, gone: GatewayId) -> None:
        """Let a gateway hear that one is no neighbour any more."""
        self._change(neighbour, [each for each in self.neighbours[neighbour] if each != gone])

    def thaw(self) -> None:
        """Let everybody hear that the move is over."""
        for gateway in self.overlays:
            self._give(gateway, MoveOver())

    def _change(self, gateway: GatewayId, neighbours: list[GatewayId]) -> None:
        self.neighbours[gateway] = neighbours
        self._give(gateway, NeighboursChanged(neighbours))

    # ---- publications --------------------------------------------------------------------------------------------

    def publish(self, origin: GatewayId, wanting: Collection[GatewayId]) -> Journey:
        """Send a publication through the federation; a gateway that gets it again drops it."""
        wanting = frozenset(wanting)
        hops: list[tuple[GatewayId, GatewayId]] = []
        reached = Counter([origin])
        queue = deque[tuple[GatewayId, GatewayId | None]]([(origin, None)])
        while queue:
            here, source = queue.popleft()
            for target in self.route(here, wanting, source):
                hops.append((here, target))
                assert len(hops) < COPIES_MAX
                self.sent[here] += target not in self.crashed
                reached[target] += 1
                if reached[target] == 1 and target not in self.crashed:
                    queue.append((target, here))
        return Journey(hops, reached)

    def route(self, here: GatewayId, wanting: frozenset[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Return to whom a gateway sends what came from a source."""
        return self.overlays[here].route(self.anchors_of(here, wanting), source)

    def anchors_of(self, here: GatewayId, wanting: frozenset[GatewayId]) -> frozenset[GatewayId]:
        """Return the anchors under which a gateway keeps the subscriptions of those who want it."""
        known = self._matched.get((here, wanting))
        if known is None:
            kept = self.anchors()[here]
            known = frozenset(kept[each] for each in wanting if each != here)
            if len(self._matched) < MATCHED_MAX:
                self._matched[here, wanting] = known
        return known

    def anchors(self) -> dict[GatewayId, dict[GatewayId, GatewayId]]:
        """Return under which anchor each gateway keeps the subscriptions of each other one."""
        if self._anchors is None:
            self._anchors = {gateway: {} for gateway in self.overlays}
            for subscriber in self.overlays:
                self._announce(subscriber, self._anchors)
        return self._anchors

    def _announce(self, subscriber: GatewayId, anchors: dict[GatewayId, dict[GatewayId, GatewayId]]) -> None:
        queue = deque[tuple[GatewayId, GatewayId | None]]([(subscriber, None)])
        while queue:
            here, source = queue.popleft()
            overlay = self.overlays[here]
            for target in overlay.spread(source):
                announced = overlay.anchor_for(anchors[here].get(subscriber), target)
                anchors[target][subscriber] = self.overlays[target].anchor_here(announced, here)
                queue.append((target, here))

    def _give(self, gateway: GatewayId, event: OverlayEvent) -> None:
        for effect in self.overlays[gateway].handle(event, self.now):
            self._obey(gateway, effect)

    def _obey(self, gateway: GatewayId, effect: OverlayEffect) -> None:
        match effect:
            case TellNeighbour():
                self.body_bytes += len(effect.body)
                self._later(self._delay_s, effect.neighbour, NeighbourTold(gateway, effect.body))
            case OpenSoftLink():
                self.changes["opened"] += 1
                self.soft.add((gateway, effect.gateway))
                if effect.gateway not in self.crashed:
                    self._later(self._connect_s, gateway, LinkStood(effect.gateway, True))
            case CloseSoftLink():
                self.changes["closed"] += 1
                self.soft.discard((gateway, effect.gateway))
            case AnchorsChanged():
                self._anchors = None
                self._matched.clear()
            case WakeOverlayAt():
                self._wakes[gateway] = effect.at
                heapq.heappush(self._events, (effect.at, next(self._order), gateway, OverlayWoke()))

    def _later(self, delay_s: float, gateway: GatewayId, event: OverlayEvent) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._order), gateway, event))
