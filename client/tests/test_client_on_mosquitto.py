"""The client on a real Mosquitto with a real gateway: what is acknowledged when, what MQTT 5 adds, who is missing."""

import contextlib
import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client import Client, Wish
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
HOST = "127.0.0.1"
WAIT_S_MAX = 15.0
BROKER = "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
"""Thirty may be held unacknowledged: with Mosquitto's own bound of 20 nothing would come behind them."""
FEDERATION = """
[federation]
name = "one"
data = ["stocks/#"]
[[brokers]]
id = "WEST"
port = {port}
"""


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    file = folder / "mosquitto.conf"
    file.write_text(BROKER.format(port=port))
    with mosquitto_process(file, port):
        yield port


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("west")
    with broker(folder) as port:
        path = folder / "federation.toml"
        path.write_text(FEDERATION.format(port=port))
        with gateways_in_thread(path, ["WEST"]):
            yield port


@pytest.fixture
def made() -> Iterator[Callable[..., Client]]:
    """Make clients; they are ended at the end."""
    clients: list[Client] = []

    def make(**options: Any) -> Client:
        clients.append(Client(CallbackAPIVersion.VERSION2, **({"federation": True} | options)))
        return clients[-1]

    yield make
    for client in clients:
        client.disconnect()
        client.loop_stop()


Make = Callable[..., Client]


def subscribed(client: Client, port: int, **options: Any) -> None:
    """Connect, and return when the subscription to everything on stocks counts."""
    there = threading.Event()
    client.on_established = lambda *_: there.set()
    client.connect(HOST, port, **options)
    client.loop_start()
    client.subscribe("stocks/#", 1)
    assert there.wait(WAIT_S_MAX)


def publish(port: int, *numbers: int, properties: Properties | None = None, **options: Any) -> None:
    protocol = MQTTProtocolVersion.MQTTv311 if properties is None else MQTTProtocolVersion.MQTTv5
    client = Client(CallbackAPIVersion.VERSION2, protocol=protocol)
    client.connect(HOST, port)
    client.loop_start()
    for number in numbers:
        info = client.publish("stocks/YHOO", json.dumps({"number": number}), 1, properties=properties, **options)
        info.wait_for_publish(WAIT_S_MAX)
    client.disconnect()
    client.loop_stop()


def number_of(message: MQTTMessage) -> int:
    number: int = json.loads(message.payload)["number"]
    return number


def test_with_mqtt_5_a_message_has_the_properties_it_was_published_with(port: int, made: Make) -> None:
    client = made(protocol=MQTTProtocolVersion.MQTTv5)
    came: queue.Queue[MQTTMessage] = queue.Queue()
    client.on_message = lambda _c, _u, message: came.put(message)
    subscribed(client, port)
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho has no types there
    properties.ContentType = "application/json"
    properties.UserProperty = [("unit", "shares"), ("unit", "thousands")]
    publish(port, 1, properties=properties, retain=True)
    message = came.get(timeout=WAIT_S_MAX)
    assert message.properties is not None
    assert message.properties.json() == {  # type: ignore[no-untyped-call] # as above
        "ContentType": "application/json",
        "UserProperty": [("unit", "shares"), ("unit", "thousands")],
    }
    assert (message.qos, message.retain) == (1, True)


def test_a_callback_that_raises_is_called_again_with_the_same(port: int, made: Make) -> None:
    client = made(client_id="raiser", clean_session=False)
    tried: list[int] = []
    established = threading.Event()

    def on_message(_client: object, _data: object, message: MQTTMessage) -> None:
        tried.append(number_of(message))
        if tried == [1, 2]:
            raise RuntimeError("the application is in trouble")

    client.on_message = on_message
    client.on_connect = lambda *_: established.clear()
    client.on_established = lambda *_: established.set()
    client.connect(HOST, port)
    client.subscribe("stocks/#", 1)
    while not established.is_set():
        client.loop()
    publish(port, 1, 2, 3)
    with pytest.raises(RuntimeError, match="in trouble"):
        client.loop_forever()
    client.reconnect()
    while tried[-1] != 3:
        client.loop()
    assert tried == [1, 2, 2, 3]
    assert client.stats().received == 3


KILLED = """
import os, sys
from paho.mqtt.enums import CallbackAPIVersion
from mqloom.client import Client

def on_message(client, data, message):
    print(message.payload.decode(), flush=True)
    if len(sys.argv) > 2 and message.payload.endswith(b" 2}"):
        os._exit(9)

client = Client(CallbackAPIVersion.VERSION2, "killed", clean_session=False, federation=True)
client.on_message = on_message
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.on_established = lambda *_: print("established", flush=True)
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_forever()
"""


