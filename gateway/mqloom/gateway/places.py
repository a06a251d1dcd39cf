"""Where a gateway stands in the primary network: its neighbours, since when, and from whom it has parted.

The configuration names the neighbours; moves change them. What they are is kept as a retained message on our own
broker, so that a gateway that crashes comes back in the old network or in the new one. The record always says what is
to be done after a crash: while a gateway tries to move, its new neighbour stands among those it has parted from, and
is told so if it asks.

Moves are numbered so that whoever takes part in a later one knows a larger number: a gateway's next number is one more
than any that it has heard of.

When the configuration has changed. A link that was moved stands for one of the configuration, and both its ends keep
for which. So every link of the network stands for one of the configuration, each for another, and what has changed
there is done to the network by each gateway for itself, so that both ends of a link come to the same:

    a link of the configuration   then
    as before                     whatever stands for it stays
    added                         it is a link; if it was one by a move, it stands for itself from now on
    removed                       whatever stands for it is no link any more
    with a broker that is gone    likewise
"""

from collections.abc import Collection, Sequence
from typing import Final

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import PARTED_EVERY_S, PARTED_MAX
from mqloom.core.records import Place, PlaceLink, decode_place, encode_place
from mqloom.gateway.journal import Journal

MISSED_MAX: Final = 1_000_000
"""Moves that others made unheard by us; a neighbour that names a number past that is not believed."""


