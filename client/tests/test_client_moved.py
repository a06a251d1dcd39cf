"""The client moved between real Mosquittos by `mqloom migrate`, while publications flow."""

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from mqloom.client import Client, Federation
from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import free_ports, gateways_in_thread

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
HOST = "127.0.0.1"
WAIT_S_MAX = 20.0
WEST, EAST = GatewayId("WEST"), GatewayId("EAST")
BROKER = "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
FEDERATION = """
[federation]
name = "two"
data = ["stocks/#"]
key_file = "federation.keys"
[[brokers]]
id = "WEST"
port = {west}
[[brokers]]
id = "EAST"
port = {east}
[[links]]
between = ["WEST", "EAST"]
"""


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class Town:
    """Two brokers with their gateways, and what a test needs of both."""

    def __init__(self, folder: Path, ports: dict[GatewayId, int], keys: tuple[str, ...]) -> None:
        self.file = folder / "federation.toml"
        self.ports = ports
        self.federation = Federation(order_keys=keys)
        self.brokers: dict[GatewayId, subprocess.Popen[bytes]] = {}
        self._clients: list[paho.Client] = []

    def client(self, at: GatewayId = WEST, will: str = "", **options: Any) -> tuple[Client, "queue.Queue[MQTTMessage]"]:
        """Return a client that is served there, and what comes to it."""
        established = threading.Event()
        came: queue.Queue[MQTTMessage] = queue.Queue()
        client = Client(CallbackAPIVersion.VERSION2, **({"federation": self.federation} | options))
        client.on_message = lambda _c, _u, message: came.put(message)
        client.on_established = lambda *_: established.set()
        if will:
            client.will_set(will)
        client.connect(HOST, self.ports[at])
        client.loop_start()
        client.subscribe("stocks/#", 1)
        assert established.wait(WAIT_S_MAX)
        self._clients.append(client)
        return client, came

    def migrate(self, name: str, to: GatewayId) -> int:
        return main(["migrate", "-c", str(self.file), name, "--to", to])

    @contextlib.contextmanager
    def publishing(self) -> Iterator[list[int]]:
        """Publish numbers at both brokers until the end; yields those that are acknowledged."""
        sent: list[int] = []
        done = threading.Event()

        def publish() -> None:
            clients = [self._publisher(at) for at in (WEST, EAST)]
            number = 0
            while not done.is_set():
                info = clients[number % 2].publish("stocks/YHOO", json.dumps({"number": number}), 1)
                info.wait_for_publish(WAIT_S_MAX)
                sent.append(number)
                number += 1
                time.sleep(0.002)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield sent
        finally:
            done.set()
            thread.join()

    def _publisher(self, at: GatewayId) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect(HOST, self.ports[at])
        client.loop_start()
        self._clients.append(client)
        return client

    def has_session(self, at: GatewayId, client_id: str) -> bool:
        """Return whether a broker has a session of that name, which must not be connected; leaves it as it was."""
        is_there = self._visit(at, client_id, clean=False)
        if not is_there:
            self._visit(at, client_id, clean=True)
        return is_there

    def _visit(self, at: GatewayId, client_id: str, *, clean: bool) -> bool:
        told: queue.Queue[bool] = queue.Queue()
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=clean)
        client.on_connect = lambda _c, _u, flags, *_: told.put(flags.session_present)
        client.connect(HOST, self.ports[at])
        client.loop_start()
        is_there = told.get(timeout=WAIT_S_MAX)
        client.disconnect()
        client.loop_stop()
        return is_there

    def close(self) -> None:
        for client in self._clients:
            client.disconnect()
            client.loop_stop()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    ports = dict(zip((WEST, EAST), free_ports(2), strict=True))
    assert main(["keys", "new", str(tmp_path / "federation.keys")]) == 0
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.format(west=ports[WEST], east=ports[EAST]))
    brokers: dict[GatewayId, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "mosquitto.conf").write_text(BROKER.format(port=port))
            brokers[name] = stack.enter_context(mosquitto_process(tmp_path / name / "mosquitto.conf", port))
        stack.enter_context(gateways_in_thread(path, [WEST, EAST]))
        keys = order_keys_in(tmp_path / "federation.keys")
        assert keys is not None
        town = Town(tmp_path, ports, (keys.signing.public.text,))
        town.brokers = brokers
        yield town
        town.close()


