"""The client moved between real Mosquittos by `mqloom migrate`, while publications flow."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WAIT_S_MAX, WEST, Town, numbers, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


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


@pytest.mark.parametrize(
    ("is_kept", "protocol"),
    [(False, MQTTProtocolVersion.MQTTv311), (True, MQTTProtocolVersion.MQTTv311), (False, MQTTProtocolVersion.MQTTv5)],
)
def test_no_session_is_left_behind_and_none_at_the_end_unless_it_is_to_be_kept(
    town: Town, is_kept: bool, protocol: MQTTProtocolVersion
) -> None:
    wills: list[str] = []
    for at in (WEST, EAST):
        watcher = town.publisher(at)
        watcher.on_message = lambda _c, _u, message: wills.append(message.topic)
        watcher.subscribe("wills/#")
    clean = not is_kept if protocol == MQTTProtocolVersion.MQTTv311 else None
    client, _ = town.client(client_id="one", clean_session=clean, will="wills/one", protocol=protocol)
    assert town.migrate("one", EAST) == 0
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "the connection has moved, too")
    until(lambda: not town.has_session(WEST, "one"), "the old broker has forgotten it")
    client.disconnect()
    client.loop_stop()
    until(lambda: town.has_session(EAST, "one") == is_kept, "as the application wants it")
    assert wills == []


VANISHING = """
import os, sys, time
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from mqloom.client import Client, Federation

federation = Federation(order_keys=(sys.argv[2],))
client = Client(CallbackAPIVersion.VERSION2, "brief", protocol=MQTTProtocolVersion.MQTTv5, federation=federation)
client.on_established = lambda *_: print("established", flush=True)
client.on_connect = lambda *_: client.subscribe("stocks/#", 1) and None
client.connect("127.0.0.1", int(sys.argv[1]))
client.loop_start()
while client._port == int(sys.argv[1]) or not client.is_connected():
    time.sleep(0.01)
print("there", flush=True)
time.sleep(60)
"""


def test_one_that_wants_no_session_and_vanishes_after_a_move_leaves_none(town: Town) -> None:
    words = [sys.executable, "-c", VANISHING, str(town.ports[WEST]), town.keys.signing.public.text]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "established\n"
        assert town.migrate("brief", EAST) == 0
        assert program.stdout.readline() == "there\n"
        program.kill()
    until(lambda: not town.has_session(EAST, "brief"), "the new broker has nothing of it")
    assert not town.has_session(WEST, "brief")


def test_what_is_subscribed_to_at_one_broker_is_so_at_the_next(town: Town) -> None:
    client, came = town.client(client_id="local")
    heard: list[int] = []
    client.on_subscribe = lambda _c, _u, mid, *_: heard.append(mid)
    _, mid = client.subscribe("rooms/#", 1, local=True)
    until(lambda: heard == [mid], "subscribed")
    assert town.migrate("local", EAST) == 0
    until(lambda: client._port == town.ports[EAST] and client.is_connected(), "the connection has moved, too")

    def is_there() -> bool:
        town.publisher(EAST).publish("rooms/2", json.dumps({"number": 7}), 1)
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
