"""What a gateway shows of its links: a portrait, retained on its own broker, for whoever wants to look.

It is painted when the overlay was told something and so may have changed, but not more often than every
PORTRAIT_EVERY_S; and published if it is not what was published before.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PORTRAIT_EVERY_S, PORTRAIT_LINKS_MAX
from mqloom.core.records import PaintedLink, Portrait, encode_portrait
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.links import Link, LinkState

KINDS: Final = ("primary", "soft", "candidate")
"""In the order in which they are shown."""


class Painter:
    """Paints the links of one gateway."""

    def __init__(
        self, gateway: GatewayId, epoch: int, links: Mapping[GatewayId, Link], overlay: GuardedOverlay
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._links = links
        self._overlay = overlay
        self._shown: Portrait | None = None
        self._may_differ = False
        self._next_at = 0.0

    def note_change(self) -> None:
        """Something may look different."""
        self._may_differ = True

    def drain(self, now: float) -> list[PublishLocally]:
        """Return the portrait, if it is time, and it is another."""
        if not self._may_differ or now < self._next_at:
            return []
        self._may_differ = False
        self._next_at = now + PORTRAIT_EVERY_S
        portrait = self._paint()
        if portrait == self._shown:
            return []
        self._shown = portrait
        topic = layout.portrait(self._gateway)
        return [PublishLocally(topic=topic, payload=encode_portrait(portrait), qos=1, retain=True)]

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        return self._next_at if self._may_differ else None

    def _paint(self) -> Portrait:
        strategy, links = self._overlay.paint()
        links = sorted(links, key=lambda link: KINDS.index(link.kind))  # what is left out is the least of it
        return Portrait(
            gateway=self._gateway,
            epoch=self._epoch,
            strategy=strategy,
            links=tuple(as_it_stands(link, self._links) for link in links[:PORTRAIT_LINKS_MAX]),
            left_out=max(0, len(links) - PORTRAIT_LINKS_MAX),
        )


def as_it_stands(link: PaintedLink, links: Mapping[GatewayId, Link]) -> PaintedLink:
    """Return what an overlay says of a link; how primary ones stand we know ourselves."""
    known = links.get(link.gateway)
    return link if known is None else replace(link, up=known.state is LinkState.UP)
