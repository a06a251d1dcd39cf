"""Between a client and its brokers: relays that read every packet of MQTT 3.1.1, and a gate that can stop them all.

A test says which packet it waits for. When that comes by, nothing more is let through, in either direction and at any
broker, until the test opens the gate: so whoever is killed meanwhile dies at that step and at no other.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOST = "127.0.0.1"
READ_BYTES = 65_536
CLOSE_S_MAX = 5.0
KINDS = {1: "connect", 2: "connack", 3: "publish", 4: "puback", 8: "subscribe", 9: "suback", 14: "disconnect"}
ANSWERS = {"connack": "connect", "puback": "publish", "suback": "subscribe"}


class Packet(NamedTuple):
    """One packet, as far as a test needs it."""

    broker: str
    is_from_client: bool
    kind: str
    number: int = 0
    topic: str = ""
    payload: bytes = b""
    is_clean: bool = False
    answers: "Packet | None" = None
    """Of an acknowledgement: what it is for."""

    @property
    def said(self) -> dict[str, Any]:
        """What is in it, if that is JSON."""
        try:
            said = json.loads(self.payload)
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}


Wanted = Callable[[Packet], bool]


class Gate:
    """Lets packets of all relays through, one by one, until the one comes that is wanted; that one waits, too."""

    def __init__(self) -> None:
        self.passed: list[Packet] = []
        """What went through since `clear`."""
        self._changed = threading.Condition()
        self._wanted: Wanted | None = None
        self._caught: Packet | None = None

    def pass_on(self, packet: Packet) -> None:
        """Return when a packet may go on."""
        with self._changed:
            self._changed.wait_for(lambda: self._caught is None)
            if self._wanted is not None and self._wanted(packet):
                self._wanted, self._caught = None, packet
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._caught is None)
            self.passed.append(packet)

    def await_packet(self, wanted: Wanted) -> None:
        """From now on look for a packet."""
        with self._changed:
            self._wanted = wanted

    def clear(self) -> None:
        """Forget what went through."""
        with self._changed:
            self.passed.clear()

    def wait_until_shut(self, seconds: float) -> bool:
        """Return whether the packet has come in this time; then nothing goes through any more."""
        with self._changed:
            return self._changed.wait_for(lambda: self._caught is not None, seconds)

    def open(self) -> None:
        """Let everything through, and look for nothing."""
        with self._changed:
            self._wanted = self._caught = None
            self._changed.notify_all()


@dataclass(eq=False)
class _Connection:
    """One connection of the client, and what is not acknowledged on it."""

    client: socket.socket
    broker: socket.socket
    unanswered: dict[tuple[bool, str, int], Packet] = field(default_factory=dict)
    pumps: int = 2

    def close(self) -> None:
        for each in (self.client, self.broker):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Relay:
    """Listens in a broker's place; a context manager."""

    def __init__(self, name: str, broker_port: int, gate: Gate) -> None:
        self._name = name
        self._broker_port = broker_port
        self._gate = gate
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        deadline = time.monotonic() + CLOSE_S_MAX
        while len(self) and time.monotonic() < deadline:
            time.sleep(0.01)

    def __len__(self) -> int:
        with self._lock:
            return len(self._connections)

    def cut(self) -> None:
        """Break all connections; what the gate holds of them is lost."""
        with self._lock:
            for each in self._connections:
                each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((HOST, self._broker_port))
            except OSError:  # it is down: so is its relay
                client.close()
                continue
            connection = _Connection(client, broker)
            with self._lock:
                self._connections.add(connection)
            for is_from_client in (True, False):
                threading.Thread(target=self._pump, args=(connection, is_from_client), daemon=True).start()

    def _pump(self, connection: _Connection, is_from_client: bool) -> None:
        source, sink = connection.client, connection.broker
        if not is_from_client:
            source, sink = sink, source
        with contextlib.suppress(OSError):
            for data in _packets(source):
                self._gate.pass_on(self._read(data, connection, is_from_client))
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            connection.pumps -= 1
            if not connection.pumps:
                self._connections.discard(connection)
                connection.client.close()
                connection.broker.close()

    def _read(self, data: bytes, connection: _Connection, is_from_client: bool) -> Packet:
        packet = _read(data, self._name, is_from_client)
        with self._lock:
            if packet.kind in ANSWERS:
                of = ANSWERS[packet.kind]
                answers = connection.unanswered.pop((not is_from_client, of, packet.number), None)
                return packet._replace(answers=answers)
            if packet.number or packet.kind == "connect":
                connection.unanswered[is_from_client, packet.kind, packet.number] = packet
        return packet


def _packets(source: socket.socket) -> Iterator[bytes]:
    """Yield whole packets until the other side closes; raises OSError."""
    buffer = bytearray()
    while read := source.recv(READ_BYTES):
        buffer += read
        while (size := _size(buffer)) and len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]


def _size(buffer: bytearray) -> int:
    """Return how long the packet is that begins here; 0 if that is not known yet."""
    remaining = shift = 0
    for index, byte in enumerate(buffer[1:5], 2):
        remaining |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return index + remaining
    return 0


def _read(data: bytes, broker: str, is_from_client: bool) -> Packet:
    kind = KINDS.get(data[0] >> 4, "other")
    at = next(index for index, byte in enumerate(data[1:5], 2) if byte < 0x80)
    number, topic, payload = 0, "", b""
    if kind in ("puback", "suback", "subscribe"):
        number, at = int.from_bytes(data[at : at + 2], "big"), at + 2
    if kind in ("publish", "subscribe"):
        length = int.from_bytes(data[at : at + 2], "big")
        topic, at = data[at + 2 : at + 2 + length].decode(), at + 2 + length
    if kind == "publish":
        if data[0] & 0x06:
            number, at = int.from_bytes(data[at : at + 2], "big"), at + 2
        payload = data[at:]
    is_clean = kind == "connect" and bool(data[at + 7] & 0x02)
    return Packet(broker, is_from_client, kind, number, topic, payload, is_clean)
