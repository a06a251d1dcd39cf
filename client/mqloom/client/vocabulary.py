"""Everything that can happen to a client's core (events, in the past tense) and all it can ask of its driver (effects).

Effects are orders, carried out in their order. After Failed or Finished there are no more.
"""

from msgspec import Struct

from mqloom.client.journey import Journey
from mqloom.core.effects import WakeAt
from mqloom.core.events import Woke
from mqloom.core.publication import Publication
from mqloom.core.records import Answer, Wish

__all__ = [
    "Adopted",
    "CloseRequested",
    "Connected",
    "ConnectionLost",
    "Deliver",
    "Effect",
    "Event",
    "Failed",
    "Finished",
    "JournalRead",
    "LeaveRequested",
    "MessageReceived",
    "Note",
    "Proceed",
    "Publish",
    "Subscribe",
    "Tell",
    "Unserved",
    "WakeAt",
    "WishAdded",
    "WishRemoved",
    "Woke",
]

# ---- events ----------------------------------------------------------------------------------------------------------


class Connected(Struct, frozen=True, kw_only=True):
    """The broker accepted our connection, for the first time or again; and it had kept our session, or it had not."""

    resumed: bool = True


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


class WishAdded(Struct, frozen=True, kw_only=True):
    """The user wants one more subscription; under a name that is there already, another one, or once more."""

    name: str
    wish: Wish


class WishRemoved(Struct, frozen=True, kw_only=True):
    """The user no longer wants the subscription of that name."""

    name: str


class Proceed(Struct, frozen=True, kw_only=True):
    """Be served here, and let the record say this of our moves: the answer to JournalRead, or later."""

    journey: Journey


class LeaveRequested(Struct, frozen=True, kw_only=True):
    """We are served by another gateway: get what is under way to here, and leave word where we are."""

    to: str


Event = (
    Connected
    | ConnectionLost
    | MessageReceived
    | Woke
    | WishAdded
    | WishRemoved
    | CloseRequested
    | Proceed
    | LeaveRequested
)

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
    """Tell the user what has become of a subscription, by its name."""

    answer: Answer


class Adopted(Struct, frozen=True, kw_only=True):
    """Tell the user that these, which an earlier life has asked for, are wanted in this one, too."""

    wishes: dict[str, Wish]


class Note(Struct, frozen=True, kw_only=True):
    """Tell whoever watches what is being waited for; nothing needs to be done about it."""

    text: str


class Unserved(Struct, frozen=True, kw_only=True):
    """Tell the user that no gateway answers for these subscriptions; they are asked for as soon as one does."""

    names: tuple[str, ...]
    problem: str


class JournalRead(Struct, frozen=True, kw_only=True):
    """What an earlier life has written of moves at this broker (None: nothing); waits for Proceed, or for the end.

    Not certain: the broker has not answered in time, so that there may be something all the same.
    """

    journey: Journey | None
    is_certain: bool = True


class Failed(Struct, frozen=True, kw_only=True):
    """It is over, and not as the user wanted."""

    problem: str


class Finished(Struct, frozen=True, kw_only=True):
    """It is over, as the user wanted."""


Effect = Subscribe | Publish | WakeAt | Deliver | Tell | Adopted | Note | Unserved | JournalRead | Failed | Finished
