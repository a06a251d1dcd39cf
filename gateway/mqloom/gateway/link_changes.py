"""Primary links that the configuration gains and loses while a gateway runs.

Theory of operation. What a start makes of another configuration (see `places`) is made of it now. A link that is added
begins as at a start: until the neighbour has said everything, it may want anything. One that is removed leaves: nothing
is routed there any more, and nothing counts that is said there but publications; what waits for it, or is parked, still
goes out. It ends when the neighbour has taken care of all that, and we of what came from there, but not before
LINGER_S: the other side, which has perhaps read the same just now, may have sent something. When it is not up it ends
at once, and after LEAVE_S in any case; what is left then is discarded, as at a start. All other links are as they were.

While a primary link is moved, here or near, and before we know who our neighbours are, all of it waits.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import LinkState
from mqloom.gateway.moves import Moves
from mqloom.gateway.neighbours import Neighbours

LEAVE_S: Final = 15.0
"""How long a link that is removed may take to finish."""

LINGER_S: Final = 1.0
"""How long it is there at least, while it is up."""


class Network(NamedTuple):
    """What a configuration says of gateways and their primary links."""

    neighbours: Sequence[GatewayId]
    peers: Collection[GatewayId]
    """All others, whose addresses are known."""
    links: Collection[tuple[GatewayId, GatewayId]]


class LinkChanges:
    """The links of one gateway, when its configuration changes."""

    def __init__(self, neighbours: Neighbours, moves: Moves, peers: set[GatewayId], journal: Journal) -> None:
        self._neighbours = neighbours
        self._moves = moves
        self._peers = peers
        self._journal = journal
        self._wanted: Network | None = None
        self._looked_at: float | None = None
        self._leaving: dict[GatewayId, float] = {}  # since when

    def change(self, network: Network) -> None:
        """Another configuration holds."""
        self._wanted = network

    def tend(self, now: float) -> None:
        """Go on as far as possible, after whatever has happened."""
        parts = self._neighbours
        if self._wanted is not None and parts.is_read and not self._moves.is_under_way and parts.freezes.is_free:
            wanted, self._wanted = self._wanted, None
            self._apply(wanted, now)
        for neighbour, since in list(self._leaving.items()):
            if now >= since + LEAVE_S or self._is_done(neighbour, since, now):
                self._end(neighbour, now)
        self._looked_at = now if self._leaving else None

    @property
    def deadline(self) -> float | None:
        """When `tend` must be called."""
        times = (since + wait_s for since in self._leaving.values() for wait_s in (LINGER_S, LEAVE_S))
        return min((at for at in times if self._looked_at is None or at > self._looked_at), default=None)

    def check(self) -> None:
        """State the invariants."""
        assert self._leaving.keys() == self._neighbours.leaving
        assert self._leaving.keys() <= self._neighbours.links.keys()
        assert self._leaving.keys().isdisjoint(self._neighbours.places.links)

    def _apply(self, network: Network, now: float) -> None:
        parts = self._neighbours
        before = dict(parts.places.links)
        self._peers |= {*network.peers}  # those that are gone are no peers any more when their links have ended
        parts.places.reconfigure(network.neighbours, network.links, network.peers)
        self._peers.intersection_update(network.peers)
        if parts.places.links == before:
            return
        parts.traffic.keep(parts.places.record(), lambda: None)
        for neighbour in before:
            if neighbour not in parts.places.links:
                self._leave(neighbour, now)
        parts.change_overlay(now)
        for neighbour, link in parts.places.links.items():
            if neighbour not in before:
                if neighbour in self._leaving:  # it has come back before it was gone
                    self._end(neighbour, now)
                parts.add(link, now)

    def _leave(self, neighbour: GatewayId, now: float) -> None:
        self._leaving[neighbour] = now
        self._neighbours.leaving.add(neighbour)
        self._neighbours.forget_wishes(neighbour, now)
        self._neighbours.traffic.heard(neighbour)  # it wants nothing

    def _is_done(self, neighbour: GatewayId, since: float, now: float) -> bool:
        parts, link = self._neighbours, self._neighbours.links[neighbour]
        if link.state is not LinkState.UP:
            return True
        return (
            now >= since + LINGER_S
            and not link.held
            and parts.traffic.has_sent_all(neighbour)
            and not parts.traffic.open_from(neighbour)
        )

    def _end(self, neighbour: GatewayId, now: float) -> None:
        parts = self._neighbours
        del self._leaving[neighbour]
        parts.leaving.discard(neighbour)
        parts.soft_links.orders += parts.links[neighbour].last_ack(now)
        parts.drop(neighbour, now)
        self._journal.tell("info", f"the link to {neighbour} is closed: it is not in the configuration any more")
