"""Everything that can happen to a client's core (events, in the past tense) and all it can ask of its driver (effects).

Effects are orders, carried out in their order. After Failed or Finished there are no more.
"""

from msgspec import Struct

from mqloom.core.effects import WakeAt
from mqloom.core.events import Woke
from mqloom.core.publication import Publication
from mqloom.core.records import Answer

__all__ = [
    "CloseRequested",
    "Connected",
    "ConnectionLost",
    "Deliver",
    "Effect",
    "Event",
    "Failed",
    "Finished",
    "MessageReceived",
    "Note",
    "Publish",
    "Subscribe",
    "Tell",
    "WakeAt",
    "Woke",
]

# ---- events ----------------------------------------------------------------------------------------------------------


class Connected(Struct, frozen=True, kw_only=True):
    """The broker accepted our connection, for the first time or again."""


class ConnectionLost(Struct, frozen=True, kw_only=True):
    """The connection to the broker is gone; the driver tries to get it back."""

    problem: str = ""


class MessageReceived(Struct, frozen=True, kw_only=True, gc=False):
    """The broker sent us a message. Brokers differ in when they set `retain`: nothing depends on it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class CloseRequested(Struct, frozen=True, kw_only=True):
    """The user has had enough; asked a second time, that nothing be waited for any more."""


Event = Connected | ConnectionLost | MessageReceived | Woke | CloseRequested

# ---- effects ---------------------------------------------------------------------------------------------------------


class Subscribe(Struct, frozen=True, kw_only=True):
    """Subscribe at the broker; the next effect waits until the broker has confirmed it."""

    topic: str
    qos: int


class Publish(Struct, frozen=True, kw_only=True, gc=False):
    """Publish at the broker."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class Deliver(Struct, frozen=True, kw_only=True):
    """Give a publication to the user, and the names of the user's subscriptions that asked for it."""

    publication: Publication
    names: tuple[str, ...]


class Tell(Struct, frozen=True, kw_only=True):
    """Tell the user what has become of a subscription, or (no name) of all of them."""

    answer: Answer


class Note(Struct, frozen=True, kw_only=True):
    """Tell whoever watches what is being waited for; nothing needs to be done about it."""

    text: str


class Failed(Struct, frozen=True, kw_only=True):
    """It is over, and not as the user wanted."""

    problem: str


class Finished(Struct, frozen=True, kw_only=True):
    """It is over, as the user wanted."""


Effect = Subscribe | Publish | WakeAt | Deliver | Tell | Note | Failed | Finished
