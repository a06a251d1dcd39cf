"""MQTT's packets, 3.1.1 and 5, as far as a gateway needs them: bytes out, and values from bytes; no IO.

Written for the case that comes by the ten thousand each second: a PUBLISH without properties, and its PUBACK. All sizes
and lengths are checked: what does not fit raises PacketError, and the connection is ended.

Of a packet past READ_BYTES_MAX the end is forgotten as it comes. We do not tell brokers of MQTT 5 that we want none of
those (Maximum Packet Size): Mosquitto 2.0.11 leaves them out, but counts each as in flight for ever, and soon sends
nothing at all.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mqloom.core.limits import READ_BYTES_MAX
from mqloom.core.topics import by_heart, check_topic
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.protocols import MQTT_5, BrokerLimits

CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
SUBACK: Final = 0x90
UNSUBACK: Final = 0xB0
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0

PING: Final = b"\xc0\x00"
FAREWELL: Final = b"\xe0\x00"

NUMBER, PAIR, TEXT, BYTES = 0, 1, 2, 3
PROPERTIES: Final = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), (NUMBER, 1)),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), (NUMBER, 2)),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), (NUMBER, 4)),
    0x0B: (NUMBER, 0),  # of variable length
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), (TEXT, 0)),
    **dict.fromkeys((0x09, 0x16), (BYTES, 0)),
    0x26: (PAIR, 0),
}
"""MQTT 5's properties by their numbers: what they are, and of how many bytes (section 2.2.2.2)."""
CONTENT_TYPE, SESSION_EXPIRY, SERVER_KEEP_ALIVE, USER_PROPERTY = 0x03, 0x11, 0x13, 0x26
TOPIC_ALIASES_MAX, TOPIC_ALIAS = 0x22, 0x23
RECEIVE_MAXIMUM, RETAIN_AVAILABLE, PACKET_BYTES_MAX, REASON_TEXT = 0x21, 0x25, 0x27, 0x1F

REASONS: Final = {
    0x01: "unsupported protocol version",
    0x02: "identifier rejected",
    0x03: "it is not available",
    0x04: "bad user name or password",
    0x05: "not authorized",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "a reason of its own",
    0x84: "unsupported protocol version",
    0x85: "identifier rejected",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "it is not available",
    0x89: "it is busy",
    0x8A: "we are banned",
    0x8B: "it is shutting down",
    0x8D: "keep-alive timeout",
    0x8E: "somebody else has taken over our name",
    0x90: "it does not want this topic",
    0x91: "packet id in use",
    0x93: "receive maximum exceeded",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x99: "it does not want this payload",
}


class PacketError(ValueError):
    """What has come is no MQTT."""


class Answer(NamedTuple):
    """A CONNACK."""

    code: int
    limits: BrokerLimits
    keepalive_s: int | None
    is_resumed: bool = False


def reason_text(code: int) -> str:
    """Return what a reason code means, for people."""
    return REASONS.get(code, f"reason 0x{code:02x}")


# ---- out ---------------------------------------------------------------------------------------------------------


def connect(plan: ConnectionPlan, version: int, keepalive_s: int, session_s: int) -> bytes:
    """Return a CONNECT."""
    address, will = plan.address, plan.will
    flags = 0x02 if plan.clean_session else 0
    body = _text(plan.client_id)
    if will is not None:
        flags |= 0x2C  # QoS 1, retained
        body += (b"\x00" if version == MQTT_5 else b"") + _text(will[0]) + _binary(will[1])
    if address.username:
        flags |= 0x80
        body += _text(address.username)
        if address.password:
            flags |= 0x40
            body += _text(address.password)
    properties = b""
    if version == MQTT_5:
        expiry = b"" if plan.clean_session else struct.pack("!BI", SESSION_EXPIRY, session_s)
        properties = length(len(expiry)) + expiry
    head = struct.pack("!H4sBBH", 4, b"MQTT", version, flags, keepalive_s)
    return _packet(0x10, head + properties + body)


def subscribe(packet: int, subscriptions: Sequence[TopicSubscription], version: int) -> bytes:
    """Return a SUBSCRIBE."""
    body = struct.pack("!H", packet) + (b"\x00" if version == MQTT_5 else b"")
    for each in subscriptions:
        options = each.qos
        if version == MQTT_5:
            options |= each.no_local << 2 | each.retain_as_published << 3 | int(each.retained) << 4
        body += _text(each.topic) + bytes((options,))
    return _packet(0x82, body)


def unsubscribe(packet: int, topics: Sequence[str], version: int) -> bytes:
    """Return an UNSUBSCRIBE."""
    body = struct.pack("!H", packet) + (b"\x00" if version == MQTT_5 else b"")
    return _packet(0xA2, body + b"".join(map(_text, topics)))


