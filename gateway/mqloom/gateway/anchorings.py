"""By which anchors subscriptions are kept and announced, asked of the overlay once for all that came alike.

A subscription's anchor (paper 001, section 4) is a gateway on the way to the subscriber, as far away as our map
reaches. What the overlay answers follows from the side and the anchor that the neighbour named, and of these there are
no more than gateways on the map, however many subscriptions. So when the map changes each pair of them is asked for
once, and only the subscriptions of those with another answer have to be told again.

What the overlay answered counts until it says that its answers may be different (`AnchorsChanged`). An overlay that
raises when it is asked has answered with the neighbour, which is always right.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.gateway.guarded import GuardedOverlay

Anchor = GatewayId | None
"""None is here."""


@dataclass(slots=True, eq=False)
class Anchoring:
    """The subscriptions that came from one side (None: here) by one anchor as the neighbour named it."""

    source: GatewayId | None
    named: Anchor
    anchor: Anchor
    """By which they are kept."""
    keys: dict[SubscriptionKey, None] = field(default_factory=dict)
    announced: dict[GatewayId, Anchor] = field(default_factory=dict)
    """By which they are announced, by neighbour."""


class Anchorings:
    """All subscriptions of one gateway by how they came."""

    def __init__(self, overlay: GuardedOverlay) -> None:
        self._overlay = overlay
        self._anchorings: dict[tuple[GatewayId | None, Anchor], Anchoring] = {}

    def join(self, key: SubscriptionKey, source: GatewayId | None, named: Anchor) -> Anchoring:
        """Take in a subscription that is in none."""
        anchoring = self._anchorings.get((source, named))
        if anchoring is None:
            anchoring = Anchoring(source, named, self._overlay.anchor_here(named, source))
            self._anchorings[source, named] = anchoring
        anchoring.keys[key] = None
        return anchoring

    def leave(self, key: SubscriptionKey, anchoring: Anchoring) -> None:
        """Forget a subscription."""
        del anchoring.keys[key]
        if not anchoring.keys:
            del self._anchorings[anchoring.source, anchoring.named]

    def announced(self, anchoring: Anchoring, target: GatewayId) -> Anchor:
        """Return by which anchor a neighbour is told of these; None is ourselves."""
        if target not in anchoring.announced:
            anchoring.announced[target] = self._overlay.anchor_for(anchoring.anchor, target)
        return anchoring.announced[target]

    def forget(self, neighbour: GatewayId) -> None:
        """Forget what a neighbour was told: it is none any more, or begins anew."""
        for anchoring in self._anchorings.values():
            anchoring.announced.pop(neighbour, None)

    def ask_again(self) -> Iterator[Anchoring]:
        """The overlay's answers may be different: take the new ones; return whom a neighbour must be told of anew."""
        for anchoring in self._anchorings.values():
            anchoring.anchor = self._overlay.anchor_here(anchoring.named, anchoring.source)
            before = anchoring.announced
            anchoring.announced = {target: self._overlay.anchor_for(anchoring.anchor, target) for target in before}
            if anchoring.announced != before:
                yield anchoring

    def __len__(self) -> int:
        return len(self._anchorings)

    def check(self) -> None:
        """State the invariants."""
        for (source, named), anchoring in self._anchorings.items():
            assert (anchoring.source, anchoring.named) == (source, named)
            assert anchoring.keys
