"""What several threads do with one client at a time: paho calls back with locks held, and nobody may wait for ever."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from mqloom.client import Client
from mqloom.client.wired import Address

WAIT_S_MAX = 5.0


class Acknowledger:
    """A broker that accepts all who come, and acknowledges what they publish at QoS 1; no property is read."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with (
            connection,
            connection.makefile("rb") as stream,
            contextlib.suppress(OSError),
        ):  # they leave
            while (first := stream.read(1)) not in (b"", b"\xe0"):
                body = stream.read(stream.read(1)[0])
                if first == b"\x10":
                    connection.sendall(b"\x20\x02\0\0")
                elif first[0] & 0xF6 == 0x32:
                    start = 2 + int.from_bytes(body[:2], "big")
                    connection.sendall(b"\x40\x02" + body[start : start + 2])


@pytest.fixture
def broker() -> Iterator[Acknowledger]:
    broker = Acknowledger()
    yield broker
    broker.close()


def connected(broker: Acknowledger) -> Client:
    accepted = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2, "c", clean_session=False, federation=True)
    client.on_connect = lambda *_: accepted.set()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    assert accepted.wait(WAIT_S_MAX)
    return client


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.publish("t", b"", 0),
        lambda client: client.publish("t", b"", 1),
        lambda client: client.subscribe("stocks/#", 1),
        lambda client: client.disconnect(),
    ],
    ids=["publish at QoS 0", "publish at QoS 1", "subscribe", "disconnect"],
)
def test_on_publish_may_call_anything_while_another_thread_publishes(
    broker: Acknowledger, call: Callable[[Client], object]
) -> None:
    client = connected(broker)
    is_publishing, is_done = threading.Event(), threading.Event()
    new_packet_id = client._mid_generate

    def publish() -> None:
        client.publish("t", b"other", 1)

    other = threading.Thread(target=publish, daemon=True)

    def noted() -> int:
        if threading.current_thread() is other:  # it is in the middle of paho's publish, in front of paho's lock
            is_publishing.set()
        return new_packet_id()

    def on_publish(*_: object) -> None:
        client.on_publish = None
        other.start()
        assert is_publishing.wait(WAIT_S_MAX)
        call(client)
        is_done.set()

    client._mid_generate = noted  # type: ignore[method-assign]
    client.on_publish = on_publish
    client.publish("t", b"", 1)
    assert is_done.wait(WAIT_S_MAX), "the callback and the other thread wait for each other"
    other.join(WAIT_S_MAX)
    assert not other.is_alive()
    client.disconnect()
    client.loop_stop()


def test_a_connection_that_is_accepted_unheard_waits_for_nobody_who_publishes(
    broker: Acknowledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application is not to hear of another broker's CONNACK, and publishes while that is handled."""
    client = connected(broker)
    is_publishing, is_handling = threading.Event(), threading.Event()
    handle, send = PahoClient._handle_connack, PahoClient._send_publish

    def handled(self: PahoClient) -> object:
        is_handling.set()
        is_publishing.wait(0.5)  # that cannot be while paho's own lock is taken, as it should be
        return handle(self)

    def sent(self: PahoClient, *arguments: object, **named: object) -> object:
        if threading.current_thread() is other:
            is_publishing.set()
            with self._callback_mutex:  # as paho does to look up the callbacks of sockets
                pass
        return send(self, *arguments, **named)  # type: ignore[arg-type]

    def publish() -> None:
        assert is_handling.wait(WAIT_S_MAX)
        client.publish("t", b"", 1)

    monkeypatch.setattr(PahoClient, "_handle_connack", handled)
    monkeypatch.setattr(PahoClient, "_send_publish", sent)
    other = threading.Thread(target=publish, daemon=True)
    other.start()
    orders: list[Callable[[], object]] = [lambda: client.go_to(Address("127.0.0.1", broker.port))]
    is_turning = threading.Event()

    def settle() -> None:
        is_turning.set()
        while orders:
            orders.pop()()

    client._listener.settle = settle  # type: ignore[union-attr, method-assign]
    client.wake()
    assert is_handling.wait(WAIT_S_MAX)
    other.join(WAIT_S_MAX)
    assert not other.is_alive(), "the loop and the other thread wait for each other"
    is_turning.clear()
    assert is_turning.wait(WAIT_S_MAX), "the loop goes on"
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.unsubscribe("rooms/#"),
        lambda client: client.unsubscribe("stocks/#"),
        lambda client: client.subscribe("rooms/#", 1, local=True),
    ],
    ids=["unsubscribe", "unsubscribe in the federation", "subscribe at the one broker"],
)
def test_what_is_asked_for_while_the_connection_is_exchanged_waits_for_the_next_broker(
    broker: Acknowledger, monkeypatch: pytest.MonkeyPatch, call: Callable[[Client], tuple[MQTTErrorCode, int | None]]
) -> None:
    client = connected(broker)
    client.subscribe("stocks/#", 1)
    results: list[MQTTErrorCode] = []
    asking = threading.Thread(target=lambda: results.append(call(client)[0]), daemon=True)
    reach = client._create_socket_connection

    def reached() -> socket.socket:
        asking.start()
        asking.join(0.2)
        return reach()

    monkeypatch.setattr(client, "_create_socket_connection", reached)
    orders: list[Callable[[], object]] = [lambda: client.go_to(Address("127.0.0.1", broker.port))]
    is_there = threading.Event()

    def settle() -> None:
        while orders:
            orders.pop()()
            is_there.set()

    client._listener.settle = settle  # type: ignore[union-attr, method-assign]
    client.wake()
    assert is_there.wait(WAIT_S_MAX)
    asking.join(WAIT_S_MAX)
    assert results == [MQTTErrorCode.MQTT_ERR_SUCCESS]
    client.disconnect()
    client.loop_stop()
