"""One gateway's routing table and overlay, without the federation around it: neighbours are told for.

What they would tell of the tree, and by which anchor they would announce a subscription, follows from the links.
"""

from collections.abc import Mapping, Sequence

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Message
from mqloom.core.subscription import Subscription
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import AnchorsChanged, LinkStood, NeighbourTold, OverlayEvent, OverlayStarted
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.routes import Routes
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.bodies import View, encode
from mqloom.plugins.scan_matcher import ScanMatcher

Links = Sequence[tuple[GatewayId, GatewayId]]


def neighbours_in(links: Links) -> dict[GatewayId, list[GatewayId]]:
    """Return the neighbours of each gateway, in the order of the links."""
    near: dict[GatewayId, list[GatewayId]] = {}
    for one, other in links:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    return near


def ways_from(us: GatewayId, links: Links) -> dict[GatewayId, list[GatewayId]]:
    """Return the way to each other gateway of a tree, with its end; nearer ones first."""
    near = neighbours_in(links)
    ways = [[each] for each in near[us]]
    for way in ways:
        before = way[-2] if len(way) > 1 else us
        ways.extend([*way, each] for each in near[way[-1]] if each != before)
    return {way[-1]: way for way in ways}


class TableOnMap:
    """A gateway of a tree under S2, with the routing table that goes with it."""

    def __init__(self, us: GatewayId, links: Links, delta: int) -> None:
        self._us = us
        self._delta = delta
        self._ways = ways_from(us, links)
        self._views: dict[GatewayId, View] = {}
        journal = Journal(Counters())
        neighbours = neighbours_in(links)[us]
        self.outbox = Outbox()
        self.overlay = TreeOverlay(us, neighbours, {"strategy": "S2", "delta": delta})
        self.routes = Routes(
            neighbours, ScanMatcher(), GuardedOverlay(us, self.overlay, neighbours, journal), self.outbox, journal
        )
        self._hand(OverlayStarted())
        for neighbour in neighbours:
            self._hand(LinkStood(neighbour, True))
            self.routes.open_link(neighbour)
        self.tell(links)

    def tell(self, links: Links) -> None:
        """Let neighbours tell the tree as it is now, those who have news; our own links must be the same."""
        for neighbour, view in self.news(links).items():
            self.hear(neighbour, view)
        self._ways = ways_from(self._us, links)

    def news(self, links: Links) -> dict[GatewayId, View]:
        """Return which neighbours would tell something new, and what, if these were the links."""
        ways = ways_from(self._us, links)
        views = {way[0]: self._view(way[0], ways) for way in ways.values() if len(way) == 1}
        return {neighbour: view for neighbour, view in views.items() if view != self._views.get(neighbour)}

    def hear(self, neighbour: GatewayId, view: View) -> None:
        """Let a neighbour tell what is behind it."""
        self._views[neighbour] = view
        self._hand(NeighbourTold(neighbour, encode(view)))

    def announce(self, key: SubscriptionKey, wish: Subscription, subscriber: GatewayId) -> None:
        """Let the neighbour on whose side a subscriber is announce its wish as it would; or take in one of our own."""
        if subscriber == self._us:
            self.routes.add(key, wish, None)
            return
        way = self._ways[subscriber]
        named = way[: self._delta][-1]  # section 4: at most delta - 1 hops from the neighbour
        self.routes.add(key, wish, way[0], None if named == way[0] else named)

    def drain(self) -> dict[GatewayId, list[Message]]:
        """Return what neighbours are told since the last call."""
        return {target: list(messages) for target, messages in self.outbox.drain().items() if messages}

    def _hand(self, event: OverlayEvent) -> None:
        if any(isinstance(effect, AnchorsChanged) for effect in self.overlay.handle(event, 0.0)):
            self.routes.anchor_again()

    def _view(self, neighbour: GatewayId, ways: Mapping[GatewayId, Sequence[GatewayId]]) -> View:
        places = {neighbour: 0}
        parents: list[int] = []
        for gateway, way in ways.items():
            if way[0] == neighbour and 1 < len(way) <= self._delta:
                places[gateway] = len(places)
                parents.append(places[way[-2]])
        return View(0, list(places)[1:], parents)
