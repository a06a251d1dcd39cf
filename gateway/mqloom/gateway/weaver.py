"""The hands of the overlay: what it wants is done here, and what becomes of its soft links it is told."""

from collections.abc import Collection

from mqloom.core.ids import GatewayId
from mqloom.core.messages import Told
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    CountOverlay,
    OpenSoftLink,
    OverlayEffect,
    OverlayEvent,
    OverlayWoke,
    TellNeighbour,
    WakeOverlayAt,
)
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.portraits import Painter
from mqloom.gateway.routes import Routes
from mqloom.gateway.soft_links import SoftLinks
from mqloom.gateway.traffic import Traffic


class Weaver:
    """Carries out what one gateway's overlay wants."""

    def __init__(  # noqa: PLR0913 - the node's other parts, each used
        self,
        *,
        overlay: GuardedOverlay,
        peers: Collection[GatewayId],
        outbox: Outbox,
        urgent: Outbox,
        soft_links: SoftLinks,
        routes: Routes,
        traffic: Traffic,
        flushes: Flushes,
        painter: Painter | None,
        journal: Journal,
    ) -> None:
        self._overlay = overlay
        self._peers = peers
        self._outbox = outbox
        self._urgent = urgent
        self._soft_links = soft_links
        self._routes = routes
        self._traffic = traffic
        self._flushes = flushes
        self._painter = painter
        self._journal = journal
        self._wakes_at: float | None = None

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return self._wakes_at

    def wake(self, now: float) -> None:
        """Wake the overlay, if it has asked for that."""
        if self._wakes_at is not None and now >= self._wakes_at:
            self._wakes_at = None
            self.hand(OverlayWoke(self._journal.counters.total("publications_forwarded")), now)

    def hand(self, event: OverlayEvent, now: float) -> None:
        """Hand an event to the overlay, and do what it answers."""
        if self._painter is not None:
            self._painter.note_change()
        effects = self._overlay.handle(event, now)
        for effect in effects:
            self._carry_out(effect, now)
        if any(isinstance(effect, AnchorsChanged) for effect in effects):
            self._routes.anchor_again()

    def _carry_out(self, effect: OverlayEffect, now: float) -> None:
        match effect:
            case TellNeighbour():
                outbox = self._urgent if effect.urgent else self._outbox
                outbox.post(effect.neighbour, [Told(effect.body)])
            case OpenSoftLink():
                if effect.gateway in self._peers:
                    self._soft_links.open(effect.gateway)
                else:
                    text = f"{effect.gateway!r:.100} is not in our configuration: a soft link there cannot be opened"
                    self._journal.refuse("links_refused", "unknown", text)
            case CloseSoftLink():
                self._soft_links.close(effect.gateway, now)
            case WakeOverlayAt():
                self._wakes_at = effect.at
            case CountOverlay():
                self._journal.counters.add(effect.counter, effect.reason, effect.amount)
            case AnchorsChanged():
                pass  # when all the rest is done

    def tend(self, now: float) -> None:
        """Let the overlay know which soft links stand, then send on another way what they gave back.

        That may be too much for the next soft link, which does not stand then, and gives it back in turn. As none comes
        to stand meanwhile, there is an end to it.
        """
        is_calm = not self._soft_links.are_stirred
        if is_calm:
            return
        while not is_calm:
            self._soft_links.sweep(now)
            changes = self._soft_links.stood()
            for change in changes:
                (self._overlay.soft.add if change.up else self._overlay.soft.discard)(change.gateway)
                self.hand(change, now)
            if self._traffic.reroute():
                self._flushes.follow()
            is_calm = not changes and not self._soft_links.have_returned
        self._flushes.advance(now)