def numbers(came: "queue.Queue[MQTTMessage]", expected: list[int]) -> list[int]:
    """Return what has come, as soon as it could be all; two publishers' numbers may overtake each other."""
    found: list[int] = []
    while set(found) != set(expected):
        found.append(json.loads(came.get(timeout=WAIT_S_MAX).payload)["number"])
    return sorted(found)


@pytest.mark.parametrize("protocol", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_moved_there_and_back_it_misses_nothing_and_gets_nothing_twice(
    town: Town, protocol: MQTTProtocolVersion
) -> None:
    client, came = town.client(client_id="moved", protocol=protocol)
    moves: queue.Queue[tuple[str, str]] = queue.Queue()
    heard: list[str] = []
    client.on_migrated = lambda _c, _u, source, to: moves.put((source, to))
    client.on_connect = lambda *_: heard.append("connected")
    client.on_disconnect = lambda *_: heard.append("disconnected")
    with town.publishing() as sent:
        until(lambda: len(sent) > 50, "publications flow")
        for source, to in ((WEST, EAST), (EAST, WEST)):
            assert town.migrate("moved", to) == 0
            assert moves.get(timeout=WAIT_S_MAX) == (source, to)
            assert client.broker == to
            until(lambda to=to: client._port == town.ports[to], "the connection has moved, too")  # type: ignore[misc]
            so_far = len(sent)
            until(lambda so_far=so_far: len(sent) > so_far + 50, "publications flow")  # type: ignore[misc]
    assert numbers(came, sent) == sent
    assert client.stats().migrations == 2
    assert heard == []
    client.publish("stocks/YHOO", json.dumps({"number": -1}), 1).wait_for_publish(WAIT_S_MAX)
    assert numbers(came, [-1]) == [-1]


@pytest.mark.parametrize("is_kept", [False, True])
def test_no_session_is_left_behind_and_none_at_the_end_unless_it_is_to_be_kept(town: Town, is_kept: bool) -> None:
    wills: list[str] = []
    for at in (WEST, EAST):
        watcher = town._publisher(at)
        watcher.on_message = lambda _c, _u, message: wills.append(message.topic)
        watcher.subscribe("wills/#")
    client, _ = town.client(client_id="one", clean_session=not is_kept, will="wills/one")
    assert town.migrate("one", EAST) == 0
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "the connection has moved, too")
    until(lambda: not town.has_session(WEST, "one"), "the old broker has forgotten it")
    client.disconnect()
    client.loop_stop()
    until(lambda: town.has_session(EAST, "one") == is_kept, "as the application wants it")
    assert wills == []


def test_what_is_subscribed_to_at_one_broker_is_so_at_the_next(town: Town) -> None:
    client, came = town.client(client_id="local")
    heard: list[int] = []
    client.on_subscribe = lambda _c, _u, mid, *_: heard.append(mid)
    _, mid = client.subscribe("rooms/#", 1, local=True)
    until(lambda: heard == [mid], "subscribed")
    assert town.migrate("local", EAST) == 0
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "the connection has moved, too")

    def is_there() -> bool:
        town._publisher(EAST).publish("rooms/2", json.dumps({"number": 7}), 1)
        return not came.empty()

    until(is_there, "it comes")
    assert heard == [mid]


def test_an_old_broker_that_dies_takes_nothing_with_it_but_what_it_held(town: Town) -> None:
    """The application's connection goes to the other broker as soon as that serves it."""
    client, came = town.client(client_id="survivor", clean_session=False)
    moved = threading.Event()

    def on_migrated(*_: object) -> None:
        town.brokers[WEST].kill()
        moved.set()

    client.on_migrated = on_migrated
    town.migrate("survivor", EAST)
    assert moved.wait(WAIT_S_MAX)
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "the connection has moved, too")
    client.publish("stocks/YHOO", json.dumps({"number": 3}), 1).wait_for_publish(WAIT_S_MAX)
    assert numbers(came, [3]) == [3]
    assert client.broker == EAST
