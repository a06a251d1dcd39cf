"""The plainest overlay with which a primary link can be moved: a tree, and a way that was always known.

An overlay that learns its map from its neighbours tells them about it for ever, with timers; of its map a move takes
nothing but the path, and that before it begins.
"""

from collections.abc import Collection, Mapping, Sequence

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import NeighboursChanged, OverlayEffect, OverlayEvent

REACH = 2


class MapOverlay:
    """Routes as a tree does, by its neighbours alone; `ways` are the primary ways to gateways farther away."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbours: Sequence[GatewayId],
        ways: Mapping[GatewayId, Sequence[GatewayId]],
    ) -> None:
        self._gateway = gateway
        self._neighbours = tuple(neighbours)
        self._ways = dict(ways)

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Everybody but the source."""
        return [each for each in self._neighbours if each != source]

    def route(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """The neighbours by which it is wanted."""
        return [each for each in self.spread(source) if each in anchors]

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """The neighbour: we see no further."""
        return neighbour

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Ourselves."""
        return self._gateway

    def knows(self, gateway: GatewayId) -> bool:
        """Nobody: there are no soft links."""
        return False

    @property
    def reach(self) -> int:
        """So far leave is asked for a move, twice over."""
        return REACH

    def way_to(self, gateway: GatewayId) -> Sequence[GatewayId]:
        """The way that was always known."""
        return self._ways.get(gateway, ())

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Have other neighbours; all else is of no concern."""
        if isinstance(event, NeighboursChanged):
            self._neighbours = tuple(event.neighbours)
        return ()
