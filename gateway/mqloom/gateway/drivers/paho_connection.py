"""A connection by paho, the conservative client: it runs in a thread of its own, which is never made to wait.

That thread both reads and writes, and keeps the connection alive. What happens there is told to the event loop.

paho knows nothing of MQTT 5's receive maximum, and its version cannot be changed. So what is handed over waits here
until the broker has said what it speaks and takes, and only as much as that is with paho at a time. When what it speaks
is in doubt another client takes the place of the one before.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from mqloom.core.errors import LocalError, TopicError
from mqloom.core.limits import LINK_QUEUE_MAX, PAHO_IN_FLIGHT_MAX, PENDING_MAX, RECONNECT_S_MAX
from mqloom.core.tls import load_files
from mqloom.core.topics import check_topic
from mqloom.gateway.drivers.bounded_paho import BoundedClient
from mqloom.gateway.drivers.kept_connection import KeptConnection, Outgoing
from mqloom.gateway.drivers.mqtt import (
    INVALID,
    KEEPALIVE_S,
    SESSION_S,
    ConnectionPlan,
    Received,
    Refused,
    Then,
    Token,
    TopicSubscription,
)
from mqloom.gateway.drivers.protocols import MQTT_5, BrokerLimits, absence, secure

UNSUPPORTED = "Unsupported protocol version"
"""paho's name for both ways to refuse a version."""


