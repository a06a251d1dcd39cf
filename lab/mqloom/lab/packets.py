"""What crosses a simulated connection: the packets of MQTT as far as the lab needs them.

PUBACKs that leave together are one packet here; everything else is as in MQTT.
"""

from msgspec import Struct


class Publish(Struct, frozen=True, gc=False):
    """A message. `packet` is 0 for QoS 0, and within a broker, where no packet id is given yet."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    packet: int = 0
    again: bool = False


class Puback(Struct, frozen=True, gc=False):
    """Acknowledgements of QoS 1 messages, in this order."""

    packets: tuple[int, ...]


class Connect(Struct, frozen=True):
    """A party introduces itself."""

    client_id: str
    clean: bool
    will: Publish | None = None


class Connack(Struct, frozen=True):
    """The broker accepts, and says whether it knew the session."""

    session_present: bool


class Subscribe(Struct, frozen=True):
    """Topic filters, each with the QoS asked for."""

    number: int
    filters: tuple[tuple[str, int], ...]


class Suback(Struct, frozen=True):
    """The broker has subscribed us."""

    number: int


class Disconnect(Struct, frozen=True):
    """A party leaves, and wants no last will."""


Packet = Publish | Puback | Connect | Connack | Subscribe | Suback | Disconnect

HEADER_BYTES = 8
"""What a packet weighs beside topic and payload."""


def bytes_of(packet: Packet) -> int:
    """Return what a packet weighs on the wire, about."""
    if isinstance(packet, Publish):
        return HEADER_BYTES + len(packet.topic) + len(packet.payload)
    return HEADER_BYTES
