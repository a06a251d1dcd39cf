"""One MQTT connection for an asyncio program: what it is asked for and what it promises, whatever client is behind it.

Inward: messages wait in a queue and are handed to the event loop in batches, so that a busy loop gets larger ones. A
QoS 1 message is acknowledged when its batch has been handled, or, if the plan says so, when `acknowledge` is called;
the broker's own window holds back more of them meanwhile, and while we are paused nothing else does. QoS 0 messages
past DRIVER_BACKLOG_MAX or DRIVER_BACKLOG_BYTES_MAX are dropped, and told. A connection that breaks takes its waiting
QoS 1 messages with it: the broker sends them again. PUBACKs leave in the order of the calls, and those of an earlier
connection not at all.
Outward: QoS 1 messages survive a reconnection, QoS 0 ones do not. While the broker is there QoS 1 is not refused, but
`is_crowded` says when more than half of LINK_QUEUE_MAX wait for it, so that whoever causes them can pause; past
LINK_QUEUE_MAX `publish` refuses QoS 0, and QoS 1 too while the broker is away, but never what has a `then`: somebody
waits for that, and sees to a bound. At most IN_FLIGHT_MAX of QoS 1 are without PUBACK, or as many as the broker wants.
A lost connection is tried again for ever, after RECONNECT_S_MIN to RECONNECT_S_MAX, drawn by lot, and so is a
subscription that the broker refuses.
MQTT 5 is spoken where the broker does, else 3.1.1 (see `protocols`). What only MQTT 5 has is left out with 3.1.1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from mqloom.gateway.interfaces import BrokerAddress

Token = tuple[int, int]
"""For which connection and packet an acknowledgement would be."""

KEEPALIVE_S: Final = 30
LEAVE_S_MAX: Final = 2.0
"""How long a closing connection waits for what it has handed over to be acknowledged."""
SHORT_S: Final = 2.0
"""A connection lost sooner than this after it came up is probably taken over by somebody of our name."""
SESSION_S: Final = 0xFFFF_FFFF
"""MQTT 5's session expiry of a session that is to persist: never, as it is with 3.1.1."""

INVALID: Final = "invalid"
TOO_LARGE: Final = "too large"
HOPELESS: Final = (INVALID, TOO_LARGE)
"""Why a message can never be taken, however long one waits."""
REFUSED: Final = "refused by the broker"
"""What is counted when a broker of MQTT 5 acknowledges a message, and says that it does not take it."""

Then = Callable[[], None]
Refused = Callable[[str], None]
"""Is called with the broker's reason."""


class RetainedMessages(IntEnum):
    """Which retained messages the broker sends for a subscription (MQTT 5; with 3.1.1 always)."""

    ALWAYS = 0
    IF_NEW = 1
    NEVER = 2


class TopicSubscription(NamedTuple):
    """What is subscribed to at the broker; everything but topic and QoS is of MQTT 5, and ignored with 3.1.1."""

    topic: str
    qos: int
    no_local: bool = False
    """Whether what this connection publishes itself does not come back to it."""
    retain_as_published: bool = False
    """Whether the retain flag is the publisher's own."""
    retained: RetainedMessages = RetainedMessages.ALWAYS


class Received(Struct, frozen=True, gc=False):
    """A message from the broker; `token` tells for which connection and packet an acknowledgement would be.

    `again` is MQTT's DUP: the broker has sent it before, on this connection or an earlier one of ours.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    token: Token = (0, 0)
    again: bool = False
    content_type: str = ""
    user_properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPlan:
    """Everything about a connection that is known before it is opened. The callbacks run in the event loop."""

    address: BrokerAddress
    client_id: str
    clean_session: bool
    subscriptions: Sequence[TopicSubscription]
    on_messages: Callable[[list[Received]], None]
    on_up: Callable[[], None]
    on_down: Callable[[str], None]
    on_broken: Callable[[], None] = field(default=lambda: None)
    """A connection ended, even if it was never up; what it brought and was not acknowledged comes again."""
    acknowledges: bool = True
    """Whether messages are acknowledged when they have been handled; else somebody calls `acknowledge`."""
    gathers: bool = False
    """Whether messages are handed over in larger batches, a little later, when they follow each other fast."""
    will: tuple[str, bytes] | None = None
    has_few_topics: bool = False
    """Whether what is published with QoS 0 goes to few topics: where the broker takes numbers for these (topic aliases
    of MQTT 5), a client may write them."""
    former: Sequence[str] = ()
    """Topics that the session may have from before, and is to have no more."""
    on_pruned: Callable[[], None] = field(default=lambda: None)
    """The broker has confirmed that the session has the subscriptions that it is to have now, and no others."""
    on_drop: Callable[[str], None] = field(default=lambda reason: None)
    on_room: Callable[[], None] = field(default=lambda: None)

    @property
    def where(self) -> str:
        """The broker, for messages to people."""
        return f"{self.address.host}:{self.address.port}"


class Connection(Protocol):
    """A connection that keeps itself up. Open it once; after `close` it is done with."""

    def open(self) -> None:
        """Begin to connect; `on_up` says when it is done, subscriptions included."""
        ...

    async def close(self) -> None:
        """Wait, for a bounded time, until what was handed over is acknowledged; then disconnect."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the broker has answered our subscriptions."""
        ...

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for a broker that is there that more should be held back; `on_room` says when not."""
        ...

    @property
    def is_resumed(self) -> bool:
        """Whether the broker had kept our session when we last connected."""
        ...

    @property
    def protocol(self) -> int:
        """Which MQTT is spoken, once it is up: 5, or 4 for 3.1.1."""
        ...

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool = False,
        content_type: str = "",
        user_properties: tuple[tuple[str, str], ...] = (),
        then: Then | None = None,
        refused: Refused | None = None,
    ) -> bool:
        """Hand a message over; False when it cannot be taken, and `on_drop` has been told why.

        `then` is called when the broker has acknowledged it (QoS 1); also when it can never be taken, because it is too
        large for the broker, or no MQTT: nobody may wait for it for ever. `refused` is called instead, if it is given,
        when the broker says that it does not take it (MQTT 5; with 3.1.1 it cannot say so, and acknowledges).
        """
        ...

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Acknowledge QoS 1 messages in this order, but for those that came by an earlier connection."""
        ...

    def in_order(self, function: Callable[[], None]) -> None:
        """Call a function when all messages are handed over that have come by now; never, if the connection breaks."""
        ...

    def resubscribe(self, subscriptions: Sequence[TopicSubscription]) -> None:
        """Subscribe to these from now on, and to nothing else, without a break; what is under way still comes.

        What overlaps with what was there before may come twice until `on_pruned`: the other way round it could be lost.
        """
        ...

    def pause(self) -> None:
        """Hand nothing over, and acknowledge nothing, until `resume`."""
        ...

    def resume(self) -> None:
        """Hand over again what has come meanwhile, behind whatever the event loop is doing now."""
        ...