class PahoConnection(KeptConnection):
    """See `mqtt.Connection`."""

    def __init__(self, plan: ConnectionPlan, log: logging.LoggerAdapter[logging.Logger]) -> None:
        super().__init__(plan, log)
        self._is_answered = False
        self._unsent: set[int] = set()  # QoS 0
        self._client: paho.Client | None = None
        self._context: ssl.SSLContext | None = None

    def _build(self) -> paho.Client:
        plan = self._plan
        is_5 = self._version == MQTT_5
        client = BoundedClient(
            CallbackAPIVersion.VERSION2,
            client_id=plan.client_id,
            clean_session=None if is_5 else plan.clean_session,
            protocol=paho.MQTTv5 if is_5 else paho.MQTTv311,
            manual_ack=True,
        )
        client.max_inflight_messages_set(0)  # the window is ours
        client.max_queued_messages_set(0)  # the bound is ours, in `publish`
        if plan.address.username:
            client.username_pw_set(plan.address.username, plan.address.password or None)
        if plan.will is not None:
            client.will_set(plan.will[0], plan.will[1], qos=1, retain=True)
        self._context = secure(plan.address)
        if plan.address.tls is not None and self._context is not None:
            client.tls_set_context(self._context)
            client.tls_insecure_set(not plan.address.tls.check_hostname)
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        return client

    def open(self) -> None:
        """Begin to connect."""
        self._running = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        while True:
            try:
                self._version = await self._spoken.find()
                self._client = self._build()
            except Exception as error:  # whatever it is: nobody but us would try again
                self._fell(absence(self._plan.address, error))
                await asyncio.sleep(self._backoff.next_s())
            else:
                self._start(self._client)
                return

    def _start(self, client: paho.Client) -> None:
        plan = self._plan
        if self._version == MQTT_5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho has no types there
            if not plan.clean_session:
                properties.SessionExpiryInterval = SESSION_S
            client.connect_async(
                plan.address.host,
                plan.address.port,
                keepalive=KEEPALIVE_S,
                clean_start=plan.clean_session,
                properties=properties,
            )
        else:
            client.connect_async(plan.address.host, plan.address.port, keepalive=KEEPALIVE_S)
        client.loop_start()

    async def close(self) -> None:
        """Wait, for a bounded time, until what was handed over is acknowledged; then disconnect."""
        await self._take_leave()
        await self._stop_running()
        # Letting go of the client here lets it close its sockets now: we and it refer to each other.
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(_stop, client)
        self._is_closed = True

    def _holds_much(self) -> bool:
        return max(self._outstanding, len(self._unsent)) > LINK_QUEUE_MAX // 2

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
        """Hand a message over."""
        outgoing = Outgoing(topic, payload, retain, content_type, user_properties, then, refused)
        problem = self._problem(outgoing, qos)
        if not problem and qos:
            self._waiting.append(outgoing)
            self._send_waiting()
        elif not problem:
            problem = self._send(outgoing, 0)
        if problem:
            self._drop(problem, then)
        return not problem

    def _problem(self, outgoing: Outgoing, qos: int) -> str:
        if self._is_closed:
            return "closed"
        try:
            check_topic(outgoing.topic)
        except TopicError:
            return INVALID
        if not qos and not self._window:
            return "not connected"
        limit = PENDING_MAX if qos and self._is_up else LINK_QUEUE_MAX
        # What somebody waits for would be waited for for ever; custody's windows are its bound.
        if outgoing.then is None and (self._outstanding if qos else len(self._unsent)) >= limit:
            return "queue full"
        return self._limits.problem(outgoing.topic, outgoing.payload, outgoing.user_properties)

    def _send_waiting(self) -> None:
        while self._waiting and self._client is not None and len(self._pending) < self._window:
            outgoing = self._waiting.popleft()
            problem = self._limits.problem(outgoing.topic, outgoing.payload, outgoing.user_properties)
            problem = problem or self._send(outgoing, 1)
            if problem:
                self._drop(problem, outgoing.then)

    def _send(self, outgoing: Outgoing, qos: int) -> str:
        assert self._client is not None
        retain = outgoing.retain and self._limits.has_retained
        properties = _properties(outgoing.content_type, outgoing.user_properties) if self._version == MQTT_5 else None
        try:
            info = self._client.publish(outgoing.topic, outgoing.payload, qos, retain, properties)
        except ValueError:  # a topic or size that MQTT does not allow
            return INVALID
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            return "queue full"
        # Its acknowledgement is told by the event loop, where we are: it cannot have been told yet.
        if qos:
            self._pending[info.mid] = outgoing
        else:
            self._unsent.add(info.mid)
        return ""

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Acknowledge QoS 1 messages in this order, but for those that came by an earlier connection."""
        for connection, packet in tokens:
            if self._client is not None and connection == self._connections:
                self._client.ack(packet, 1)

    def resubscribe(self, subscriptions: Sequence[TopicSubscription]) -> None:
        """Subscribe to these from now on, and to nothing else, without a break."""
        self._change(subscriptions)
        if self._client is not None and self._client.is_connected():
            self._subscribe(self._client)

    # ---- paho's thread -------------------------------------------------------------------------------------------

    def _on_connect(
        self,
        client: paho.Client,
        _: object,
        flags: paho.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._is_answered = True
        if reason.is_failure:
            if reason.getName() == UNSUPPORTED:
                self._is_answered = False
            self._soon(self._fell, f"the broker refuses us: {reason}")
            return
        self._met(is_resumed=flags.session_present)
        self._connections += 1  # an acknowledgement of an earlier connection would hit another packet
        self._soon(self._opened, _limits(properties))
        if self._plan.subscriptions:
            self._subscribe(client)
        else:
            self._soon(self._rose)

    def _subscribe(self, client: paho.Client) -> None:
        if self._version != MQTT_5:
            client.subscribe([(each.topic, each.qos) for each in self._plan.subscriptions])
        else:
            client.subscribe(
                [
                    (
                        each.topic,
                        SubscribeOptions(each.qos, each.no_local, each.retain_as_published, int(each.retained)),
                    )
                    for each in self._plan.subscriptions
                ]
            )
        if self._gone:
            self._pruning = client.unsubscribe(self._gone)[1] or 0

    def _on_subscribe(
        self, _: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: Properties | None
    ) -> None:
        refused = [
            each.topic for each, reason in zip(self._plan.subscriptions, reasons, strict=False) if reason.is_failure
        ]
        if refused:
            self._soon(self._refused, refused)
        else:
            self._soon(self._rose)

    def _on_unsubscribe(
        self, _: paho.Client, __: object, packet: int, reasons: list[ReasonCode], ___: Properties | None
    ) -> None:
        self._soon(self._pruned, packet, any(reason.is_failure for reason in reasons))

    def _on_connect_fail(self, client: paho.Client, _: object) -> None:
        self._wait_by_lot(client)
        self._soon(self._fell, "it does not answer")

    def _on_disconnect(
        self, client: paho.Client, _: object, __: paho.DisconnectFlags, reason: ReasonCode, ___: Properties | None
    ) -> None:
        self._wait_by_lot(client)
        self._soon(self._broke, client, self._connections, self._is_answered)
        self._soon(self._fell, f"the connection was lost ({reason})")
        self._is_answered = False

    def _wait_by_lot(self, client: paho.Client) -> None:
        if self._context is not None and self._plan.address.tls is not None:
            with contextlib.suppress(LocalError):  # being replaced right now; those of before are tried, then
                load_files(self._context, self._plan.address.tls)
        wait_s = self._backoff.next_s()
        client.reconnect_delay_set(wait_s, wait_s)  # type: ignore[arg-type] # paho takes fractions, too

    def _on_publish(self, _: paho.Client, __: object, packet: int, reason: ReasonCode, ___: Properties) -> None:
        self._soon(self._published, packet, str(reason) if reason.is_failure else "")

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        token = (self._connections, message.mid)
        properties = message.properties
        received = Received(
            message.topic,
            bytes(message.payload),
            message.qos,
            message.retain,
            token,
            message.dup,
            getattr(properties, "ContentType", ""),
            tuple(getattr(properties, "UserProperty", ())),
        )
        if self._backlog.add([received]):
            self._soon(self._backlog.hand_over)

    def _soon(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- the event loop ------------------------------------------------------------------------------------------

    async def _begin_again(self, client: paho.Client) -> None:
        await asyncio.to_thread(_stop, client)
        await asyncio.sleep(self._backoff.next_s())
        await self._begin()

    def _opened(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._window = min(PAHO_IN_FLIGHT_MAX, limits.receive_maximum)
        self._send_waiting()

    def _published(self, packet: int, problem: str) -> None:
        if packet in self._unsent:  # of QoS 0, and written; paho may give it the id of one that still waits
            self._unsent.discard(packet)
        else:
            outgoing = self._pending.pop(packet, None)
            self._send_waiting()
            if outgoing is not None and problem:
                self._turned_down(outgoing, problem)
            elif outgoing is not None and outgoing.then is not None and not self._is_closing:
                outgoing.then()
        if self._was_crowded and max(self._outstanding, len(self._unsent)) <= LINK_QUEUE_MAX // 4:
            self._was_crowded = False
            self._plan.on_room()

    def _broke(self, client: paho.Client, connection: int, is_answered: bool) -> None:
        """A connection ended: what it had brought comes again, what was on its way out of QoS 0 does not."""
        if not is_answered and client is self._client and not self._is_closing:
            self._client = None
            self._spoken.doubt()
            self._waiting.extendleft(reversed(self._pending.values()))
            self._pending.clear()
            self._running = asyncio.create_task(self._begin_again(client))
        self._window = 0
        self._unsent.clear()
        self._backlog.forget(connection)
        if not self._is_closing:
            self._plan.on_broken()

    def _refused(self, topics: Sequence[str]) -> None:
        """Ask again later: an operator may be mending the broker's access list right now."""
        self._fell(f"it does not let us subscribe to {', '.join(topics)}")
        self._loop.call_later(RECONNECT_S_MAX, self._subscribe_again)

    def _subscribe_again(self) -> None:
        if self._client is not None and self._client.is_connected() and not self._is_up:
            self._subscribe(self._client)


def _stop(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()


def _limits(properties: Properties | None) -> BrokerLimits:
    return BrokerLimits(
        getattr(properties, "ReceiveMaximum", 65_535),
        getattr(properties, "MaximumPacketSize", 0),
        bool(getattr(properties, "RetainAvailable", 1)),
    )


def _properties(content_type: str, user_properties: tuple[tuple[str, str], ...]) -> Properties | None:
    if not content_type and not user_properties:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho has no types there
    if content_type:
        properties.ContentType = content_type
    if user_properties:
        properties.UserProperty = list(user_properties)
    return properties
