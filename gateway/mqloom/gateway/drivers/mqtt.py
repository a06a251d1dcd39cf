"""One MQTT connection for an asyncio program: paho in its own thread, batches in the event loop, bounds on both sides.

Inward: messages wait in a queue and are handed to the event loop in batches, so that a busy loop gets larger ones. A
QoS 1 message is acknowledged when its batch has been handled, so that the broker's own window holds it back while we
are slow or paused; QoS 0 messages past DRIVER_BACKLOG_MAX or DRIVER_BACKLOG_BYTES_MAX are dropped, and told.
Outward: QoS 1 messages survive a reconnection. While the broker is there nothing is refused, but `is_crowded` says when
more than half of LINK_QUEUE_MAX wait for it, so that whoever causes them can pause; while it is away, `publish` refuses
past LINK_QUEUE_MAX.
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
    """A message from the broker; `token` tells for which connection and packet an acknowledgement would be."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    token: tuple[int, int] = (0, 0)


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
        self._lock = threading.Lock()
        self._scheduled = False
        self._paused = False
        self._closing = False
        self._up = False
        self._up_since = 0.0
        self._connections = 0
        self._pending = 0
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
        for _ in range(self._pending):
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
        return self._up and self._pending > LINK_QUEUE_MAX // 2

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> bool:
        """Hand a message over; False when it cannot be taken, and `on_drop` has been told why."""
        problem = self._publish(topic, payload, qos, retain=retain)
        if problem:
            self._plan.on_drop(problem)
        return not problem

    def _publish(self, topic: str, payload: bytes, qos: int, *, retain: bool) -> str:
        if self._client is None:
            return "closed"
        if self._pending >= (PENDING_MAX if self._up else LINK_QUEUE_MAX):
            return "queue full"
        if qos == 0 and not self._client.is_connected():
            return "not connected"
        if qos:
            self._pending += 1
        try:
            info = self._client.publish(topic, payload, qos, retain)
        except ValueError:  # a topic or size that MQTT does not allow
            info = None
        if info is not None and info.rc in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            self._was_crowded = self._was_crowded or self.is_crowded
            return ""
        if qos:
            self._pending -= 1
        return "invalid" if info is None else "queue full"

    def pause(self) -> None:
        """Hand nothing over, and acknowledge nothing, until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Hand over again what has come meanwhile."""
        if self._paused:
            self._paused = False
            self._hand_over()

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
        self._soon(self._fell, f"the connection was lost ({reason})")

    def _on_publish(self, _: paho.Client, __: object, ___: int, ____: ReasonCode, _____: Properties) -> None:
        self._soon(self._published)

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        token = (self._connections, message.mid)
        received = Received(message.topic, bytes(message.payload), message.qos, message.retain, token)
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
            self._backlog_bytes -= sum(len(message.payload) for message in batch)
            self._scheduled = bool(self._backlog)
            again = self._scheduled
        if batch and not self._closing:
            self._plan.on_messages(batch)
            self._acknowledge(batch)
        if again:
            self._loop.call_soon(self._hand_over)

    def _acknowledge(self, batch: Sequence[Received]) -> None:
        for message in batch:
            connection, packet = message.token
            if message.qos and self._client is not None and connection == self._connections:
                self._client.ack(packet, message.qos)

    def _published(self) -> None:
        self._pending = max(0, self._pending - 1)
        if self._was_crowded and self._pending <= LINK_QUEUE_MAX // 4:
            self._was_crowded = False
            self._plan.on_room()

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
