"""What the moves of others ask of a gateway: to take on whoever comes, and to let go whoever has left.

How they are agreed to is in `freezes`, how a move of our own goes in `moves`.
"""

from collections.abc import Collection

from mqloom.core.ids import GatewayId
from mqloom.gateway.journal import Journal
from mqloom.gateway.neighbours import Neighbours


class MovesOfOthers:
    """Neighbours of one gateway that come and go by moves of their own."""

    def __init__(self, neighbours: Neighbours, journal: Journal) -> None:
        self._neighbours = neighbours
        self._keep = neighbours.traffic.keep
        self._journal = journal
        self._parting: dict[GatewayId, int] = {}

    def adopt(self, mover: GatewayId, now: float) -> bool:
        """Take on a gateway that greets us because it moves to us; whether it does, and all have agreed to that.

        It is told everything only when our broker has kept that it is our neighbour.
        """
        parts = self._neighbours
        link = parts.freezes.may_join(mover)
        if link is None:
            return False
        parts.places.add(link)
        parts.add(link, now)
        parts.unkept.add(mover)

        def kept() -> None:
            if parts.places.links.get(mover) == link:  # else it has parted, and perhaps come again
                parts.unkept.discard(mover)

        self._keep(parts.places.record(), kept)
        return True

    def renew(self) -> None:
        """Do not take the end of an earlier move, late, for that of one that is to come."""
        parts = self._neighbours
        if parts.freezes.is_free:
            return
        for mover, link in list(parts.places.links.items()):
            later = parts.freezes.may_join(mover)
            if later is not None and later.number > link.number:
                parts.places.add(later)
                self._keep(parts.places.record(), lambda: None)

    def parted(self, neighbour: GatewayId, number: int) -> None:
        """A neighbour is none any more, by its move of this number."""
        if self._neighbours.places.is_over(neighbour, number):
            self._parting[neighbour] = number

    def drop_parted(self, later: Collection[GatewayId], now: float) -> None:
        """End the links of those who have parted, but for some; their last words have been acknowledged."""
        parts = self._neighbours
        for neighbour, number in list(self._parting.items()):
            if neighbour in later:
                continue
            del self._parting[neighbour]
            if neighbour not in parts.links or not parts.places.is_over(neighbour, number):
                continue
            parts.places.remove(neighbour)
            parts.soft_links.orders += parts.links[neighbour].last_ack(now)
            parts.forget_wishes(neighbour, now)
            parts.drop(neighbour, now)
            parts.change_overlay(now)
            parts.freezes.parted(neighbour, now)
            self._keep(parts.places.record(), lambda: None)
            self._journal.tell("info", f"{neighbour} has moved away: it is no neighbour any more")

    def check(self) -> None:
        """State the invariants of all neighbours that come and go."""
        parts = self._neighbours
        parts.check()
        assert parts.unkept <= parts.places.links.keys()
