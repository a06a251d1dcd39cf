"""A publisher that is faster than whatever it publishes to, in a process of its own: bare MQTT 3.1.1 on a socket.

It sends evenly: every millisecond, or when the next is due if that is later, whatever is due goes out in one write.
Packets are put together as they are sent, from parts made before. With QoS 1 up to IN_FLIGHT_MAX wait for their
acknowledgement, which brokers send in order; if there are so many, it waits, and the run takes longer than planned.
A run that is ended leaves acknowledgements that are still to come: the next one waits for these before it begins, or it
would take them for its own, and would itself end before it has its own, and so on for ever.
"""

import select
import socket
import struct
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from mqloom.lab.bench_quotes import PREFIX, QUOTES, Quotes

IN_FLIGHT_MAX: Final = 50_000
TICK_S: Final = 0.001
BATCH_MAX: Final = 2_000
"""Packets of one write."""
ANSWER_S_MAX: Final = 10.0
LATE_S_MAX: Final = 3.0
"""A run that takes so much longer than planned is ended: the rate is not held."""
STUCK_S_MAX: Final = 20.0
"""A broker that reads nothing for so long ends the measurement."""
CONNECT: Final = b"\x10\x12\x00\x04MQTT\x04\x02\x00\x00\x00\x06mqlbch"
"""A clean session, no keepalive."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to publish: numbers first, first + 1, ..., at a rate a second."""

    first: int
    count: int
    rate: float
    qos: int


class Done(NamedTuple):
    """What became of an order: the time of each that was sent, how long it took, how many were acknowledged."""

    times: "array[float]"
    took_s: float
    acknowledged: int


def publish_for(control: Connection, port: int, seed: int) -> None:
    """Be the process: take orders from the other end of a pipe until it is closed."""
    packets = Quotes(seed, 0).packets()
    heads = {qos: _heads(packets, qos) for qos in (0, 1)}
    owed = 0
    with connected(port, CONNECT) as broker:
        while True:
            try:
                order: Order = control.recv()
            except (EOFError, KeyboardInterrupt):
                return
            done = publish(broker, heads[order.qos], packets, order, owed)
            owed = len(done.times) - done.acknowledged if order.qos else 0
            control.send(done)


def connected(port: int, hello: bytes) -> socket.socket:
    """Connect to a broker of this machine and say CONNECT; raises OSError."""
    broker = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
    broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    broker.sendall(hello)
    answer = broker.recv(4)
    if answer != b"\x20\x02\x00\x00":
        broker.close()
        raise ConnectionError(f"the broker on port {port} answered CONNECT with {answer!r}")
    return broker


def _heads(packets: Sequence[tuple[bytes, bytes]], qos: int) -> list[bytes]:
    """Return what precedes the packet id, or with QoS 0 the payload, of each quote."""
    heads = []
    for topic, rest in packets:
        size = 2 + len(topic) + 2 * qos + len(PREFIX) + 8 + len(rest)
        heads.append(bytes([0x30 | qos << 1]) + remaining_length(size) + struct.pack(">H", len(topic)) + topic)
    return heads


def remaining_length(size: int) -> bytes:
    """Return MQTT's encoding of a packet's length."""
    digits = bytearray()
    while True:
        size, digit = divmod(size, 128)
        digits.append(digit | 0x80 if size else digit)
        if not size:
            return bytes(digits)


def publish(
    broker: socket.socket, heads: Sequence[bytes], packets: Sequence[tuple[bytes, bytes]], order: Order, owed: int = 0
) -> Done:
    """Carry out one order; `owed` acknowledgements of the one before are waited for first. Raises TimeoutError."""
    _settle(broker, owed)
    times: array[float] = array("d")
    acknowledged = _Acknowledged()
    begun = time.monotonic()
    deadline = begun + order.count / order.rate + LATE_S_MAX
    sent = 0
    while sent < order.count and (now := time.monotonic()) < deadline:
        in_flight = sent - acknowledged.count if order.qos else 0
        due = min(order.count, int((now - begun) * order.rate) + 1) - sent
        count = min(due, BATCH_MAX, IN_FLIGHT_MAX - in_flight)
        if count > 0:
            data = _batch(heads, packets, order, sent, count)
            _send(broker, data, acknowledged)
            times.extend([time.monotonic()] * count)
            sent += count
        wait_s = 0.0 if due > BATCH_MAX else max(TICK_S, begun + sent / order.rate - time.monotonic())
        acknowledged.take(broker, wait_s)
    while order.qos and acknowledged.count < sent and time.monotonic() < deadline:
        acknowledged.take(broker, 0.01)
    return Done(times, time.monotonic() - begun, acknowledged.count)


def _settle(broker: socket.socket, owed: int) -> None:
    late, deadline = _Acknowledged(), time.monotonic() + STUCK_S_MAX
    while late.count < owed:
        late.take(broker, 0.01)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{owed - late.count} publications are not acknowledged after {STUCK_S_MAX:g} s")


def _batch(
    heads: Sequence[bytes], packets: Sequence[tuple[bytes, bytes]], order: Order, sent: int, count: int
) -> bytes:
    parts: list[bytes] = []
    first = order.first + sent
    if order.qos:
        for number in range(first, first + count):
            index = number % QUOTES
            packet = b'%b{"id": %d' % (struct.pack(">H", number % 65_535 + 1), number)
            parts += (heads[index], packet, packets[index][1])
    else:
        for number in range(first, first + count):
            index = number % QUOTES
            parts += (heads[index], b'{"id": %d' % number, packets[index][1])
    return b"".join(parts)


class _Acknowledged:
    """Counts PUBACKs, of four bytes each."""

    def __init__(self) -> None:
        self._bytes = 0

    @property
    def count(self) -> int:
        return self._bytes // 4

    def take(self, broker: socket.socket, wait_s: float) -> None:
        """Wait, and read what has come until then or comes in the meantime."""
        if select.select([broker], [], [], wait_s)[0]:
            data = broker.recv(1 << 16)
            if not data:
                raise ConnectionError("the broker has closed the publisher's connection")
            self._bytes += len(data)
            if wait_s > TICK_S / 2:
                time.sleep(min(wait_s, TICK_S) / 2)  # acknowledgements must not make it send one by one


def _send(broker: socket.socket, data: bytes, acknowledged: _Acknowledged) -> None:
    """Write all of it, however late: half a packet cannot be left. A broker that cannot write does not read either."""
    view = memoryview(data)
    broker.setblocking(False)
    try:
        while view:
            readable, writable, _ = select.select([broker], [broker], [], STUCK_S_MAX)
            if readable:
                acknowledged.take(broker, 0.0)
            if writable:
                view = view[broker.send(view) :]
            elif not readable:
                raise TimeoutError(f"the broker has read nothing of what is published for {STUCK_S_MAX:g} s")
    finally:
        broker.setblocking(True)
