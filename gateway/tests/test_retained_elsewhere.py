"""What a plain client is given as retained that was last changed on another broker: as docs/operations.md says."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.gateway import GatewayDriver
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
EAST, WEST = GatewayId("east"), GatewayId("west")
TOPIC = "stocks/a"


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20.0
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class Reader:
    """A plain client of the east that subscribes, and what came to it: payloads, and whether as retained."""

    def __init__(self, port: int) -> None:
        self.came: list[tuple[bytes, bool]] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda _, __, message: self.came.append((bytes(message.payload), message.retain))
        self._client.connect("127.0.0.1", port)
        self._client.subscribe("stocks/+", 1)
        self._client.loop_start()

    def leave(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Two:
    """The west and the east, with an adapter that learns what clients of the east want."""

    def __init__(self, ports: dict[GatewayId, int], drivers: dict[GatewayId, GatewayDriver]) -> None:
        self.ports = ports
        self._west = drivers[WEST].node

    def is_wanted(self, is_it: bool) -> None:
        until(lambda: (self._west.subscription_counts()[1] > 0) == is_it, f"the west knows: wanted {is_it}")

    def set_in_the_west(self, payload: bytes) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", self.ports[WEST])
        client.loop_start()
        client.publish(TOPIC, payload, 1, retain=True).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()


@contextlib.contextmanager
def two(folder: Path, federate: str = "") -> Iterator[Two]:
    ports = dict(zip((WEST, EAST), free_ports(2), strict=True))
    text = '[federation]\nname = "two"\ndata = ["stocks/#"]\n[[links]]\nbetween = ["west", "east"]\n'
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            text += f'[[brokers]]\nid = "{name}"\nport = {port}\nadapter = "mosquitto"\n{federate}'
            lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "log_dest topic"]
            lines += [f"log_type {each}" for each in ("subscribe", "unsubscribe", "notice")]
            (folder / name).mkdir()
            (folder / name / "mosquitto.conf").write_text("\n".join([*lines, ""]))
            stack.enter_context(mosquitto_process(folder / name / "mosquitto.conf", port))
        (folder / "federation.toml").write_text(text)
        drivers = stack.enter_context(gateways_in_thread(folder / "federation.toml", ("west", "east")))
        yield Two(ports, dict(drivers))


def test_what_nobody_wanted_when_it_changed_is_old_for_whoever_comes_until_it_changes_again(tmp_path: Path) -> None:
    with two(tmp_path) as brokers:
        first = Reader(brokers.ports[EAST])
        brokers.is_wanted(True)
        brokers.set_in_the_west(b"old")
        until(lambda: [payload for payload, _ in first.came] == [b"old"], "it crosses while somebody wants it")
        first.leave()
        brokers.is_wanted(False)
        brokers.set_in_the_west(b"new")
        second = Reader(brokers.ports[EAST])
        brokers.is_wanted(True)
        until(lambda: second.came == [(b"old", True)], "its own broker gives what it has")
        time.sleep(1.0)  # and the new one does not come
        assert second.came == [(b"old", True)]
        brokers.set_in_the_west(b"newer")
        until(lambda: [payload for payload, _ in second.came] == [b"old", b"newer"], "it crosses when it changes again")
        second.leave()


def test_what_federate_names_is_never_old(tmp_path: Path) -> None:
    with two(tmp_path, 'federate = ["stocks/#"]\n') as brokers:
        brokers.is_wanted(True)
        brokers.set_in_the_west(b"old")
        brokers.set_in_the_west(b"new")

        def given() -> list[tuple[bytes, bool]]:
            reader = Reader(brokers.ports[EAST])
            time.sleep(0.3)
            reader.leave()
            return reader.came

        until(lambda: given()[:1] == [(b"new", True)], "whoever comes has the new one")
