"""The bare publisher, against a socket that reads every packet."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from mqloom.lab import bench_publisher
from mqloom.lab.bench_publisher import CONNECT, Order, _heads, connected, publish, remaining_length
from mqloom.lab.bench_quotes import FIRST_NUMBER, PREFIX, QUOTES, Quotes

PACKETS = Quotes(1, 0).packets()


class Broker:
    """Answers CONNECT, and acknowledges what has a packet id."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.payloads: list[bytes] = []
        self.topics: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self.server, self.server.accept()[0] as client, client.makefile("rb") as file:
            assert file.read(len(CONNECT)) == CONNECT
            client.sendall(b"\x20\x02\x00\x00")
            while head := file.read(1):
                size, shift = 0, 0
                while True:
                    (digit,) = file.read(1)
                    size |= (digit & 0x7F) << shift
                    shift += 7
                    if not digit & 0x80:
                        break
                body = file.read(size)
                end = 2 + struct.unpack_from(">H", body)[0]
                self.topics.append(body[2:end])
                if head == b"\x32":
                    self.answering.wait(10)
                    client.sendall(b"\x40\x02" + body[end : end + 2])
                    end += 2
                self.payloads.append(body[end:])

    def join(self) -> None:
        self._thread.join(10)


@pytest.fixture
def broker() -> Iterator[Broker]:
    running = Broker()
    yield running
    running.join()


@pytest.mark.parametrize("qos", [0, 1])
def test_every_number_goes_out_once_in_order_and_not_too_soon(broker: Broker, qos: int) -> None:
    first = FIRST_NUMBER + QUOTES - 100  # past the last quote it begins with the first again
    with connected(broker.port, CONNECT) as client:
        done = publish(client, _heads(PACKETS, qos), PACKETS, Order(first, 400, 2_000.0, qos))
    broker.join()
    expected = [
        (topic, f"{PREFIX}{number}".encode() + rest)
        for number in range(first, first + 400)
        for topic, rest in [PACKETS[number % QUOTES]]
    ]
    assert list(zip(broker.topics, broker.payloads, strict=True)) == expected
    assert done.acknowledged == 400 * qos
    assert len(done.times) == 400
    assert done.took_s >= 0.19
    assert sorted(done.times) == list(done.times)


def test_acknowledgements_of_a_run_that_was_ended_do_not_count_for_the_next(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_publisher, "LATE_S_MAX", 0.1)
    heads = _heads(PACKETS, 1)
    with connected(broker.port, CONNECT) as client:
        broker.answering.clear()
        ended = publish(client, heads, PACKETS, Order(FIRST_NUMBER, 50, 1_000.0, 1))
        assert (len(ended.times), ended.acknowledged) == (50, 0)
        broker.answering.set()
        following = publish(client, heads, PACKETS, Order(FIRST_NUMBER + 50, 70, 1_000.0, 1), owed=50)
    assert following.acknowledged == 70


def test_a_broker_that_never_acknowledges_ends_the_measurement(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_publisher, "STUCK_S_MAX", 0.1)
    with connected(broker.port, CONNECT) as client, pytest.raises(TimeoutError, match="5 publications are not"):
        publish(client, _heads(PACKETS, 1), PACKETS, Order(FIRST_NUMBER, 1, 1_000.0, 1), owed=5)


@pytest.mark.parametrize(
    ("size", "encoded"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (16_384, b"\x80\x80\x01")]
)
def test_lengths_are_encoded_as_mqtt_says(size: int, encoded: bytes) -> None:
    assert remaining_length(size) == encoded


def test_a_broker_that_refuses_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with server.accept()[0] as client:
                client.recv(100)
                client.sendall(b"\x20\x02\x00\x05")

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ConnectionError, match="answered CONNECT with"):
            connected(server.getsockname()[1], CONNECT)
        thread.join(10)
