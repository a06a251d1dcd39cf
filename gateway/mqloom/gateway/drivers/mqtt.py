"""One MQTT connection for an asyncio program: paho in its own thread, batches in the event loop, bounds on both sides.

Inward: messages wait in a queue and are handed to the event loop in batches, so that a busy loop gets larger ones. At
DRIVER_BACKLOG_MAX the thread stops reading, which makes the broker wait, until half of them are done.
Outward: QoS 1 messages survive a reconnection; past LINK_QUEUE_MAX waiting ones `publish` refuses.
A lost connection is tried again for ever, after 1 to 15 seconds.
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

from mqloom.core.limits import DRIVER_BACKLOG_MAX, DRIVER_BATCH_MAX, LINK_QUEUE_MAX
from mqloom.gateway.interfaces import BrokerAddress

IN_FLIGHT_MAX = 100
"""QoS 1 publications without PUBACK; paho is slower with many more."""
RETRY_S = (1, 15)
KEEPALIVE_S = 30


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the broker."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


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


class MqttConnection:
    """A connection that keeps itself up. Open it once; after `close` it is done with."""

    def __init__(self, plan: ConnectionPlan, log: logging.LoggerAdapter[logging.Logger]) -> None:
        self._plan = plan
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._backlog: deque[Received] = deque()
        self._room = threading.Condition()
        self._scheduled = False
        self._closing = False
        self._up = False
        self._client: paho.Client | None = self._build()

    def _build(self) -> paho.Client:
        plan = self._plan
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=plan.client_id,
            clean_session=plan.clean_session,
            protocol=paho.MQTTv311,
        )
        client.max_inflight_messages_set(IN_FLIGHT_MAX)
        client.max_queued_messages_set(LINK_QUEUE_MAX)
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
        return client

    def open(self) -> None:
        """Begin to connect; `on_up` says when it is done, subscriptions included."""
        assert self._client is not None
        self._client.connect_async(self._plan.address.host, self._plan.address.port, keepalive=KEEPALIVE_S)
        self._client.loop_start()

    async def close(self) -> None:
        """Send what is waiting, as far as the broker takes it at once, and disconnect."""
        self._closing = True
        with self._room:
            self._room.notify_all()
        # Letting go of the client here lets it close its sockets now: we and it refer to each other.
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_stop, client)

    @property
    def is_up(self) -> bool:
        """Whether the broker has answered our subscriptions."""
        return self._up

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> bool:
        """Hand a message over; False when it cannot be taken, and `on_drop` has been told why."""
        if self._client is None:
            self._plan.on_drop("closed")
            return False
        try:
            info = self._client.publish(topic, payload, qos, retain)
        except ValueError:  # a topic or size that MQTT does not allow
            self._plan.on_drop("invalid")
            return False
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            self._plan.on_drop("queue full")
            return False
        if qos == 0 and info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._plan.on_drop("not connected")
            return False
        return True

    # ---- paho's thread -------------------------------------------------------------------------------------------

    def _on_connect(
        self, client: paho.Client, _: object, flags: paho.ConnectFlags, reason: ReasonCode, __: Properties | None
    ) -> None:
        if reason.is_failure:
            self._soon(self._fell, f"the broker refuses us: {reason}")
        elif self._plan.subscriptions:
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
            self._soon(self._fell, f"the broker does not let us subscribe to {', '.join(refused)}")
        else:
            self._soon(self._rose)

    def _on_connect_fail(self, _: paho.Client, __: object) -> None:
        self._soon(self._fell, "it does not answer")

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: paho.DisconnectFlags, reason: ReasonCode, ____: Properties | None
    ) -> None:
        self._soon(self._fell, f"the connection was lost ({reason})")

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        received = Received(message.topic, bytes(message.payload), message.qos, message.retain)
        with self._room:
            if len(self._backlog) >= DRIVER_BACKLOG_MAX:
                self._room.wait_for(lambda: self._closing or len(self._backlog) < DRIVER_BACKLOG_MAX // 2)
            self._backlog.append(received)
            if self._scheduled:
                return
            self._scheduled = True
        self._soon(self._hand_over)

    def _soon(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- the event loop ------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        with self._room:
            count = min(len(self._backlog), DRIVER_BATCH_MAX)
            batch = [self._backlog.popleft() for _ in range(count)]
            self._scheduled = bool(self._backlog)
            self._room.notify_all()
        if self._scheduled:
            self._loop.call_soon(self._hand_over)
        if batch and not self._closing:
            self._plan.on_messages(batch)

    def _rose(self) -> None:
        if not self._closing:
            self._up = True
            self._plan.on_up()

    def _fell(self, problem: str) -> None:
        was_up, self._up = self._up, False
        if self._closing:
            return
        self._log.warning(
            "broker at %s:%s: %s; trying again", self._plan.address.host, self._plan.address.port, problem
        )
        if was_up:
            self._plan.on_down(problem)


def _stop(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()
