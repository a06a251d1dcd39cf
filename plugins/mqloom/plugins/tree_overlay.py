"""Overlay `tree`: the primary links alone. Subscriptions travel to everybody; a publication follows them back (S0).

Paper 001, section 2, strategy 0, where the anchors are the immediate neighbours and Fwrd(p) = Anchors(p): a publication
goes to each neighbour behind which somebody matches, and never back to where it came from.
"""

from collections.abc import Collection, Sequence

from mqloom.core.ids import GatewayId
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import OverlayKind, Settings


class TreeOverlay:
    """The neighbours of one gateway in a network without cycles."""

    def __init__(self, gateway: GatewayId, neighbours: Sequence[GatewayId], settings: Settings = {}) -> None:  # noqa: B006
        assert gateway not in neighbours
        if settings:
            raise ValueError(f"unknown settings: {', '.join(settings)}")
        self._neighbours = tuple(neighbours)
        self._others = {None: self._neighbours} | {
            source: tuple(other for other in neighbours if other != source) for source in neighbours
        }

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Everybody but the source."""
        return self._others[source]

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """The wanted ones but the source, in the order of the configuration."""
        return [neighbour for neighbour in self._neighbours if neighbour in wanted and neighbour != source]


@hookimpl
def mqloom_overlay() -> OverlayKind:
    """Offer the overlay."""
    return OverlayKind(name="tree", build=TreeOverlay)