class Places:
    """The primary links of one gateway, as they are kept."""

    def __init__(
        self,
        gateway: GatewayId,
        configured: Sequence[GatewayId],
        journal: Journal,
        network: Collection[tuple[GatewayId, GatewayId]] | None = None,
    ) -> None:
        self._gateway = gateway
        self._configured = tuple(configured)
        self._network = None if network is None else frozenset(map(frozenset, network))
        self._journal = journal
        self.number = 0
        """The largest number of a move that we have heard of."""
        self.links = {each: PlaceLink(each) for each in configured}
        self._parted: dict[GatewayId, int] = {}
        self._tell_at: dict[GatewayId, float] = {}
        self.former: dict[GatewayId, None] = {}
        """Those that were neighbours, and are not any more."""

    def read(self, data: bytes, peers: Collection[GatewayId]) -> bool:
        """Take what an earlier life of ours has kept; `peers` have known addresses.

        Whether it is of this configuration; if not, what has changed is done to the links, and must be kept.
        """
        try:
            place = decode_place(data)
        except RecordError as error:
            self._journal.refuse("places_refused", "malformed", f"what was kept of our neighbours: {error}")
            return False
        self.number = place.number
        self._parted = dict(place.parted)
        self.former = dict.fromkeys(place.former)
        kept = {link.gateway: link for link in place.links if link.gateway != self._gateway}
        self.links = {link.gateway: link for link in kept.values() if self._stays(link, peers)}
        added = [each for each in self._configured if each not in place.configured]
        for each in added:
            self._configure(kept.get(each, PlaceLink(each)))
        if not self.links and self._configured:  # nobody is left alone: we were away when something was changed
            text = "by what was kept we have no neighbours: the configuration counts"
            self._journal.refuse("places_refused", "configuration", text)
            for each in self._configured:
                self.add(PlaceLink(each))
        for link in kept.values():
            if link.gateway not in self.links:
                self._leave(link)
        return set(place.configured) == set(self._configured) and self.links == kept

    def reconfigure(
        self,
        configured: Sequence[GatewayId],
        network: Collection[tuple[GatewayId, GatewayId]],
        peers: Collection[GatewayId],
    ) -> None:
        """Another configuration holds: do to the links what a start with it would do."""
        data = encode_place(self._place())
        self._configured = tuple(configured)
        self._network = frozenset(map(frozenset, network))
        self.read(data, peers)

    def _stays(self, link: PlaceLink, peers: Collection[GatewayId]) -> bool:
        """Whether that for which a link stands is in the configuration, and so is its other end."""
        if link.gateway not in self._configured and link.gateway not in peers:
            return False
        if link.instead_of is None:
            return bool(link.number) or link.gateway in self._configured
        if self._gateway in link.instead_of:
            return any(each in self._configured for each in link.instead_of)
        return self._network is None or frozenset(link.instead_of) in self._network

    def _configure(self, link: PlaceLink) -> None:
        """A link has come into the configuration; a move may have made it before."""
        neighbour = link.gateway
        if neighbour in self.links and link.instead_of is not None:
            one, other = link.instead_of
            text = (
                f"the link to {neighbour} is in the configuration now, and so is still that of {one} and {other}, "
                "which had been moved there: the network is one link short. Take that out of the configuration"
            )
            self._journal.refuse("places_refused", "configuration", text)
        self.add(PlaceLink(neighbour, link.number, link.is_ours, (self._gateway, neighbour) if link.number else None))
        self._journal.tell("info", f"{neighbour} is our neighbour: the configuration says so now")

    def _leave(self, link: PlaceLink) -> None:
        """Have a neighbour no more, because of the configuration; one that came by a move may not know that."""
        self.remove(link.gateway)
        if link.number:
            self.part(link.gateway, self.number + 1)
        text = f"{link.gateway} is no neighbour any more, by the configuration; what was parked for it is discarded"
        self._journal.tell("info", text)

    def stands_for(self, neighbour: GatewayId) -> tuple[GatewayId, GatewayId] | None:
        """Return the link of the configuration for which that to a neighbour stands; None if it is not known."""
        link = self.links[neighbour]
        return (self._gateway, neighbour) if not link.number else link.instead_of

    def heard_of(self, number: int) -> bool:
        """Somebody uses this number; whether that can be, for so many moves nobody has missed."""
        if number > self.number + MISSED_MAX:
            return False
        self.number = max(self.number, number)
        return True

    def add(self, link: PlaceLink) -> None:
        """A gateway is a neighbour from now on."""
        self.heard_of(link.number)
        self.links[link.gateway] = link
        self._parted.pop(link.gateway, None)
        self.former.pop(link.gateway, None)

    def remove(self, gateway: GatewayId) -> None:
        """A gateway is no neighbour any more."""
        self.links.pop(gateway, None)
        if len(self.former) >= PARTED_MAX:
            del self.former[next(iter(self.former))]
        self.former[gateway] = None

    def part(self, gateway: GatewayId, number: int) -> None:
        """A gateway may believe itself our neighbour, and is not, by a move of ours."""
        self.heard_of(number)
        self._parted.pop(gateway, None)
        if len(self._parted) >= PARTED_MAX:
            del self._parted[next(iter(self._parted))]
        self._parted[gateway] = number

    def left(self) -> list[GatewayId]:
        """Return those that are no neighbours, and for whom something may be parked: it is of no use any more."""
        return [each for each in {**self.former, **self._parted} if each not in self.links]

    def has_parted(self, gateway: GatewayId) -> bool:
        """Whether somebody may believe itself our neighbour, and is not."""
        return gateway in self._parted and gateway not in self.links

    def parted_from(self, gateway: GatewayId, now: float) -> int:
        """Return by which move we have parted from one who speaks to us, if it is time to say so; else 0."""
        if not self.has_parted(gateway) or now < self._tell_at.get(gateway, now):
            return 0
        self._tell_at[gateway] = now + PARTED_EVERY_S
        return self._parted[gateway]

    def is_over(self, gateway: GatewayId, number: int) -> bool:
        """Whether a neighbour that has parted by a move of this number means the link that we have."""
        link = self.links.get(gateway)
        return link is not None and number >= link.number

    def check(self) -> None:
        """State the invariants."""
        assert self._gateway not in self.links
        assert self.links.keys().isdisjoint(self.former)
        assert all(gateway == link.gateway for gateway, link in self.links.items())
        assert all(number <= self.number for number in self._parted.values())
        assert max(len(self._parted), len(self.former)) <= PARTED_MAX

    def record(self) -> PublishLocally:
        """Return what is to be kept now."""
        payload = encode_place(self._place())
        return PublishLocally(topic=layout.place(self._gateway), payload=payload, qos=1, retain=True)

    def _place(self) -> Place:
        return Place(
            number=self.number,
            configured=self._configured,
            links=tuple(self.links.values()),
            parted=dict(self._parted),
            former=tuple(self.former),
        )

    def record_after(self, old: GatewayId, new: PlaceLink) -> PublishLocally:
        """Return what is to be kept when one link has taken the place of another."""
        after = Places(self._gateway, self._configured, self._journal)
        after.number, after.links = self.number, dict(self.links)
        after._parted, after.former = dict(self._parted), dict(self.former)
        after.swap(old, new)
        return after.record()

    def swap(self, old: GatewayId, new: PlaceLink) -> None:
        """Let one link take the place of another."""
        self.remove(old)
        self.add(new)
        self.part(old, new.number)
