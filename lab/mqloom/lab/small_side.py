"""One gateway with all that is beside it, as a value: its node, its driver, and what its broker keeps for it.

A side changes only by its own steps, each a pure function of the side and what comes to it. So a step that was taken
once is looked up when it is to be taken again, whatever the rest of the world is like by then: in a search over a
whole world nearly all of them are.

The ways between driver and broker are queues. What the driver has written and the broker not yet read is lost in a
crash; how much of it the broker had read is part of the crash (`Lost`), and until then it does not matter. This is
sound: of what a broker reads nobody learns anything but by its answer, and the answers are steps of their own.

    way                      what is in it                           read, at the latest
    `publishes`              deliveries, parked messages             with its PUBACK, a step
    `unread`                 acknowledgements of data, and fences    with the answer to a fence, a step
    `Park.unread`            acknowledgements of the park            when the park is closed

A parked message may come back before its PUBACK does: the two ways are independent.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mqloom.core.events import Event
from mqloom.core.ids import GatewayId
from mqloom.core.wire import decode

CONNECTION: Final = 1_000
"""A receipt is the number of the connection times this, and what was handed over on it."""


class Handed(NamedTuple):
    """A publication on its way from the broker to the gateway."""

    packet: int
    publication: int
    again: bool


class Unread(NamedTuple):
    """An acknowledgement (of a receipt) or a fence on its way to the broker.

    Its answer comes behind what the broker had handed over before it was sent: so many publications.
    """

    receipt: int = 0
    fence: int | None = None
    behind: int = 0


NO_PARK: Final = -1
PLACE: Final = -2
NOWHERE: Final = -3
"""Not for a park: for a client; the record of our place, retained; for a park that is gone."""


class Publish(NamedTuple):
    """A message on its way to the broker; `park` is the place of a neighbour whose park it is for, or one of these."""

    number: int
    topic: str
    payload: bytes
    park: int


class Park(NamedTuple):
    """The session in which the broker keeps what is parked for a neighbour."""

    messages: tuple[bytes, ...] = ()
    openings: int = 0
    is_open: bool = False
    handed: int = 0
    """How many messages were handed over in this opening; of these `settled` are gone from the session."""
    settled: int = 0
    unread: int = 0
    is_there: bool = True
    """Whether the broker has such a session at all."""


class Lost(NamedTuple):
    """How much of what was on its way the broker had read before a crash."""

    publishes: int
    unread: int
    parks: tuple[int, ...]


class Side(NamedTuple):
    """A gateway and its broker. `node` is its number in the store, 0 while it is down."""

    node: int
    epoch: int
    connection: int = 0
    """The number of the connection by which publications come in."""
    session: tuple[Handed, ...] = ()
    """What the broker keeps until it is acknowledged; `again`: it was sent already."""
    packet: int = 0
    handing: tuple[Handed, ...] = ()
    is_open: bool = False
    unread: tuple[Unread, ...] = ()
    publishes: tuple[Publish, ...] = ()
    read: int = 0
    """How many of `publishes` the broker has read without its answer having come."""
    parks: tuple[Park, ...] = ()
    starting: tuple[Event, ...] = ()
    place: bytes = b""
    """What the broker has retained of who the neighbours are."""
    is_safe: bool = False
    """Nothing that it writes to its broker will be lost any more."""


class Outward(NamedTuple):
    """What leaves a side: to a neighbour (a frame or an acknowledgement), or to a client of its broker.

    Or a connection to a neighbour is opened or closed.
    """

    kind: str
    to: str
    data: bytes


class Names(NamedTuple):
    """Who is who around one side."""

    gateway: GatewayId
    neighbours: tuple[GatewayId, ...]
    payloads: tuple[tuple[str, bytes], ...]
    """Topic and payload of each publication of the world."""
    may_move: bool = False
    """Whether neighbours come and go: connections are opened and closed as the node says."""


def enter(side: Side, publication: int) -> Side:
    """Let a client publish: the broker hands it over, or keeps it."""
    handed = Handed(side.packet + 1, publication, again=False)
    side = side._replace(packet=handed.packet)
    if not side.node:
        return side._replace(session=(*side.session, handed))
    session = (*side.session, handed._replace(again=True))
    return side._replace(session=session, handing=(*side.handing, handed))


def read_publishes(side: Side, count: int) -> tuple[Side, list[Outward]]:
    """Let the broker read up to so many of what was published: into parks, and to clients."""
    outward = []
    parks = list(side.parks)
    for publish in side.publishes[side.read : count]:
        if publish.park >= 0:
            park = parks[publish.park]
            parks[publish.park] = park._replace(messages=(*park.messages, publish.payload))
        elif publish.park == PLACE:
            side = side._replace(place=publish.payload)
        elif publish.park == NO_PARK:
            outward.append(Outward("client", publish.topic, publish.payload))
    return side._replace(parks=tuple(parks), read=max(side.read, count)), outward


def read_acknowledgements(side: Side, count: int) -> Side:
    """Let the broker read so many acknowledgements and fences of data: what is acknowledged is gone."""
    packets = {each.receipt % CONNECTION for each in side.unread[:count] if each.receipt}
    session = tuple(each for each in side.session if each.packet not in packets)
    return side._replace(session=session, unread=side.unread[count:])


def read_park(park: Park, count: int) -> Park:
    """Let the broker read so many acknowledgements of what it gave back.

    When it has all of them, nobody knows any of their receipts: counting begins anew, and equal parks are equal.
    """
    settled, unread = park.settled + count, park.unread - count
    if settled == park.handed and not unread:
        return park._replace(messages=park.messages[count:], handed=0, settled=0, unread=0)
    return park._replace(messages=park.messages[count:], settled=settled, unread=unread)


def read_all(side: Side) -> tuple[Side, list[Outward]]:
    """Let the broker read all that is on its way: what it does when nothing can be lost of it any more."""
    side, outward = read_publishes(side, len(side.publishes))
    fences = tuple(each for each in side.unread if each.fence is not None)
    side = read_acknowledgements(side, len(side.unread))
    parks = tuple(read_park(park, park.unread) for park in side.parks)
    return side._replace(unread=fences, parks=parks), outward


def crash(side: Side, lost: Lost) -> tuple[Side, list[Outward]]:
    """Lose everything but what the broker keeps.

    Markers are left out of the parks: those of a life that is over are acknowledged as soon as they come back, and
    nothing else becomes of them.
    """
    side, outward = read_publishes(side, lost.publishes)
    side = read_acknowledgements(side, lost.unread)
    parks = (read_park(park, count) for park, count in zip(side.parks, lost.parks, strict=True))
    kept = tuple(
        Park(tuple(data for data in park.messages if decode(data).messages), is_there=park.is_there) for park in parks
    )
    return Side(0, side.epoch, side.connection, side.session, side.packet, parks=kept, place=side.place), outward


def open_park(side: Side, index: int) -> Side:
    """Let the broker have a session for what is parked for a neighbour."""
    return _with_park(side, index, side.parks[index]._replace(is_there=True))


def discard_park(side: Side, index: int) -> Side:
    """Let the broker forget such a session, with all that is in it and on its way there."""
    publishes = tuple(each._replace(park=NOWHERE) if each.park == index else each for each in side.publishes)
    return _with_park(side._replace(publishes=publishes), index, Park(is_there=False))


def _with_park(side: Side, index: int, park: Park) -> Side:
    return side._replace(parks=(*side.parks[:index], park, *side.parks[index + 1 :]))


def crashes(side: Side) -> list[Lost]:
    """Return all that a crash may lose now."""
    parks: list[tuple[int, ...]] = [()]
    for park in side.parks:
        parks = [(*counts, count) for counts in parks for count in range(park.unread + 1)]
    return [
        Lost(publishes, unread, counts)
        for publishes in range(side.read, len(side.publishes) + 1)
        for unread in range(len(side.unread) + 1)
        for counts in parks
    ]


def break_intake(side: Side, read: int) -> Side:
    """Break the connection by which publications come in, and make it anew: the broker sends everything again.

    So much of what was on its way by it the broker had read; the rest is lost.
    """
    return _connect(read_acknowledgements(side, read)._replace(unread=()))


def restart(side: Side, starting: Sequence[Event]) -> Side:
    """Start a gateway again: its broker sends what was not acknowledged, and what has come meanwhile."""
    return _connect(side)._replace(epoch=side.epoch + 1, starting=tuple(starting))


def _connect(side: Side) -> Side:
    session = tuple(each._replace(again=True) for each in side.session)
    return side._replace(connection=side.connection + 1, session=session, handing=side.session)
