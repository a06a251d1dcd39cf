"""A broker that says no, or nothing: scripted, for no real one does that on demand."""

import queue
import socket
import threading
from collections.abc import Iterator

import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from mqloom.client import Client
from mqloom.client.wired import Address

WAIT_S_MAX = 10.0
CONNACK = b"\x20\x02\0\0"


class Script:
    """Accepts a client, then says no to each subscription; keeps the packets that come, by their first byte."""

    def __init__(self) -> None:
        self.kinds: queue.Queue[int] = queue.Queue()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(WAIT_S_MAX)
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(WAIT_S_MAX)
        self._server.close()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        connection.settimeout(WAIT_S_MAX)
        with connection, connection.makefile("rb") as stream:
            while (first := stream.read(1)) != b"":
                body = stream.read(stream.read(1)[0])
                self.kinds.put(first[0])
                if first == b"\x10":
                    connection.sendall(CONNACK)
                elif first[0] & 0xF6 == 0x34:  # a publication of QoS 2; its second half is never answered
                    start = 2 + int.from_bytes(body[:2], "big")
                    connection.sendall(b"\x50\x02" + body[start : start + 2])
                elif first == b"\x82":
                    connection.sendall(b"\x90\x03" + body[:2] + b"\x80")


def connecting(port: int) -> tuple[Client, list[str]]:
    """Return a client that is about to be connected, and what its application hears of that."""
    client = Client(CallbackAPIVersion.VERSION2, "told", clean_session=False, federation=True)
    heard: list[str] = []
    client.on_connect = lambda *_: heard.append("up")
    client.on_disconnect = lambda *_: heard.append("down")
    client.connect("127.0.0.1", port)
    return client, heard


def loop_until_connected(client: Client) -> None:
    while not client.is_connected():
        client.loop(0.05)


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.join()


def test_a_broker_that_bars_us_from_its_topics_is_named(script: Script) -> None:
    problems: queue.Queue[str] = queue.Queue()
    codes: queue.Queue[int] = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2, federation=True)
    client.on_refused = lambda _c, _u, _wish, problem: problems.put(problem)
    client.on_subscribe = lambda _c, _u, _mid, reasons, _p: codes.put(reasons[0].value)
    client.connect("127.0.0.1", script.port)
    client.loop_start()
    client.subscribe("stocks/#", 1)
    expected = "the broker does not let this client subscribe to mqloom/v1/+/status"
    assert expected in problems.get(timeout=WAIT_S_MAX)
    assert codes.get(timeout=WAIT_S_MAX) == 128
    client.disconnect()
    client.loop_stop()