def test_a_program_killed_in_its_callback_gets_the_message_again_in_its_next_life(port: int) -> None:
    words = [sys.executable, "-c", KILLED, str(port)]
    with subprocess.Popen([*words, "dies"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "established\n"
        publish(port, 1, 2, 3)
        assert first.wait(WAIT_S_MAX) == 9
        assert first.stdout.read().splitlines() == ['{"number": 1}', '{"number": 2}']
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout is not None
        lines = [second.stdout.readline().strip() for _ in range(3)]
        second.kill()
    assert {'{"number": 2}', '{"number": 3}'} <= set(lines)
    assert lines.count('{"number": 2}') == lines.count('{"number": 3}') == 1


def test_what_the_application_has_not_acknowledged_comes_again_in_its_next_life(port: int, made: Make) -> None:
    def life() -> tuple[Client, "queue.Queue[MQTTMessage]"]:
        client = made(client_id="by-hand", clean_session=False, manual_ack=True)
        came: queue.Queue[MQTTMessage] = queue.Queue()
        client.on_message = lambda _c, _u, message: came.put(message)
        subscribed(client, port)
        return client, came

    def end(client: Client) -> None:
        client.disconnect()
        client.loop_stop()

    first, came = life()
    publish(port, *range(30))
    assert sorted(number_of(came.get(timeout=WAIT_S_MAX)) for _ in range(10)) == list(range(10))
    end(first)
    second, came = life()
    held = [came.get(timeout=WAIT_S_MAX) for _ in range(30)]
    assert [number_of(message) for message in held] == list(range(30))
    assert len({message.mid for message in held}) == 30
    for message in held:
        second.ack(message.mid, message.qos)
    # The broker has read them all when it has acknowledged what comes behind; one that finds the connection closed
    # while it writes may not read to the end.
    second.publish("elsewhere", b"", 1).wait_for_publish(WAIT_S_MAX)
    end(second)
    _, came = life()
    publish(port, 30)
    assert number_of(came.get(timeout=WAIT_S_MAX)) == 30


def test_what_it_holds_is_not_given_to_it_twice_when_the_connection_was_away(port: int, made: Make) -> None:
    client = made(client_id="held", clean_session=False, manual_ack=True)
    came: queue.Queue[MQTTMessage] = queue.Queue()
    client.on_message = lambda _c, _u, message: came.put(message)
    subscribed(client, port)
    publish(port, 1)
    first = came.get(timeout=WAIT_S_MAX)
    there = threading.Event()
    client.on_established = lambda *_: there.set()
    sock = client.socket()
    assert sock is not None
    client.reconnect_delay_set(1, 1)
    sock.shutdown(2)  # type: ignore[attr-defined] # a real socket
    assert there.wait(WAIT_S_MAX)
    publish(port, 2)
    second = came.get(timeout=WAIT_S_MAX)
    assert (number_of(first), number_of(second)) == (1, 2)
    assert client.stats().duplicates == 1
    for message in (first, second):
        client.ack(message.mid, message.qos)
    client.unsubscribe("stocks/#")


def test_without_a_gateway_the_application_is_told_and_served_when_one_comes(
    tmp_path: Path, made: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mqloom.client.subscriber.FIND_S", 0.3)
    refused: queue.Queue[tuple[Wish, str]] = queue.Queue()
    codes: queue.Queue[int] = queue.Queue()
    established = threading.Event()
    client = made()
    client.on_refused = lambda _c, _u, wish, problem: refused.put((wish, problem))
    client.on_subscribe = lambda _c, _u, _mid, reasons, _p: codes.put(reasons[0].value)
    client.on_established = lambda *_: established.set()
    with broker(tmp_path) as port, caplog.at_level(logging.ERROR):
        client.connect(HOST, port)
        client.loop_start()
        client.subscribe("stocks/#", 1, where="volume > 3")
        wish, problem = refused.get(timeout=WAIT_S_MAX)
        assert wish == Wish(topics="stocks/#", where="volume > 3")
        assert "no gateway answers at this broker" in problem
        assert "is `mqloom gateway` running beside it" in caplog.text
        assert codes.get(timeout=WAIT_S_MAX) == 128
        path = tmp_path / "federation.toml"
        path.write_text(FEDERATION.format(port=port))
        with gateways_in_thread(path, ["WEST"]):
            assert established.wait(WAIT_S_MAX)
            client.disconnect()
            client.loop_stop()