def publish(head: int, topic: bytes, packet: int, properties: bytes, payload: bytes) -> bytes:
    """Return a PUBLISH: its first byte, `topic_bytes`, a packet id or 0, `publish_properties` and payload."""
    if packet:
        size = len(topic) + len(properties) + len(payload) + 2
        return b"".join((_head(head, size), topic, packet.to_bytes(2, "big"), properties, payload))
    return b"".join((_head(head, len(topic) + len(properties) + len(payload)), topic, properties, payload))


@by_heart(4_096)
def topic_bytes(topic: str) -> bytes:
    """Return a topic as it is in a PUBLISH; raises TopicError if MQTT does not allow it."""
    check_topic(topic)
    return _text(topic)


def publish_properties(version: int, content_type: str, user_properties: Sequence[tuple[str, str]]) -> bytes:
    """Return the properties of a PUBLISH; with 3.1.1 there are none, not even their length."""
    if version != MQTT_5:
        return b""
    if not content_type and not user_properties:
        return b"\x00"
    body = bytes((CONTENT_TYPE,)) + _text(content_type) if content_type else b""
    for name, value in user_properties:
        body += bytes((USER_PROPERTY,)) + _text(name) + _text(value)
    return length(len(body)) + body


class TopicNumbers:
    """Numbers that stand for topics in one connection of MQTT 5: the first PUBLISH to a topic says which it has."""

    def __init__(self, numbers_max: int) -> None:
        self._numbers_max = numbers_max
        self._known: dict[bytes, bytes] = {}

    def publish(self, head: int, topic: bytes, payload: bytes) -> bytes:
        """Return a PUBLISH of QoS 0 without other properties; topics for which no number is left are written."""
        properties = self._known.get(topic)
        if properties is not None:
            return publish(head, b"\x00\x00", 0, properties, payload)
        if len(self._known) >= self._numbers_max:
            return publish(head, topic, 0, b"\x00", payload)
        properties = self._known[topic] = struct.pack("!BBH", 3, TOPIC_ALIAS, len(self._known) + 1)
        return publish(head, topic, 0, properties, payload)


def puback(packet: int) -> bytes:
    """Return a PUBACK that says that all is well, the same in both versions."""
    return b"\x40\x02" + packet.to_bytes(2, "big")


def length(number: int) -> bytes:
    """Return a number as MQTT writes lengths."""
    if number < 128:
        return bytes((number,))
    digits = bytearray()
    while number > 127:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _head(first: int, size: int) -> bytes:
    return bytes((first, size)) if size < 128 else bytes((first,)) + length(size)


def _packet(first: int, body: bytes) -> bytes:
    return _head(first, len(body)) + body


def _text(text: str) -> bytes:
    return _binary(text.encode())


def _binary(data: bytes) -> bytes:
    if len(data) > 65_535:
        raise PacketError("longer than MQTT can say")
    return len(data).to_bytes(2, "big") + data


# ---- in ----------------------------------------------------------------------------------------------------------


class Splitter:
    """Cuts what comes from the network into packets; those past READ_BYTES_MAX end there."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 2
        self._cut = 0, b""
        self._rest = 0  # bytes to come of the packet that is cut

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the packets that are complete, each its first byte and what is behind its length."""
        if self._rest:
            passed = min(self._rest, len(data))
            self._rest -= passed
            if self._rest:
                return
            cut, self._cut = self._cut, (0, b"")
            yield cut
            data = data[passed:]
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
        position, end = 0, len(data)
        while True:
            size, begin = _size(data, position, end)
            kept = min(size, READ_BYTES_MAX)
            if size < 0 or begin + kept > end:
                break
            packet = data[position], data[begin : begin + kept]
            position = begin + size
            if position > end:
                self._cut, self._rest = packet, position - end
                self._parts, self._have, self._need = [], 0, 2
                return
            yield packet
        self._parts = [data[position:]] if position < end else []
        self._have = end - position
        self._need = begin - position + kept if size >= 0 else self._have + 1


