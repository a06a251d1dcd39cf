"""Alerts as publications of MQTT, each once: the broker itself is asked which it already has.

We subscribe to what we publish, with a session that the broker keeps, and acknowledge an alert that comes back to us
only after it was ticked off. So after a crash the broker sends us again what it has and we have not ticked off, and
only what does not come is published again. Where a broker keeps no session, or a connection is lost between an alert
and the broker's answer to it, an alert may come twice, with the same id.

What others publish there is acknowledged at once: it would fill what the broker keeps for us.
"""

import queue
import secrets
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Self

import msgspec
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.core.broker_login import BrokerLogin
from mqloom.core.errors import BrokerError
from mqloom.core.tls import tls_context, tls_problem
from mqloom.spark_analytics.alerts import Alert

ANSWER_S: Final = 10.0
"""How long to wait for the broker's answer to a connection and a subscription."""

RETURN_S: Final = 60.0
"""How long to wait for the next of what we published to come back; lost connections are made again meanwhile."""

TICKED_MAX: Final = 200
"""What has come back is ticked off together, so many at most: each time costs a write that waits for the disk."""


class _Named(msgspec.Struct):
    id: str


_named_decoder: Final = msgspec.json.Decoder(_Named)


class AlertPublisher:
    """A connection to the broker where alerts go; a context manager. Raises BrokerError if it does not answer."""

    def __init__(self, login: BrokerLogin, topic: str, name: str, pending: Iterable[str] = ()) -> None:
        """`pending` are the ids of alerts that may have been published before, and were not ticked off."""
        self._login = login
        self._awaited = frozenset(pending)
        self._topic = topic
        self._fence = f"{topic}/fence/{name}"
        self._came: queue.SimpleQueue[MQTTMessage] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._client = self._paho(f"mqloom.alerts.{name}")

    def _paho(self, client_id: str) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=False,
            protocol=MQTTProtocolVersion.MQTTv311,
            manual_ack=True,
        )
        client.connect_timeout = ANSWER_S
        client.reconnect_delay_set(1, 10)
        if self._login.username:
            client.username_pw_set(self._login.username, self._login.password or None)
        if self._login.tls is not None:
            client.tls_set_context(tls_context(self._login.tls))
            client.tls_insecure_set(not self._login.tls.check_hostname)
        client.on_connect = self._on_connect
        client.on_subscribe = lambda *_: self._told.put("")
        client.on_message = self._on_message
        return client

    def _on_message(self, client: Client, _data: Any, message: MQTTMessage) -> None:
        if message.topic == self._fence or _name(bytes(message.payload)) in self._awaited:
            self._came.put(message)
        else:  # also what a broker hands over that we did not ask for
            client.ack(message.mid, message.qos)

    def _on_connect(self, client: Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._told.put(f"it refuses us: {reason}")
        else:
            client.subscribe([(self._topic, 1), (self._fence, 1)])

    def __enter__(self) -> Self:
        try:
            self._client.connect(self._login.host, self._login.port)
        except OSError as error:
            raise BrokerError(self._login.address, tls_problem(error) or f"cannot be reached: {error}") from None
        self._client.loop_start()
        try:
            problem = self._told.get(timeout=ANSWER_S)
        except queue.Empty:
            problem = f"does not answer within {ANSWER_S:g} s"
        if problem:
            self._leave()
            raise BrokerError(self._login.address, problem)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, alerts: list[Alert], tick_off: Callable[[Collection[str]], None]) -> None:
        """Publish those that the broker does not have yet, and tick off those that it has. Raises BrokerError.

        When a connection is lost meanwhile, paho sends again what was not answered.
        """
        waiting = {alert.id: alert for alert in alerts}
        self._awaited = frozenset(waiting)
        token = secrets.token_bytes(8)
        self._client.publish(self._fence, token, qos=1)
        # What the broker has for us has come when our own message, sent last, is back.
        self._take(self._fence, waiting, tick_off, lambda message: message.payload == token)
        if waiting:
            for alert in waiting.values():
                self._client.publish(self._topic, msgspec.json.encode(alert), qos=1)
            self._take(self._topic, waiting, tick_off, lambda _: not waiting)

    def _take(
        self,
        topic: str,
        waiting: dict[str, Alert],
        tick_off: Callable[[Collection[str]], None],
        is_last: Callable[[MQTTMessage], bool],
    ) -> None:
        """Take messages until one on this topic is the last; raises BrokerError if for too long none comes."""
        is_over = False
        while not is_over:
            messages = self._next(topic)
            names = [_name(bytes(message.payload)) for message in messages if message.topic == self._topic]
            ours = [name for name in names if waiting.pop(name, None) is not None]
            if ours:
                tick_off(ours)
            for message in messages:
                self._client.ack(message.mid, message.qos)
            is_over = any(message.topic == topic and is_last(message) for message in messages)

    def _next(self, topic: str) -> list[MQTTMessage]:
        """Return what has come, one message at least; raises BrokerError if none comes."""
        try:
            found = [self._came.get(timeout=RETURN_S)]
        except queue.Empty:
            text = f"what we publish on {topic} does not come back within {RETURN_S:g} s: may we read it there?"
            raise BrokerError(self._login.address, text) from None
        while len(found) < TICKED_MAX:
            try:
                found.append(self._came.get_nowait())
            except queue.Empty:
                break
        return found


def _name(payload: bytes) -> str:
    try:
        return _named_decoder.decode(payload).id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""  # somebody else's
