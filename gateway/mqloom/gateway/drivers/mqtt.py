"""One MQTT connection for an asyncio program: paho in its own thread, batches in the event loop, bounds on both sides.

Inward: messages wait in a queue and are handed to the event loop in batches, so that a busy loop gets larger ones. A
QoS 1 message is acknowledged when its batch has been handled, or, if the plan says so, when `acknowledge` is called;
the broker's own window holds back more of them meanwhile. QoS 0 messages past DRIVER_BACKLOG_MAX or
DRIVER_BACKLOG_BYTES_MAX are dropped, and told. A connection that breaks takes its waiting QoS 1 messages with it: the
broker sends them again.
Outward: QoS 1 messages survive a reconnection, QoS 0 ones do not. While the broker is there QoS 1 is not refused, but
`is_crowded` says when more than half of LINK_QUEUE_MAX wait for it, so that whoever causes them can pause; past
LINK_QUEUE_MAX `publish` refuses QoS 0, and QoS 1 too while the broker is away.
paho's thread is never made to wait: it both reads and writes, and keeps the connection alive.
A lost connection is tried again for ever, after 1 to 15 seconds, and so is a subscription that the broker refuses.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from mqloom.core.limits import DRIVER_BACKLOG_BYTES_MAX, DRIVER_BACKLOG_MAX, DRIVER_BATCH_MAX, LINK_QUEUE_MAX
from mqloom.gateway.interfaces import BrokerAddress

IN_FLIGHT_MAX = 100
"""QoS 1 publications without PUBACK; paho is slower with many more."""
PENDING_MAX = 60_000
"""QoS 1 publications waiting or in flight at all: MQTT has 65,535 packet ids."""
RETRY_S = (1, 15)
KEEPALIVE_S = 30
LEAVE_S_MAX = 2.0
"""How long a closing connection waits for what it has handed over to be acknowledged."""
SHORT_S = 2.0
"""A connection lost sooner than this after it came up is probably taken over by somebody of our name."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the broker; `token` tells for which connection and packet an acknowledgement would be.

    `again` is MQTT's DUP: the broker has sent it before, on this connection or an earlier one of ours.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    token: tuple[int, int] = (0, 0)
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPlan:
    """Everything about a connection that is known before it is opened. The callbacks run in the event loop."""

    address: BrokerAddress
    client_id: str
    clean_session: bool
    subscriptions: Sequence[tuple[str, int]]
    on_messages: Callable[[list[Received]], None]
    on_up: Callable[[], None]
    on_down: Callable[[str], None]
    on_broken: Callable[[], None] = field(default=lambda: None)
    """A connection ended, even if it was never up; what it brought and was not acknowledged comes again."""
    acknowledges: bool = True
    """Whether messages are acknowledged when they have been handled; else somebody calls `acknowledge`."""
    will: tuple[str, bytes] | None = None
    on_drop: Callable[[str], None] = field(default=lambda reason: None)
    on_room: Callable[[], None] = field(default=lambda: None)


