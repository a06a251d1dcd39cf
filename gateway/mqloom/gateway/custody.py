"""Custody of publications: who is to be told, and when, that one is taken care of.

Theory of operation. A publication of QoS 1 that came to us is our duty until others have taken it over: every next hop
has acknowledged it (or our own broker has it parked for that hop), and our own broker has acknowledged every delivery
to a local subscriber. Only then is it acknowledged to where it came from: a source. Whoever crashes in between is sent
it again by whoever waits for that acknowledgement.

A duty begins with one claim on it, that of being routed; each next hop and each local delivery is one more. When the
last claim is met, its sources are told.

    a publication comes         and the duty is    then
    for the first time                             begin: it waits for its claims
    again, from its source      open               join: that source is told together with the first
    again, from another one     open               that one is told at once
    again, and it or the first  open               join
    came over a soft link
    again, from the other end   open               join
    of a link that is moved
    again                       met                its source is told at once

From another source: that one need not wait, for the first source holds the publication until we are done. It must not
wait either. In a network with cycles two gateways would wait for each other, or three, each for the next. So whoever
waits for us is the one from which a publication first came, and who waits for whom is a tree.
With soft links that is not so. Whoever used one may have given it up, or have restarted, and now sends the publication
another way: then nobody but the second source holds it. So both wait. A soft link always leads away from the origin, in
a primary network without cycles: nobody waits for himself.
While a primary link is moved from one neighbour to another, either may be the one that goes; so both wait. Neither is
sent what came from the other.
A repeat in another epoch of its origin (see `core.seen`) is the same publication, and the duty is known by both names.
"""

from collections.abc import Callable
from typing import NamedTuple

from mqloom.core.ids import Conversation, GatewayId, PublicationId


class FromBroker(NamedTuple):
    """A client of our own broker published it; it has this sequence."""

    sequence: int


class FromNeighbour(NamedTuple):
    """A neighbour sent it, at this place of a conversation."""

    neighbour: GatewayId
    conversation: Conversation
    place: int


class FromGuest(NamedTuple):
    """A gateway that is no neighbour sent it over a soft link, at this place of a conversation."""

    guest: GatewayId
    conversation: Conversation
    place: int


class FromPark(NamedTuple):
    """Our own broker gave back what was parked for a neighbour, and waits for this receipt."""

    neighbour: GatewayId
    receipt: int


class FromUs(NamedTuple):
    """We want something kept by our own broker ourselves, and do this then."""

    then: Callable[[], None]


Source = FromBroker | FromNeighbour | FromGuest | FromPark | FromUs


class Duty:
    """What is to be taken care of before its sources may be told."""

    __slots__ = ("claims", "ids", "sources")

    def __init__(self, source: Source) -> None:
        self.claims = 1
        self.sources: list[Source] = [source]
        self.ids: list[PublicationId] = []


class Custody:
    """The open duties of one gateway."""

    def __init__(self) -> None:
        self._open: dict[PublicationId, Duty] = {}
        self._met: list[Source] = []
        self.twins: frozenset[GatewayId] = frozenset()
        """Two neighbours on the same side, while a primary link is moved from one to the other."""

    def begin(self, source: Source, id_: PublicationId | None = None) -> Duty:
        """Take over a publication, or something else that has no id."""
        duty = Duty(source)
        if id_ is not None:
            duty.ids.append(id_)
            self._open[id_] = duty
        return duty

    def again(self, source: Source, id_: PublicationId, known_as: PublicationId) -> None:
        """The same publication has come again, perhaps by another name."""
        duty = self._open.get(known_as)
        if duty is not None and id_ not in duty.ids:
            duty.ids.append(id_)
            self._open[id_] = duty
        if duty is not None and self._is_waited_for(duty, source):
            duty.sources.append(source)
        else:
            self._met.append(source)

    def meet(self, duty: Duty) -> None:
        """One claim on a duty is met."""
        assert duty.claims > 0
        duty.claims -= 1
        if not duty.claims:
            for id_ in duty.ids:
                if self._open.get(id_) is duty:  # else it was forgotten by duplicate removal, and has begun again
                    del self._open[id_]
            self._met += duty.sources

    def open_from(self, neighbour: GatewayId) -> list[Duty]:
        """Return the open duties that a neighbour gave us."""
        duties = {id(duty): duty for duty in self._open.values()}.values()
        return [duty for duty in duties if any(_is_from(source, neighbour) for source in duty.sources)]

    def forget(self, neighbour: GatewayId) -> None:
        """Somebody is no neighbour any more, and waits for nothing."""
        for duty in self.open_from(neighbour):
            duty.sources = [source for source in duty.sources if not _is_from(source, neighbour)]

    def met(self) -> list[Source]:
        """Return the sources to be told, since the last call."""
        met, self._met = self._met, []
        return met

    def __len__(self) -> int:
        return len(self._open)

    def _is_waited_for(self, duty: Duty, source: Source) -> bool:
        """Whether a source waits for us: the one that gave us this duty, or one that cannot rely on that one."""
        if not duty.sources:  # whoever gave it to us is no neighbour any more
            return True
        first = duty.sources[0]
        if isinstance(first, FromBroker):  # it has come back to where it began
            return False
        if isinstance(first, FromNeighbour) and isinstance(source, FromNeighbour):
            pair = {first.neighbour, source.neighbour}
            return len(pair) == 1 or pair == self.twins  # in this conversation or an earlier one
        return True


def _is_from(source: Source, neighbour: GatewayId) -> bool:
    return isinstance(source, FromNeighbour) and source.neighbour == neighbour