def test_who_only_publishes_sends_nothing_of_ours(script: Script) -> None:
    client = Client(CallbackAPIVersion.VERSION2, federation=True)
    client.connect("127.0.0.1", script.port)
    while not client.is_connected():
        assert client.loop(0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS
    client.publish("stocks/YHOO", b"1", 0)
    client.disconnect()
    script.join()
    kinds = [script.kinds.get(timeout=WAIT_S_MAX) for _ in range(script.kinds.qsize())]
    assert kinds == [0x10, 0x30, 0xE0]


def test_what_is_half_published_with_qos_2_begins_anew_at_another_broker(script: Script) -> None:
    """The other one knows nothing of the first half: to release it there would lose it."""
    other = Script()
    client = Client(CallbackAPIVersion.VERSION2, "half", clean_session=False, federation=True)

    def loop_until(where: Script, kind: int) -> list[int]:
        found: list[int] = []
        while kind not in found:
            client.loop(0.05)
            while not where.kinds.empty():
                found.append(where.kinds.get())
        return found

    client.connect("127.0.0.1", script.port)
    loop_until(script, 0x10)
    while not client.is_connected():
        client.loop(0.05)
    client.publish("t", "payload", 2)
    loop_until(script, 0x62)  # released, and not answered
    client.go_to(Address("127.0.0.1", other.port))
    found = loop_until(other, 0x62)
    assert [kind & 0xF6 for kind in found if kind != 0x10] == [0x34, 0x62]
    client.disconnect()
    client.loop(0.05)
    other.join()


def test_what_is_published_waits_for_its_acknowledgement_whatever_has_come_with_qos_2(script: Script) -> None:
    """paho 2.1 counts a publication less in flight for each that has come."""
    client = Client(CallbackAPIVersion.VERSION2, "held", clean_session=False, federation=True)
    client.connect("127.0.0.1", script.port)
    while not client.is_connected():
        client.loop(0.05)
    client._inflight_messages -= 5
    client.publish("t", "never acknowledged", 1)
    client.hold()
    assert not client.is_handed_over
    client.publish("t", "for the next broker", 1)
    client.disconnect()
    client.loop(0.05)
    script.join()
    kinds = [script.kinds.get(timeout=WAIT_S_MAX) for _ in range(script.kinds.qsize())]
    assert kinds == [0x10, 0x32, 0xE0]


def test_one_that_has_disconnected_and_was_not_heard_yet_goes_nowhere_any_more(script: Script) -> None:
    """Its DISCONNECT waits to be written, behind which there is no connection."""
    client = Client(CallbackAPIVersion.VERSION2, "gone", clean_session=False, federation=True)
    client.connect("127.0.0.1", script.port)
    while not client.is_connected():
        client.loop(0.05)
    with client._in_callback_mutex:  # then paho leaves it to the loop
        PahoClient.disconnect(client)
    client.go_to(Address("127.0.0.1", 1))
    script.join()
    assert [script.kinds.get(timeout=WAIT_S_MAX) for _ in range(2)] == [0x10, 0xE0]
    assert (client._sock, client._is_quiet) == (None, False)  # and hears of the connection that it makes itself


def test_who_hears_that_the_connection_is_lost_while_it_is_exchanged_hears_of_the_next_one(script: Script) -> None:
    client, heard = connecting(script.port)
    loop_until_connected(client)
    with client._in_callback_mutex:  # then paho leaves it to the loop
        client.publish("t", b"", 0)
    assert isinstance(client._sock, socket.socket)
    client._sock.shutdown(socket.SHUT_RDWR)  # as if the broker had reset it
    other = Script()
    client.go_to(Address("127.0.0.1", other.port))
    assert heard == ["up", "down"]
    loop_until_connected(client)
    assert heard == ["up", "down", "up"]
    client.disconnect()
    client.loop(0.05)
    other.join()


def test_who_hears_that_the_next_one_is_lost_before_it_was_accepted_hears_of_that_behind_it(script: Script) -> None:
    client, heard = connecting(script.port)
    loop_until_connected(client)
    with socket.create_server(("127.0.0.1", 0)) as server:
        client.go_to(Address("127.0.0.1", server.getsockname()[1]))
        server.accept()[0].close()
        while heard == ["up"]:
            client.loop(0.05)
        client.reconnect()
        broker, _ = server.accept()
        with broker:
            broker.sendall(CONNACK)
            loop_until_connected(client)
            assert heard == ["up", "down", "up"]
            client.disconnect()
            client.loop(0.05)


def test_who_was_not_connected_yet_hears_of_the_first_connection_wherever_that_is(script: Script) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client, heard = connecting(server.getsockname()[1])
        client.go_to(Address("127.0.0.1", script.port))
        loop_until_connected(client)
        assert heard == ["up"]
        client.disconnect()
        client.loop(0.05)


@pytest.mark.parametrize("is_ended", [False, True])
def test_who_connects_by_itself_while_the_next_broker_is_not_there_hears_of_that(
    script: Script, is_ended: bool
) -> None:
    client, heard = connecting(script.port)
    loop_until_connected(client)
    client.go_to(Address("127.0.0.1", 1))
    other = Script()
    if is_ended:
        client.disconnect()
        client._port = other.port
        client.reconnect()
    else:
        client.connect("127.0.0.1", other.port)
    loop_until_connected(client)
    assert heard == ["up", "up"]
    client.disconnect()
    client.loop(0.05)
    other.join()