class MqttConnection:
    """A connection that keeps itself up. Open it once; after `close` it is done with."""

    def __init__(self, plan: ConnectionPlan, log: logging.LoggerAdapter[logging.Logger]) -> None:
        self._plan = plan
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._backlog: deque[Received] = deque()
        self._backlog_bytes = 0
        self._handed = 0  # messages that are in the backlog no more
        self._behind: deque[tuple[int, Callable[[], None]]] = deque()
        self._lock = threading.Lock()
        self._scheduled = False
        self._paused = False
        self._closing = False
        self._up = False
        self._up_since = 0.0
        self._connections = 0
        self._pending: dict[int, Callable[[], None] | None] = {}  # QoS 1, by packet id: whom to tell
        self._unsent: set[int] = set()  # QoS 0
        self._was_crowded = False
        self._client: paho.Client | None = self._build()

    def _build(self) -> paho.Client:
        plan = self._plan
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=plan.client_id,
            clean_session=plan.clean_session,
            protocol=paho.MQTTv311,
            manual_ack=True,
        )
        client.max_inflight_messages_set(IN_FLIGHT_MAX)
        client.max_queued_messages_set(0)  # the bound is ours, in `publish`
        client.reconnect_delay_set(*RETRY_S)
        if plan.address.username:
            client.username_pw_set(plan.address.username, plan.address.password or None)
        if plan.will is not None:
            client.will_set(plan.will[0], plan.will[1], qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        return client

    def open(self) -> None:
        """Begin to connect; `on_up` says when it is done, subscriptions included."""
        assert self._client is not None
        self._client.connect_async(self._plan.address.host, self._plan.address.port, keepalive=KEEPALIVE_S)
        self._client.loop_start()

    async def close(self) -> None:
        """Wait, for a bounded time, until what was handed over is acknowledged; then disconnect."""
        self._closing = True
        deadline = self._loop.time() + LEAVE_S_MAX
        while self._up and self._pending and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for _ in self._pending:
            self._plan.on_drop("closed")
        # Letting go of the client here lets it close its sockets now: we and it refer to each other.
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_stop, client)

    @property
    def is_up(self) -> bool:
        """Whether the broker has answered our subscriptions."""
        return self._up

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for a broker that is there that more should be held back; `on_room` says when not."""
        return self._up and max(len(self._pending), len(self._unsent)) > LINK_QUEUE_MAX // 2

    def publish(
        self, topic: str, payload: bytes, qos: int, *, retain: bool = False, then: Callable[[], None] | None = None
    ) -> bool:
        """Hand a message over; False when it cannot be taken, and `on_drop` has been told why.

        `then` is called when the broker has acknowledged it (QoS 1).
        """
        problem = self._publish(topic, payload, qos, retain=retain, then=then)
        if problem:
            self._plan.on_drop(problem)
        return not problem

    def _publish(self, topic: str, payload: bytes, qos: int, *, retain: bool, then: Callable[[], None] | None) -> str:
        problem = self._problem(qos)
        if problem or self._client is None:
            return problem or "closed"
        try:
            info = self._client.publish(topic, payload, qos, retain)
        except ValueError:  # a topic or size that MQTT does not allow
            return "invalid"
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            return "queue full"
        # Its acknowledgement is told by the event loop, where we are: it cannot have been told yet.
        if qos:
            self._pending[info.mid] = then
        else:
            self._unsent.add(info.mid)
        self._was_crowded = self._was_crowded or self.is_crowded
        return ""

    def _problem(self, qos: int) -> str:
        if self._client is None:
            return "closed"
        if not qos and not self._client.is_connected():
            return "not connected"
        limit = PENDING_MAX if qos and self._up else LINK_QUEUE_MAX
        return "queue full" if len(self._pending if qos else self._unsent) >= limit else ""

    def acknowledge(self, token: tuple[int, int]) -> None:
        """Acknowledge a QoS 1 message, unless it came by an earlier connection."""
        connection, packet = token
        if self._client is not None and connection == self._connections:
            self._client.ack(packet, 1)

    def in_order(self, function: Callable[[], None]) -> None:
        """Call a function when all messages are handed over that have come by now; never, if the connection breaks."""
        with self._lock:
            place = self._handed + len(self._backlog)
        self._behind.append((place, function))
        self._call_behind()

    def _call_behind(self) -> None:
        while self._behind and self._behind[0][0] <= self._handed:
            self._behind.popleft()[1]()

    def pause(self) -> None:
        """Hand nothing over, and acknowledge nothing, until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Hand over again what has come meanwhile, behind whatever the event loop is doing now."""
        if self._paused:
            self._paused = False
            self._loop.call_soon(self._hand_over)

    # ---- paho's thread -------------------------------------------------------------------------------------------

    def _on_connect(
        self, client: paho.Client, _: object, flags: paho.ConnectFlags, reason: ReasonCode, __: Properties | None
    ) -> None:
        if reason.is_failure:
            self._soon(self._fell, f"the broker refuses us: {reason}")
            return
        self._connections += 1  # an acknowledgement of an earlier connection would hit another packet
        if self._plan.subscriptions:
            client.subscribe(list(self._plan.subscriptions))
        else:
            self._soon(self._rose)

    def _on_subscribe(
        self, _: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: Properties | None
    ) -> None:
        refused = [
            topic for (topic, _), reason in zip(self._plan.subscriptions, reasons, strict=False) if reason.is_failure
        ]
        if refused:
            self._soon(self._refused, refused)
        else:
            self._soon(self._rose)

    def _on_connect_fail(self, _: paho.Client, __: object) -> None:
        self._soon(self._fell, "it does not answer")

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: paho.DisconnectFlags, reason: ReasonCode, ____: Properties | None
    ) -> None:
        self._soon(self._broke, self._connections)
        self._soon(self._fell, f"the connection was lost ({reason})")

    def _on_publish(self, _: paho.Client, __: object, packet: int, ___: ReasonCode, ____: Properties) -> None:
        self._soon(self._published, packet)

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        token = (self._connections, message.mid)
        payload = bytes(message.payload)
        received = Received(message.topic, payload, message.qos, message.retain, token, message.dup)
        with self._lock:
            full = len(self._backlog) >= DRIVER_BACKLOG_MAX or self._backlog_bytes >= DRIVER_BACKLOG_BYTES_MAX
            if full and not received.qos:
                self._soon(self._plan.on_drop, "backlog full")
                return
            self._backlog.append(received)
            self._backlog_bytes += len(received.payload)
            if self._scheduled:
                return
            self._scheduled = True
        self._soon(self._hand_over)

    def _soon(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- the event loop ------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        if self._paused:
            return
        with self._lock:
            count = min(len(self._backlog), DRIVER_BATCH_MAX)
            batch = [self._backlog.popleft() for _ in range(count)]
            self._handed += count
            self._backlog_bytes -= sum(len(message.payload) for message in batch)
            self._scheduled = bool(self._backlog)
            again = self._scheduled
        if batch and not self._closing:
            self._plan.on_messages(batch)
            if self._plan.acknowledges:
                for message in batch:
                    if message.qos:
                        self.acknowledge(message.token)
        self._call_behind()
        if again:
            self._loop.call_soon(self._hand_over)

    def _published(self, packet: int) -> None:
        if packet in self._unsent:  # of QoS 0, and written; paho may give it the id of one that still waits
            self._unsent.discard(packet)
            then = None
        else:
            then = self._pending.pop(packet, None)
        if then is not None and not self._closing:
            then()
        if self._was_crowded and max(len(self._pending), len(self._unsent)) <= LINK_QUEUE_MAX // 4:
            self._was_crowded = False
            self._plan.on_room()

    def _broke(self, connection: int) -> None:
        """A connection ended: what it had brought comes again, what was on its way out of QoS 0 does not."""
        self._unsent.clear()
        self._behind.clear()
        with self._lock:
            kept = [each for each in self._backlog if not each.qos or each.token[0] > connection]
            self._handed += len(self._backlog) - len(kept)
            self._backlog = deque(kept)
            self._backlog_bytes = sum(len(message.payload) for message in kept)
        if not self._closing:
            self._plan.on_broken()

    def _refused(self, topics: Sequence[str]) -> None:
        """Ask again later: an operator may be mending the broker's access list right now."""
        self._fell(f"it does not let us subscribe to {', '.join(topics)}")
        self._loop.call_later(RETRY_S[1], self._subscribe_again)

    def _subscribe_again(self) -> None:
        if self._client is not None and self._client.is_connected() and not self._up:
            self._client.subscribe(list(self._plan.subscriptions))

    def _rose(self) -> None:
        if not self._closing:
            self._up = True
            self._up_since = self._loop.time()
            self._plan.on_up()

    def _fell(self, problem: str) -> None:
        was_up, self._up = self._up, False
        if self._closing:
            return
        hint = ""
        if was_up and self._loop.time() - self._up_since < SHORT_S:
            hint = f" (if this goes on: is somebody else connected as {self._plan.client_id}?)"
        where = f"{self._plan.address.host}:{self._plan.address.port}"
        self._log.warning("broker at %s: %s; trying again%s", where, problem, hint)
        if was_up:
            self._plan.on_down(problem)
            self._plan.on_room()  # who is away holds nobody back


def _stop(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()
