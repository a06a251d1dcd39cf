"""What a gateway holds, and how its links stand, as it is looked at from outside: for reports and tests."""

from typing import NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.gateway.links import LinkState


class Holdings(NamedTuple):
    """How much a gateway holds in memory for others."""

    duties: int
    intake: int
    deliveries: int
    flows: dict[GatewayId, int]


class Parking(NamedTuple):
    """What is known of the park for one neighbour: whether it may hold anything, and how many were put in lately."""

    is_used: bool
    lately: int
    """Publications that were put in since the last marker, so that there are at least so many."""


class Progress(NamedTuple):
    """How far our own broker's publications are taken care of: the oldest that is not, and the next to come."""

    oldest: int | None
    next: int


class Look(NamedTuple):
    """One gateway at one moment."""

    links: dict[GatewayId, LinkState]
    """Primary ones."""
    holdings: Holdings
    parks: dict[GatewayId, Parking]
    progress: Progress
    subscriptions_here: int
    subscriptions_elsewhere: int
    clients: int
    migrating: int = 0
    """Clients that are being moved to other brokers."""
    is_draining: bool = False