def _size(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the size of a packet's rest, and where that begins; -1 if its length has not come yet."""
    if position + 2 < end:  # nearly all packets are that short: no loop for them
        low, high = data[position + 1], data[position + 2]
        if low < 128:
            return low, position + 2
        if high < 128:
            return low & 0x7F | high << 7, position + 3
    begin, size = position + 1, 0
    for shift in (0, 7, 14, 21):
        if begin >= end:
            return -1, begin
        digit = data[begin]
        begin += 1
        size |= (digit & 0x7F) << shift
        if digit < 128:
            return size, begin
    raise PacketError("a length of more than four bytes")


def read_publish(first: int, body: bytes, version: int, connection: int) -> Received:
    """Return what a PUBLISH says; of one that was cut, all behind its topic and packet id is payload."""
    qos = first >> 1 & 3
    try:
        position = 2 + (body[0] << 8 | body[1])
        topic = str(body[2:position], "utf-8")
        packet = 0
        if qos:
            packet = body[position] << 8 | body[position + 1]
            position += 2
        content_type: str = ""
        user_properties: tuple[tuple[str, str], ...] = ()
        if version == MQTT_5 and len(body) < READ_BYTES_MAX:
            if body[position]:
                properties, position = read_properties(body, position)
                content_type = str(properties.get(CONTENT_TYPE, ""))
                user_properties = tuple(properties[USER_PROPERTY]) if USER_PROPERTY in properties else ()  # type: ignore[arg-type] # pairs
            else:
                position += 1
    except (IndexError, UnicodeDecodeError) as error:
        raise PacketError(f"a PUBLISH: {error}") from None
    retain, again = bool(first & 1), bool(first & 8)
    return Received(topic, body[position:], qos, retain, (connection, packet), again, content_type, user_properties)


def read_connack(body: bytes, version: int) -> Answer:
    """Return what a CONNACK says."""
    if len(body) < 2:
        raise PacketError("a CONNACK of less than two bytes")
    code = body[1]
    if version != MQTT_5 or len(body) < 3 or code == 1:
        return Answer(code, BrokerLimits(), None, bool(body[0] & 1))
    properties, _ = read_properties(body, 2)
    limits = BrokerLimits(
        _number(properties, RECEIVE_MAXIMUM, 65_535),
        _number(properties, PACKET_BYTES_MAX, 0),
        bool(_number(properties, RETAIN_AVAILABLE, 1)),
        _number(properties, TOPIC_ALIASES_MAX, 0),
    )
    keepalive_s = _number(properties, SERVER_KEEP_ALIVE, -1)
    return Answer(code, limits, keepalive_s if keepalive_s >= 0 else None, bool(body[0] & 1))


def read_suback(body: bytes, version: int) -> tuple[int, bytes]:
    """Return the packet id and the reason codes of a SUBACK."""
    if len(body) < 3:
        raise PacketError("a SUBACK of less than three bytes")
    begin = read_properties(body, 2)[1] if version == MQTT_5 else 2
    return body[0] << 8 | body[1], body[begin:]


def read_unsuback(body: bytes, version: int) -> tuple[int, bytes]:
    """Return the packet id and the reason codes of an UNSUBACK; with 3.1.1 there are none."""
    if len(body) < 2:
        raise PacketError("an UNSUBACK of less than two bytes")
    begin = read_properties(body, 2)[1] if version == MQTT_5 else 2
    return body[0] << 8 | body[1], body[begin:]


def read_puback(body: bytes) -> tuple[int, int]:
    """Return the packet id and the reason code of a PUBACK."""
    if len(body) < 2:
        raise PacketError("a PUBACK of less than two bytes")
    return body[0] << 8 | body[1], body[2] if len(body) > 2 else 0


def read_properties(body: bytes, position: int) -> tuple[dict[int, object], int]:
    """Return the properties at a position, by number (user properties as a list), and the place behind them."""
    found: dict[int, object] = {}
    pairs: list[tuple[str, str]] = []
    try:
        size, position = _size(body, position - 1, len(body))
        end = position + size
        if size < 0 or end > len(body):
            raise PacketError("properties longer than their packet")
        while position < end:
            kind = body[position]
            position += 1
            what, bytes_count = PROPERTIES[kind]
            if what == PAIR:
                name, position = _read_binary(body, position)
                value, position = _read_binary(body, position)
                pairs.append((str(name, "utf-8"), str(value, "utf-8")))
            elif what == NUMBER and bytes_count:
                found[kind] = int.from_bytes(body[position : position + bytes_count], "big")
                position += bytes_count
            elif what == NUMBER:
                found[kind], position = _size(body, position - 1, len(body))
            else:
                value, position = _read_binary(body, position)
                found[kind] = str(value, "utf-8") if what == TEXT else value
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise PacketError(f"properties: {error!r}") from None
    if position != end:
        raise PacketError("properties longer than they say")
    if pairs:
        found[USER_PROPERTY] = pairs
    return found, end


def _read_binary(body: bytes, position: int) -> tuple[bytes, int]:
    begin = position + 2
    end = begin + (body[position] << 8 | body[position + 1])
    if end > len(body):
        raise PacketError("a text longer than its packet")
    return body[begin:end], end


def _number(properties: dict[int, object], kind: int, otherwise: int) -> int:
    number = properties.get(kind, otherwise)
    assert isinstance(number, int)
    return number
