"""What paho's client keeps of a packet: read from a real socket, of a broker that is played by hand."""

import contextlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.limits import FRAME_BYTES_MAX, READ_BYTES_MAX
from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.bounded_paho import PIECE_BYTES_MAX, BoundedClient

PIECE = bytes(65_536)
SIZE = 1_600 * len(PIECE)
SMALL = packets.publish(packets.PUBLISH, packets.topic_bytes("a"), 0, b"", b"small")


@contextlib.contextmanager
def broker(*stream: bytes) -> Iterator[int]:
    """Run a broker that lets the first client in, says this, and waits until it leaves; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(20)
                connection.recv(1_024)
                connection.sendall(b"\x20\x02\x00\x00")
                for data in stream:
                    connection.sendall(data)
                while connection.recv(1_024):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            thread.join(20)


def read(*stream: bytes, count: int) -> tuple[list[paho.MQTTMessage], int]:
    """Return what a client gets, and the most memory that was taken meanwhile."""
    messages: list[paho.MQTTMessage] = []
    client = BoundedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
    client.on_message = lambda _, __, message: messages.append(message)
    with broker(*stream) as port:
        client.connect("127.0.0.1", port)
        tracemalloc.start()
        try:
            deadline = time.monotonic() + 30
            while len(messages) < count and time.monotonic() < deadline:
                client.loop(0.1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            client.disconnect()
    return messages, peak


def large(size: int) -> bytes:
    """Return the beginning of a PUBLISH of QoS 1 with so much payload."""
    topic = packets.topic_bytes("a")
    return bytes((packets.PUBLISH | 2,)) + packets.length(len(topic) + 2 + size) + topic + b"\0\7"


def test_of_a_packet_of_100_mib_no_more_is_kept_than_the_bound_and_all_behind_it_is_read() -> None:
    (cut, small), peak = read(large(SIZE), *[PIECE] * 1_600, SMALL, count=2)
    assert (cut.topic, cut.mid, cut.qos) == ("a", 7, 1)
    assert FRAME_BYTES_MAX < len(cut.payload) <= READ_BYTES_MAX + PIECE_BYTES_MAX
    assert small.payload == b"small"
    assert peak < 6 * READ_BYTES_MAX


def test_a_large_packet_that_comes_in_small_pieces_is_kept_no_further_than_one_in_large_ones() -> None:
    client = BoundedClient(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
    messages: list[paho.MQTTMessage] = []
    client.on_message = lambda _, __, message: messages.append(message)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        client._sock = ours
        theirs.sendall(large(READ_BYTES_MAX + 100_000))
        for size in [65_536] * (READ_BYTES_MAX // 65_536) + [10] * 10_000:
            theirs.sendall(bytes(size))
            while client._packet_read() == paho.MQTT_ERR_SUCCESS and not messages:
                pass
    (cut,) = messages
    assert READ_BYTES_MAX - 100 < len(cut.payload) <= READ_BYTES_MAX


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES_MAX + 1, READ_BYTES_MAX - 100])
def test_a_packet_within_the_bound_is_read_to_its_last_byte(size: int) -> None:
    payload = bytes(index % 251 for index in range(min(size, 1_000))) + bytes(max(0, size - 1_000))
    (whole, small), _ = read(large(size) + payload, SMALL, count=2)
    assert whole.payload == payload
    assert small.payload == b"small"
