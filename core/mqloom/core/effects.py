"""Everything a gateway's core can ask of its driver: effects are orders, carried out in their order."""

from typing import Literal

from msgspec import Struct

from mqloom.core.ids import GatewayId


class PublishLocally(Struct, frozen=True, kw_only=True, gc=False):
    """Publish on our own broker."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    content_type: str = ""
    user_properties: tuple[tuple[str, str], ...] = ()


class SendFrame(Struct, frozen=True, kw_only=True, gc=False):
    """Write a frame to a neighbour's link topic; the frames of a neighbour stay in order."""

    neighbour: GatewayId
    frame: bytes
    urgent: bool = False


class WakeAt(Struct, frozen=True, kw_only=True):
    """Send Woke at this time; a later WakeAt replaces an earlier one."""

    at: float


class Log(Struct, frozen=True, kw_only=True):
    """Tell the operator."""

    level: Literal["info", "warning", "error"]
    text: str


Effect = PublishLocally | SendFrame | WakeAt | Log
