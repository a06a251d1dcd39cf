"""What a client that is moved between brokers tells its driver, and is told: one leg for each broker it is at."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from mqloom.client.roles import Role
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    Adopted,
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Failed,
    Finished,
    MessageReceived,
    Note,
    Publish,
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core.ids import GatewayId
from mqloom.core.orders import RosterBroker

HOME_LEG: Final = 0
"""The leg by which a client begins: its driver connects it by itself, to the broker that the user has named."""

TURNED_AWAY: Final = {
    2: "it does not take our client id",
    4: "it does not take our user name and password",
    5: "it does not take our user name and password, or does not let us in",
    0x85: "it does not take our client id",
    0x86: "it does not take our user name and password",
    0x87: "it does not let us in",
    0x8A: "it has banned us",
    0x8C: "it wants another way to log in",
}
"""Codes of a CONNACK that speak of us, of MQTT 3.1.1 and of 5."""


class Place(NamedTuple):
    """Where to go; whose broker it is, is not known of a stranger."""

    gateway: GatewayId | None
    broker: RosterBroker


@dataclass(slots=True)
class Leg:
    """One broker that the client is at: by its gateway, if that is known."""

    number: int
    core: Subscriber
    role: Role
    gateway: GatewayId | None = None
    is_up: bool = False
    is_leaving: bool = False
    """Whether its core has been told to leave."""
    was_up: bool = False
    unserved_since: float | None = None
    """Of the leg at home: since when it does without its broker, or without the gateway."""
    end_by: float | None = None
    """When its role is over, whatever has come of it."""
    wake_at: float | None = None


class Referred(Struct, frozen=True, kw_only=True):
    """The broker at this address has ended our connection, or refused one, and named another place (MQTT 5)."""

    reference: str
    host: str
    port: int
    tls: bool = False


class TurnedAway(Struct, frozen=True, kw_only=True):
    """The broker of a leg does not let us in, because of who we are; its driver goes on trying."""

    reason: str


class Forgotten(Struct, frozen=True, kw_only=True):
    """The broker of a leg that was closed has forgotten our session, as it was to."""


class OnLeg(Struct, frozen=True, kw_only=True):
    """Something happened to one leg; it is lost before it is referred, and forgotten when it is no more."""

    leg: int
    event: Connected | ConnectionLost | MessageReceived | Referred | TurnedAway | Forgotten


class ForLeg(Struct, frozen=True, kw_only=True):
    """Do this by one leg."""

    leg: int
    effect: Subscribe | Publish


class OpenLeg(Struct, frozen=True, kw_only=True):
    """Connect to another broker, with a session that it keeps, and stay connected.

    But first all that was published before, by any leg that is up, must be acknowledged: it is our journal.
    """

    leg: int
    gateway: GatewayId | None
    """Whose broker it is, if that is known."""
    broker: RosterBroker


class CloseLeg(Struct, frozen=True, kw_only=True):
    """Disconnect for good, when all that was published by it is acknowledged; `forget`: the broker is to forget us.

    When it has, that is told (`Forgotten`).
    """

    leg: int
    forget: bool


class Migrated(Struct, frozen=True, kw_only=True):
    """Tell the user that another broker serves us from now on."""

    source: str
    to: str


class Stayed(Struct, frozen=True, kw_only=True):
    """Tell the user that we were to be moved, and why we were not."""

    to: str
    problem: str


TravelEvent = OnLeg | WishAdded | WishRemoved | CloseRequested | Woke
TravelEffect = (
    ForLeg
    | OpenLeg
    | CloseLeg
    | Migrated
    | Stayed
    | WakeAt
    | Deliver
    | Tell
    | Adopted
    | Note
    | Unserved
    | Failed
    | Finished
)
