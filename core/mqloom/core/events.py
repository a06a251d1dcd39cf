"""Everything that can happen to a gateway's core, in the past tense; the events of the data path carry batches."""

from collections.abc import Mapping

from msgspec import Struct

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import Load
from mqloom.core.publication import Incoming
from mqloom.core.traits import Traits


class Started(Struct, frozen=True, kw_only=True):
    """The gateway's own connection to its broker is up for the first time."""


class BrokerKnown(Struct, frozen=True, kw_only=True):
    """Before it connected, the gateway found out how its broker behaves.

    Where that replays nothing to wildcards, these are the records of clients that our mirror there had, by client.
    """

    traits: Traits
    records: tuple[tuple[ClientId, bytes], ...] = ()


class PublishesReceived(Struct, frozen=True, kw_only=True):
    """Clients published on the local broker."""

    publications: tuple[Incoming, ...]


class RecordReceived(Struct, frozen=True, kw_only=True):
    """A client wrote, or deleted (no bytes), its subscription record."""

    client: ClientId
    data: bytes


class Asked(Struct, frozen=True, kw_only=True):
    """Somebody asked where a publication would go."""

    client: ClientId
    data: bytes


class Ordered(Struct, frozen=True, kw_only=True):
    """An operator ordered the gateway to move a primary link or clients, or to read its configuration again."""

    client: ClientId
    data: bytes


class RecordsRead(Struct, frozen=True, kw_only=True):
    """The broker has handed over all records that it kept for us."""


class PlaceRead(Struct, frozen=True, kw_only=True):
    """The broker has handed over, before the records, who our neighbours are (no bytes: nobody has moved)."""

    data: bytes


class InterestLearned(Struct, frozen=True, kw_only=True):
    """The plain MQTT clients of our own broker want this, and no more: all their topic filters, in any order."""

    filters: tuple[str, ...]
    passed_over: int = 0
    """How many further ones the adapter has not let count so far, because one client had too many."""


class RosterRead(Struct, frozen=True, kw_only=True):
    """This roster is on our own broker: what we kept there ourselves, or what somebody else has just written.

    What was kept comes before RecordsRead.
    """

    data: bytes


class DrainRead(Struct, frozen=True, kw_only=True):
    """What we kept on our own broker of a drain; comes before RecordsRead, if there is any."""

    data: bytes


class OrderAnswered(Struct, frozen=True, kw_only=True):
    """A client of our own broker said how far it has come with an order to move."""

    client: ClientId
    data: bytes


class ConfigurationRead(Struct, frozen=True, kw_only=True):
    """The configuration was read again for an operator, and holds; or not, because of a problem."""

    operator: ClientId
    problem: str = ""
    changed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """What holds only after a new start."""


class FramesReceived(Struct, frozen=True, kw_only=True):
    """A neighbour wrote frames to our link topic, in this order; `sender` is by the topic."""

    sender: GatewayId
    frames: tuple[bytes, ...]
    urgent: bool = False


class AcksReceived(Struct, frozen=True, kw_only=True):
    """A neighbour acknowledged frames of ours, on its own broker."""

    neighbour: GatewayId
    acks: tuple[bytes, ...]


class LocallyPublished(Struct, frozen=True, kw_only=True):
    """Our own broker has taken over what was published with these numbers."""

    numbers: tuple[int, ...]


class LocallyRefused(Struct, frozen=True, kw_only=True):
    """Our own broker has acknowledged what was published with this number, and says that it does not take it."""

    number: int
    reason: str


class FencePassed(Struct, frozen=True, kw_only=True):
    """Our own broker has acknowledged a fence; comes in order with the publications that it hands over."""

    number: int


class IntakeOpened(Struct, frozen=True, kw_only=True):
    """The connection by which publications come in stands.

    `echoes`: the broker hands over what we republish by it ourselves; without no-local, as on MQTT 3.1.1, brokers do.
    `resumed`: the broker has kept our session; else what it was to hand over is gone.
    """

    echoes: bool = True
    resumed: bool = True


class IntakeLost(Struct, frozen=True, kw_only=True):
    """The connection by which publications come in broke.

    The broker may not have got our last acknowledgements, and sends those publications again before anything else.
    """


class Parked(Struct, frozen=True, kw_only=True, gc=False):
    """A message that we parked for a neighbour, and the number by which the driver is told to acknowledge it."""

    data: bytes
    receipt: int


class ParkedReceived(Struct, frozen=True, kw_only=True):
    """Our own broker gives back what we parked for a neighbour, in its order; after a break, once more."""

    neighbour: GatewayId
    messages: tuple[Parked, ...]


class LinkConnected(Struct, frozen=True, kw_only=True):
    """We can write to a neighbour's broker."""

    neighbour: GatewayId


class LinkLost(Struct, frozen=True, kw_only=True):
    """We can no longer write to a neighbour's broker, or its gateway is gone."""

    neighbour: GatewayId


class Woke(Struct, frozen=True, kw_only=True):
    """The time that the last WakeAt asked for has come."""


class RanBeside(Struct, frozen=True, kw_only=True):
    """What RunBeside asked for has ended: with a result, or with a problem."""

    number: int
    result: object = None
    problem: str = ""


class LoadMeasured(Struct, frozen=True, kw_only=True):
    """This was the load of our broker and gateway in the window that has just ended.

    `broker` is what the broker says of itself at its end, by its own names; empty where it says nothing.
    """

    load: Load
    broker: Mapping[str, float] = {}


Written = (
    Asked
    | ConfigurationRead
    | DrainRead
    | InterestLearned
    | OrderAnswered
    | Ordered
    | PlaceRead
    | RecordReceived
    | RecordsRead
    | RosterRead
)
"""What people, clients and a gateway itself have written, on its broker or in its configuration."""

Event = (
    Started
    | BrokerKnown
    | PublishesReceived
    | RecordReceived
    | RecordsRead
    | PlaceRead
    | Asked
    | Ordered
    | InterestLearned
    | RosterRead
    | DrainRead
    | OrderAnswered
    | ConfigurationRead
    | FramesReceived
    | AcksReceived
    | LocallyPublished
    | LocallyRefused
    | FencePassed
    | IntakeOpened
    | IntakeLost
    | ParkedReceived
    | LinkConnected
    | LinkLost
    | RanBeside
    | LoadMeasured
    | Woke
)
