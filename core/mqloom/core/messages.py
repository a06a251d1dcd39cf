"""The messages between neighbouring gateways, in the order in which a link begins, lives and ends.

A link is a FIFO of frames in each direction. Announcements, withdrawals and publications share it, so that a table
and the publications routed by it are never out of step. Tags are part of the wire format: never reuse one.
"""

from typing import Annotated

from msgspec import Meta, Struct

from mqloom.core.ids import Conversation, GatewayName, Number, SubscriptionKey
from mqloom.core.limits import (
    CONTROL_BYTES_MAX,
    CONTROL_HOPS_MAX,
    FILTER_TEXT_MAX,
    HOPS_MAX,
    PATH_MAX,
    PROBLEM_MAX,
    TOLD_BYTES_MAX,
)
from mqloom.core.publication import Publication, TopicText


class Hello(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Greets a neighbour; `heard` is the conversation of the neighbour's that we follow, if any.

    `asks` is for an answer: the sender is not up, and has said nothing but greetings in this conversation.
    """

    heard: Conversation | None
    asks: bool


class Announce(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Somebody on the sender's side wants this; answered by Established.

    The anchor is a gateway on the way to the subscriber, further than the sender if there is one. The same key again,
    with another anchor, replaces the one before. `hops` is how many links it had crossed when the sender heard of it;
    gateways of before say nothing about it.
    """

    key: SubscriptionKey
    topics: TopicText
    where: Annotated[str, Meta(max_length=FILTER_TEXT_MAX)]
    anchor: GatewayName | None = None
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)] = 0


class Synced(Struct, frozen=True, array_like=True, tag=4, gc=False):
    """The sender has announced everything it had: what it did not name again is gone."""


class Withdraw(Struct, frozen=True, array_like=True, tag=5, gc=False):
    """Nobody on the sender's side needs this announcement any more (another may stand in for it)."""

    key: SubscriptionKey


class Established(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """Every gateway behind the sender now routes for this announcement; not complete: every one in reach."""

    key: SubscriptionKey
    complete: bool = True


class Flush(Struct, frozen=True, array_like=True, tag=7, gc=False):
    """Asks everybody behind the receiver to answer once all publications that entered before are on their way."""

    gateway: GatewayName
    epoch: Number
    number: Number


class Flushed(Struct, frozen=True, array_like=True, tag=8, gc=False):
    """Everybody behind the sender has answered that Flush: what entered there before it has been sent already.

    Not complete: everybody in reach.
    """

    gateway: GatewayName
    epoch: Number
    number: Number
    complete: bool = True


class Control(Struct, frozen=True, array_like=True, tag=9, gc=False):
    """A control publication of an agent: it goes to the agents of that name, `hops_left` links far at most."""

    origin: GatewayName
    epoch: Number
    number: Number
    hops_left: Annotated[int, Meta(ge=0, le=CONTROL_HOPS_MAX)]
    agent: Annotated[str, Meta(min_length=1, max_length=64)]
    body: Annotated[bytes, Meta(max_length=CONTROL_BYTES_MAX)]


class Told(Struct, frozen=True, array_like=True, tag=10, gc=False):
    """What the sender's overlay tells the receiver's."""

    body: Annotated[bytes, Meta(max_length=TOLD_BYTES_MAX)]


class Mark(Struct, frozen=True, array_like=True, tag=11, gc=False):
    """A gateway's low-water mark, for those whom its publications reach over soft links, where they carry none.

    It goes behind publications, over primary links only, and not past what is parked there.
    """

    gateway: GatewayName
    epoch: Number
    low_water: Number


class Freeze(Struct, frozen=True, array_like=True, tag=12, gc=False):
    """A gateway is about to move a primary link (paper 001, section 6): asks for leave, and for soft links to keep off.

    The path begins with the gateway that moves, and goes over its old neighbour to its new one. It is said again to one
    who may have forgotten it; then it is no question. `instead_of` is for the new neighbour to keep (`PlaceLink`).
    """

    mover: GatewayName
    number: Number
    path: Annotated[tuple[GatewayName, ...], Meta(min_length=3, max_length=PATH_MAX)]
    hops_left: Annotated[int, Meta(ge=0, le=CONTROL_HOPS_MAX)]
    is_again: bool = False
    instead_of: tuple[GatewayName, GatewayName] | None = None


class Frozen(Struct, frozen=True, array_like=True, tag=13, gc=False):
    """The answer to Freeze of everybody behind the sender; with a problem, it must not be."""

    mover: GatewayName
    number: Number
    problem: Annotated[str, Meta(max_length=PROBLEM_MAX)] = ""


class Thaw(Struct, frozen=True, array_like=True, tag=14, gc=False):
    """A move is over, one way or the other."""

    mover: GatewayName
    number: Number
    hops_left: Annotated[int, Meta(ge=0, le=CONTROL_HOPS_MAX)]


class Passed(Struct, frozen=True, array_like=True, tag=15, gc=False):
    """Goes once along the path of a move, behind publications: what was before it on the path has arrived."""

    mover: GatewayName
    number: Number
    round: Number
    path: Annotated[tuple[GatewayName, ...], Meta(min_length=3, max_length=PATH_MAX)]
    place: Annotated[int, Meta(ge=0, lt=PATH_MAX)]


class Parting(Struct, frozen=True, array_like=True, tag=16, gc=False):
    """By its move of this number, the sender is no neighbour of the receiver any more."""

    number: Number


Message = (
    Publication
    | Hello
    | Announce
    | Synced
    | Withdraw
    | Established
    | Flush
    | Flushed
    | Control
    | Told
    | Mark
    | Freeze
    | Frozen
    | Thaw
    | Passed
    | Parting
)
