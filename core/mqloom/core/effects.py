"""Everything a gateway's core can ask of its driver: effects are orders, carried out in their order."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from mqloom.core.ids import ClientId, GatewayId


class PublishLocally(Struct, frozen=True, kw_only=True, gc=False):
    """Publish on our own broker; with a number, say LocallyPublished when the broker has acknowledged it.

    If the broker says that it does not take it, say LocallyRefused instead. What is `republished` came from another
    gateway and has its own topic, which is data: it goes by the connection of the intake, and must not come in again.
    """

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str = ""
    user_properties: tuple[tuple[str, str], ...] = ()
    number: int = 0
    republished: bool = False


class Acknowledge(Struct, frozen=True, kw_only=True, gc=False):
    """Acknowledge what our own broker handed over, in this order; those of an earlier connection are passed over."""

    receipts: tuple[int, ...]


class PublishFence(Struct, frozen=True, kw_only=True):
    """Publish an empty message on our own broker behind all acknowledgements, for FencePassed."""

    number: int


class HoldIntake(Struct, frozen=True, kw_only=True):
    """Hand over no more publications of clients until ReleaseIntake; so it is at the start. All else goes on."""


class ReleaseIntake(Struct, frozen=True, kw_only=True):
    """Hand over publications of clients again."""


class OpenPark(Struct, frozen=True, kw_only=True):
    """Let our own broker give back what is parked for a neighbour, from the first that was not acknowledged."""

    neighbour: GatewayId


class ClosePark(Struct, frozen=True, kw_only=True):
    """Leave with the broker what is parked for a neighbour; the broker goes on collecting."""

    neighbour: GatewayId


class AcknowledgeParked(Struct, frozen=True, kw_only=True, gc=False):
    """Acknowledge what came by ParkedReceived; those of an earlier opening are passed over."""

    neighbour: GatewayId
    receipts: tuple[int, ...]


class SendAck(Struct, frozen=True, kw_only=True, gc=False):
    """Publish an acknowledgement of a neighbour's frames on our own broker, where the neighbour listens."""

    neighbour: GatewayId
    ack: bytes


class SendFrame(Struct, frozen=True, kw_only=True, gc=False):
    """Write a frame to a neighbour's link topic, QoS 0; the frames of a neighbour stay in order."""

    neighbour: GatewayId
    frame: bytes
    urgent: bool = False


class Heard(Struct, frozen=True, kw_only=True):
    """Believe that this gateway is alive, whatever its status says: it has sealed what it said to us just now."""

    neighbour: GatewayId


class OpenLink(Struct, frozen=True, kw_only=True):
    """Connect to the broker of another gateway, and stay connected; a neighbour has a park, too."""

    neighbour: GatewayId
    is_primary: bool = False


class CloseLink(Struct, frozen=True, kw_only=True):
    """Give up the connection that OpenLink asked for; and the park of a neighbour, with all that is in it."""

    neighbour: GatewayId
    is_primary: bool = False


class WakeAt(Struct, frozen=True, kw_only=True):
    """Send Woke at this time; a later WakeAt replaces an earlier one."""

    at: float


class Log(Struct, frozen=True, kw_only=True):
    """Tell the operator."""

    level: Literal["info", "warning", "error"]
    text: str


class ReadConfiguration(Struct, frozen=True, kw_only=True):
    """Read the configuration again, let it hold, and say ConfigurationRead for this operator."""

    operator: ClientId


class RunBeside(Struct, frozen=True, kw_only=True):
    """Run a pure function beside the event loop, and say RanBeside with the same number when it has ended."""

    number: int
    function: Callable[[], object]


Effect = (
    PublishLocally
    | Acknowledge
    | PublishFence
    | HoldIntake
    | ReleaseIntake
    | OpenPark
    | ClosePark
    | AcknowledgeParked
    | SendAck
    | SendFrame
    | Heard
    | OpenLink
    | CloseLink
    | ReadConfiguration
    | RunBeside
    | WakeAt
    | Log
)
