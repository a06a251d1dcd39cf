"""What travels: a publication as the local broker hands it over, and as the federation carries it."""

from typing import Annotated

from msgspec import Meta, Struct

from mqloom.core.ids import GatewayName, Number, PublicationId
from mqloom.core.limits import (
    HOPS_MAX,
    PAYLOAD_BYTES_MAX,
    PROPERTY_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    USER_PROPERTIES_MAX,
)

TopicText = Annotated[str, Meta(min_length=1, max_length=TOPIC_LENGTH_MAX)]
PlainTopicText = Annotated[str, Meta(min_length=1, max_length=TOPIC_LENGTH_MAX, pattern="^[^#+\\0]*$")]
PayloadBytes = Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]
PropertyText = Annotated[str, Meta(max_length=PROPERTY_LENGTH_MAX)]
UserProperties = Annotated[tuple[tuple[PropertyText, PropertyText], ...], Meta(max_length=USER_PROPERTIES_MAX)]


class Incoming(Struct, frozen=True, kw_only=True, gc=False):
    """A publication as a client sent it to the local broker, before it has an id.

    `receipt` is the number by which the driver is told to acknowledge it, `packet` its packet id, and `again` MQTT's
    DUP flag: the broker has sent it before. Of QoS 0 all three are nothing.
    `retain` is as it was published, where the broker tells (MQTT 5); what is `replayed` was published at some earlier
    time, and comes out of the broker's memory because we subscribed. What is no data any more only has its turn to be
    acknowledged.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str = ""
    user_properties: tuple[tuple[str, str], ...] = ()
    receipt: int = 0
    packet: int = 0
    again: bool = False
    replayed: bool = False
    is_data: bool = True


class Publication(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A publication in the federation; the same structure on the wire (where the bounds are checked) and in memory.

    `low_water` is its origin's: everything with a smaller sequence is done with and may be forgotten. `packet` is the
    packet id under which the origin's broker handed it over; a repeat may have entered in an earlier epoch already.
    """

    origin: GatewayName
    epoch: Number
    sequence: Number
    low_water: Number
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    topic: PlainTopicText
    payload: PayloadBytes
    qos: Annotated[int, Meta(ge=0, le=2)] = 0
    retain: bool = False
    content_type: PropertyText = ""
    user_properties: UserProperties = ()
    packet: Annotated[int, Meta(ge=0, le=65_535)] = 0
    repeat: bool = False

    @property
    def id(self) -> PublicationId:
        """The publication's identity, the same on its whole way."""
        return PublicationId(self.origin, self.epoch, self.sequence)

    def one_hop_further(self, *, is_marked: bool = True) -> "Publication":
        """Return what goes out on a link: the same publication, one hop older; without its mark if that is wrong."""
        return Publication(
            self.origin,
            self.epoch,
            self.sequence,
            self.low_water if is_marked else 0,
            self.hops + 1,
            self.topic,
            self.payload,
            self.qos,
            self.retain,
            self.content_type,
            self.user_properties,
            self.packet,
            self.repeat,
        )
