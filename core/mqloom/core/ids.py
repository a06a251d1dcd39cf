"""Who is who: names given by people, and numbers given by gateways. No meaning is ever parsed out of an id."""

from typing import Annotated, NamedTuple, NewType

from msgspec import Meta

from mqloom.core.limits import ID_LENGTH_MAX

GatewayId = NewType("GatewayId", str)
"""The gateway beside one broker; the configuration calls it by its broker's id."""

ClientId = NewType("ClientId", str)
"""A client with content subscriptions, by the name in its record's topic."""

GatewayName = Annotated[GatewayId, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
"""A gateway's id where it is read from the wire."""

Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A count or an epoch where it is read from the wire."""


class SubscriptionKey(NamedTuple):
    """One subscription in the whole federation: the gateway that took it, its epoch, and a number counted there."""

    gateway: GatewayName
    epoch: Number
    number: Number


class PublicationId(NamedTuple):
    """One publication in the whole federation: the gateway where it entered, its epoch, and a number counted there.

    The driver gives the epoch, and a later start of the same gateway always gets a larger one.
    """

    origin: GatewayName
    epoch: Number
    sequence: Number


class Conversation(NamedTuple):
    """One unbroken run of frames from a gateway to a neighbour; a later one is always larger."""

    epoch: Number
    number: Number
