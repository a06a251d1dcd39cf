"""Trying out a broker, for `mqloom doctor`: one client at a time, every wait bounded, and nothing left behind."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Literal

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from mqloom.core.errors import BrokerError
from mqloom.core.limits import DOCTOR_MESSAGE_BYTES, DOCTOR_QUEUE_S, DOCTOR_STEP_S
from mqloom.core.tls import tls_context
from mqloom.gateway.doctor_topics import Needs, Reading
from mqloom.gateway.doctoring import Permission
from mqloom.gateway.interfaces import BrokerAddress

Version = Literal["5", "3.1.1"]
PROTOCOLS = {"5": paho.MQTTv5, "3.1.1": paho.MQTTv311}
MOSQUITTO_LOG = {
    "subscribe": "$SYS/broker/log/M/subscribe",
    "unsubscribe": "$SYS/broker/log/M/unsubscribe",
    "notice": "$SYS/broker/log/N",
}
"""Where it publishes each type."""
KEEP_S = 3_600
"""How long a session of MQTT 5 is kept at most, should we not end it."""


class Probe:
    """A client of a broker, from `with` to its end; raises BrokerError if the broker does not take it."""

    def __init__(self, address: BrokerAddress, name: str, version: str, *, keeps_session: bool = False) -> None:
        self.was_known = False
        """Whether the broker had a session of ours."""
        self.packet_bytes_max = 0
        """How large a packet it says it takes; 0: it says nothing."""
        self.messages: list[tuple[str, bytes]] = []
        self._address = f"{address.host}:{address.port}"
        self._version = version
        self._keeps_session = keeps_session
        self._news = threading.Condition()
        self._connected = ""
        self._is_lost = False
        self._granted: dict[int, bool] = {}
        self._acknowledged: dict[int, bool] = {}
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if version == "5" else not keeps_session,
            protocol=PROTOCOLS[version],
            reconnect_on_failure=False,
        )
        self._client.max_inflight_messages_set(100)
        self._client.max_queued_messages_set(0)
        if address.username:
            self._client.username_pw_set(address.username, address.password or None)
        if address.tls is not None:
            self._client.tls_set_context(tls_context(address.tls))
            self._client.tls_insecure_set(not address.tls.check_hostname)
        self._client.connect_timeout = DOCTOR_STEP_S
        self._host, self._port = address.host, address.port
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message

    def __enter__(self) -> "Probe":
        try:
            if self._version == "5":
                properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho's own
                properties.SessionExpiryInterval = KEEP_S if self._keeps_session else 0
                self._client.connect(self._host, self._port, clean_start=not self._keeps_session, properties=properties)
            else:
                self._client.connect(self._host, self._port)
        except OSError as error:
            raise BrokerError(self._address, f"it does not answer ({error})") from None
        self._client.loop_start()
        if not self.wait(lambda: bool(self._connected) or self._is_lost, DOCTOR_STEP_S) or self._connected != "Success":
            self._stop()
            raise BrokerError(self._address, f"it refuses us: {self._connected or 'it says nothing'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def wait(self, is_so: Callable[[], bool], wait_s: float) -> bool:
        """Return whether something comes about in time."""
        with self._news:
            return self._news.wait_for(is_so, wait_s)

    @property
    def is_lost(self) -> bool:
        """Whether the broker has ended the connection."""
        return self._is_lost

    def subscribe(self, topics: str) -> bool | None:
        """Return whether the broker grants it; None if it does not say."""
        result, packet = self._client.subscribe(topics, 1)
        if result != MQTTErrorCode.MQTT_ERR_SUCCESS or packet is None:
            return None
        self.wait(lambda: packet in self._granted or self._is_lost, DOCTOR_STEP_S)
        return False if self._is_lost else self._granted.get(packet)

    def unsubscribe(self, topics: str) -> None:
        """Unsubscribe, whatever comes of it."""
        self._client.unsubscribe(topics)

    def publish(self, topic: str, payload: bytes) -> bool | None:
        """Return whether the broker lets us; None if it does not say. MQTT 3.1.1 says yes to everything."""
        packet = self._client.publish(topic, payload, 1).mid
        self.wait(lambda: packet in self._acknowledged or self._is_lost, DOCTOR_STEP_S)
        return False if self._is_lost else self._acknowledged.get(packet)

    def publish_many(self, topic: str, count: int) -> int:
        """Publish numbered messages; return how many the broker has acknowledged in time."""
        packets = set()
        for number in range(count):
            payload = str(number).encode().ljust(DOCTOR_MESSAGE_BYTES, b".")
            packets.add(self._client.publish(topic, payload, 1).mid)
            if number % 1_000 == 999:
                wanted = len(packets)
                self.wait(lambda wanted=wanted: len(self._acknowledged) >= wanted or self._is_lost, DOCTOR_QUEUE_S)  # type: ignore[misc]
        self.wait(lambda: len(self._acknowledged) >= count or self._is_lost, DOCTOR_QUEUE_S)
        return sum(self._acknowledged.values())

    # ---- called by paho's thread ---------------------------------------------------------------------------------

    def _on_connect(
        self, _: paho.Client, __: object, flags: paho.ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        with self._news:
            self._connected = str(reason)
            self.packet_bytes_max = getattr(properties, "MaximumPacketSize", 0)
            self.was_known = flags.session_present
            self._news.notify_all()

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: paho.DisconnectFlags, ____: ReasonCode, _____: Properties | None
    ) -> None:
        with self._news:
            self._is_lost = True
            self._news.notify_all()

    def _on_subscribe(
        self, _: paho.Client, __: object, packet: int, reasons: list[ReasonCode], ___: Properties | None
    ) -> None:
        with self._news:
            self._granted[packet] = not any(reason.is_failure for reason in reasons)
            self._news.notify_all()

    def _on_publish(self, _: paho.Client, __: object, packet: int, reason: ReasonCode, ___: Properties) -> None:
        with self._news:
            self._acknowledged[packet] = not reason.is_failure
            self._news.notify_all()

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        with self._news:
            self.messages.append((message.topic, bytes(message.payload)))
            self._news.notify_all()


def try_versions(address: BrokerAddress, name: str) -> dict[str, str]:
    """Return, for each version of MQTT, why the broker does not speak it; empty if it does."""
    refusals: dict[str, str] = {}
    for version in PROTOCOLS:
        try:
            with Probe(address, name, version):
                refusals[version] = ""
        except BrokerError as error:
            refusals[version] = error.problem
    return refusals


def try_size(address: BrokerAddress, name: str, version: str) -> int:
    """Return how large a packet the broker says it takes; 0 if it says nothing, as with 3.1.1. Raises BrokerError."""
    with Probe(address, name, version) as probe:
        return probe.packet_bytes_max


def try_queue(
    address: BrokerAddress, name: str, version: str, topic: str, count: int
) -> tuple[bool | None, tuple[int, int] | None]:
    """Leave, let messages come, and come back: return whether we were known, and how many were acknowledged and kept.

    The session is ended by one of the same name that keeps none.
    """
    try:
        with Probe(address, name, version, keeps_session=True) as absent:
            absent.subscribe(topic)
        with Probe(address, name, version, keeps_session=True) as back:
            was_known = back.was_known
        with Probe(address, f"{name}-writer", version) as writer:
            acknowledged = writer.publish_many(topic, count)
        with Probe(address, name, version, keeps_session=True) as back:
            _wait_for_all(back, topic, acknowledged)
            kept = len({payload for where, payload in back.messages if where == topic})
        return was_known, (acknowledged, kept)
    except BrokerError:
        return None, None
    finally:
        forget(address, name, version)


def _wait_for_all(back: Probe, topic: str, count: int) -> None:
    """Return when all have come, or for a while no more do."""
    while len(back.messages) < count:
        before = len(back.messages)
        if not back.wait(lambda before=before: len(back.messages) > before, DOCTOR_STEP_S):  # type: ignore[misc]
            return


def forget(address: BrokerAddress, name: str, version: str) -> None:
    """Have the broker forget a session."""
    try:
        with Probe(address, name, version):
            pass
    except BrokerError:
        return


def try_needs(
    address: BrokerAddress, name: str, version: str, needs: Needs, writer: BrokerAddress | None = None
) -> list[Permission]:
    """Try every topic; what is read is written by the same account, or by the `writer`. Raises BrokerError."""
    read = [_try_reading(address, name, version, each, writer or address) for each in needs.readings]
    written = [
        Permission(
            "write",
            each.topics,
            _try_writing(address, name, version, each.topic, each.payload) if each.topic else "untried",
        )
        for each in needs.writings
    ]
    return read + written


def _try_reading(
    address: BrokerAddress, name: str, version: str, reading: Reading, writer: BrokerAddress
) -> Permission:
    with Probe(address, name, version) as reader:
        granted = reader.subscribe(reading.topics)
        if granted is False:
            return Permission("read", reading.topics, "refused")
        if not reading.through:
            return Permission("read", reading.topics, "granted" if granted else "unknown")
        try:
            with Probe(writer, f"{name}-writer", version) as other:
                is_written = other.publish(reading.through, reading.payload)
        except BrokerError:
            is_written = None
        came = reader.wait(lambda: any(topic == reading.through for topic, _ in reader.messages), DOCTOR_STEP_S / 2)
        if came:
            return Permission("read", reading.topics, "proven")
        if is_written and version == "5":  # 3.1.1 says yes to what it does not publish
            return Permission("read", reading.topics, "refused")
        return Permission("read", reading.topics, "granted" if granted else "unknown")


def _try_writing(
    address: BrokerAddress, name: str, version: str, topic: str, payload: bytes
) -> Literal["proven", "granted", "refused", "unknown"]:
    """MQTT 5 says when it refuses; of 3.1.1 some brokers end the connection, and others are silent."""
    with Probe(address, name, version) as writer:
        granted = writer.publish(topic, payload)
        if granted is None:
            return "unknown"
        if not granted:
            return "refused"
        return "proven" if version == "5" else "granted"


def try_log(address: BrokerAddress, name: str, version: str, topic: str) -> set[str]:
    """Return which types a Mosquitto's log tells: that somebody subscribes, unsubscribes, and comes and goes.

    Raises BrokerError.
    """
    with Probe(address, name, version) as reader:
        for each in MOSQUITTO_LOG.values():
            reader.subscribe(each)
        with Probe(address, f"{name}-writer", version) as other:
            other.subscribe(topic)
            other.unsubscribe(topic)

        def told() -> set[str]:
            ours = {where for where, line in reader.messages if f"{name}-writer".encode() in line}
            return {each for each, where in MOSQUITTO_LOG.items() if where in ours}

        reader.wait(lambda: len(told()) == len(MOSQUITTO_LOG), DOCTOR_STEP_S / 2)
        return told()


def try_as_stranger(address: BrokerAddress, name: str, version: str, topic: str) -> bool:
    """Return whether somebody without an account may write to a topic, as far as the broker tells."""
    try:
        nobody = BrokerAddress(address.host, address.port, tls=address.tls)
        return version == "5" and _try_writing(nobody, name, version, topic, b"?") == "proven"
    except BrokerError:
        return False
