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
    CONTROL_WHERE_TEXT_MAX,
    CONTROL_WHERES_MAX,
    FILTER_TEXT_MAX,
    HOPS_MAX,
    PATH_MAX,
    PROBLEM_MAX,
    SUBJECT_TEXT_MAX,
    SUBJECT_VALUES_MAX,
    TOLD_BYTES_MAX,
)
from mqloom.core.publication import Publication, TopicText

AgentName = Annotated[str, Meta(min_length=1, max_length=64)]
Hops = Annotated[int, Meta(ge=0, le=CONTROL_HOPS_MAX)]
_SubjectText = Annotated[str, Meta(max_length=SUBJECT_TEXT_MAX)]
SubjectTold = Annotated[dict[_SubjectText, bool | int | float | _SubjectText], Meta(max_length=SUBJECT_VALUES_MAX)]
Where = Annotated[str, Meta(max_length=CONTROL_WHERE_TEXT_MAX)]


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
    """A control publication of an agent: it goes to the agents of that name, `hops_left` links far at most.

    With a subject only to those who want it (`Want`). `hops` is how many links it had crossed before this one.
    """

    origin: GatewayName
    epoch: Number
    number: Number
    hops_left: Hops
    agent: AgentName
    body: Annotated[bytes, Meta(max_length=CONTROL_BYTES_MAX)]
    subject: SubjectTold = {}
    hops: Hops = 0


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


class Want(Struct, frozen=True, array_like=True, tag=18, gc=False):
    """Behind the sender, this agent of `origin` wants control publications whose subject one of these filters matches.

    It replaces what the agent wanted by a smaller epoch and number. No filter: nothing any more, or not through the
    sender. `hops` is how many links it had crossed when the sender heard of it, of `hops_max` that it may.
    """

    origin: GatewayName
    epoch: Number
    number: Number
    agent: AgentName
    wheres: Annotated[tuple[Where, ...], Meta(max_length=CONTROL_WHERES_MAX)]
    hops: Hops = 0
    hops_max: Hops = 0


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
    | Want
)
