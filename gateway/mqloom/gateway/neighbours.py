"""Neighbours that come and go while a gateway runs: the beginning and the end of a primary link, in all its parts."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from mqloom.core.effects import CloseLink, Effect, OpenLink
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.messages import Message
from mqloom.core.records import PlaceLink
from mqloom.gateway.aliases import Aliases
from mqloom.gateway.control_wants import ControlWants
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.freezes import Freezes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import LinkStood, OverlayEvent
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import Link, LinkState
from mqloom.gateway.places import Places
from mqloom.gateway.routes import Routes
from mqloom.gateway.soft_links import SoftLinks
from mqloom.gateway.traffic import Traffic


@dataclass(kw_only=True)
class Neighbours:
    """The primary links of one gateway, in all parts that know of them."""

    gateway: GatewayId
    epoch: int
    links: dict[GatewayId, Link]
    peers: Collection[GatewayId]
    """Those whose address is known."""
    places: Places
    routes: Routes
    traffic: Traffic
    flushes: Flushes
    freezes: Freezes
    soft_links: SoftLinks
    overlay: GuardedOverlay
    tell_overlay: Callable[[OverlayEvent, float], None]
    wants: ControlWants
    journal: Journal
    told_synced: set[GatewayId] = field(default_factory=set)
    """Those to whom we have said everything."""
    unkept: set[GatewayId] = field(default_factory=set)
    """Those of whom our broker has not yet kept that they are our neighbours."""
    leaving: set[GatewayId] = field(default_factory=set)
    """Those that the configuration has lost, and that only get what was for them."""
    aliases: dict[GatewayId, Aliases] = field(default_factory=dict)
    is_read: bool = False
    """Whether we know what was kept of our neighbours."""

    def read(self, data: bytes, now: float) -> None:
        """Take who the neighbours are from what was kept, and ask for connections to them; at the start."""
        self.is_read = True
        if not (data and self.places.read(data, self.peers)):  # the next life must know what this one was told
            self.traffic.keep(self.places.record(), lambda: None)
        gone = [each for each in self.links if each not in self.places.links]
        new = [link for link in self.places.links.values() if link.gateway not in self.links]
        for neighbour in gone:
            self.routes.drop_neighbour(neighbour)
            self.drop(neighbour, now)
        if gone or new:
            self.change_overlay(now)
        for link in new:
            self.add(link, now)
        orders: list[Effect] = [CloseLink(neighbour=former, is_primary=True) for former in self.places.left()]
        self.soft_links.orders = [
            *orders,
            *(OpenLink(neighbour=neighbour, is_primary=True) for neighbour in self.links),
        ]

    def add(self, link: PlaceLink, now: float, *, is_known: bool = True) -> None:
        """Begin a link; the overlay knows of it unless it is one that is only about to be."""
        neighbour = link.gateway
        first = Conversation(self.epoch, self.soft_links.next_number(neighbour))
        self.links[neighbour] = Link(self.gateway, neighbour, first, now, self.journal)
        if link.is_ours:
            self.aliases[neighbour] = Aliases(self.gateway, link.number)
        self.traffic.add_neighbour(neighbour)
        self.soft_links.orders.append(OpenLink(neighbour=neighbour, is_primary=True))
        if is_known:
            self.change_overlay(now)
        self.routes.add_neighbour(neighbour)

    def forget_wishes(self, neighbour: GatewayId, now: float) -> None:
        """Route nothing over a link any more; it may still say its last words."""
        self.wants.close_link(neighbour)
        self.routes.drop_neighbour(neighbour)
        self.flushes.lose(neighbour, now)
        self.freezes.lose(neighbour)

    def drop(self, neighbour: GatewayId, now: float) -> None:
        """End a link, with all that was for it: whoever wants that gets it another way."""
        self.traffic.drop_neighbour(neighbour)
        self.wants.close_link(neighbour)
        link = self.links.pop(neighbour)
        self.soft_links.begin_at(neighbour, link.next_number)
        self.told_synced.discard(neighbour)
        self.unkept.discard(neighbour)
        self.aliases.pop(neighbour, None)
        self.soft_links.orders.append(CloseLink(neighbour=neighbour, is_primary=True))

    def change_overlay(self, now: float) -> None:
        """Tell the overlay who the neighbours are, and which of them are there."""
        named = [each for each in self.places.links if each in self.links]
        self.tell_overlay(self.overlay.set_neighbours(named), now)

    def stand(self, neighbour: GatewayId, now: float) -> None:
        """Tell the overlay of a link that has come up before it was the overlay's."""
        if self.links[neighbour].state is LinkState.UP:
            self.tell_overlay(LinkStood(neighbour, up=True), now)

    def check(self) -> None:
        """State the invariants."""
        self.places.check()
        self.freezes.check()
        self.overlay.check()
        assert self.places.links.keys() <= self.links.keys()
        assert self.told_synced <= self.links.keys()
        assert self.unkept <= self.links.keys()
        assert self.aliases.keys() <= self.links.keys()

    def outgoing(self, neighbour: GatewayId, messages: list[Message]) -> list[Message]:
        """Return messages as they are told over a link."""
        aliases = self.aliases.get(neighbour)
        return messages if aliases is None else [aliases.outgoing(message) for message in messages]
