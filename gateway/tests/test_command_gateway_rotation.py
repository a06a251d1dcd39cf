"""Keys that are rotated by SIGHUP, between two gateways that run as processes, while publications flow."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.command import main
from mqloom.gateway.key_file import keyring_in
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

NAMES = ("west", "east")
STEPS = 3


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class Gateway:
    """A gateway as a process, in a folder of its own with its configuration and its copy of the keys."""

    def __init__(self, folder: Path, name: str, text: str, keys: bytes) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.folder.joinpath("federation.toml").write_text(text)
        self.log = self.folder / "gateway.log"
        self.give(keys)
        command = [sys.executable, "-c", "from mqloom.core.command import main; main()", "gateway"]
        with self.log.open("wb") as log:
            path = self.folder / "federation.toml"
            self.process = subprocess.Popen([*command, "-c", str(path), "--name", name], stderr=log)

    def give(self, keys: bytes) -> None:
        path = self.folder / "our.keys"
        path.touch(mode=0o600)
        path.write_bytes(keys)

    def reload(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)

    def wait_for(self, text: str, count: int = 1) -> None:
        until(lambda: self.said(text) >= count, f"{text!r} in the log of {self.name}:\n{self.log.read_text()}")

    def said(self, text: str) -> int:
        return self.log.read_text().count(text)

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(20) == 0


@contextlib.contextmanager
def client(port: int) -> Iterator[paho.Client]:
    each = paho.Client(CallbackAPIVersion.VERSION2)
    each.connect("127.0.0.1", port)
    each.loop_start()
    try:
        yield each
    finally:
        each.disconnect()
        each.loop_stop()


def test_keys_are_rotated_gateway_by_gateway_and_nothing_is_refused_or_lost(tmp_path: Path) -> None:
    ports = dict(zip(NAMES, free_ports(2), strict=True))
    text = '[federation]\nname = "two"\ndata = ["stocks/#"]\nkey_file = "our.keys"\n'
    text += "".join(f'[[brokers]]\nid = "{name}"\nport = {port}\n' for name, port in ports.items())
    text += '[[links]]\nbetween = ["west", "east"]\n'
    text += '[[subscriptions]]\nbroker = "east"\ntopics = "stocks/#"\ninto = "hot"\n'
    keys = tmp_path / "our.keys"
    assert main(["keys", "new", str(keys)]) == 0
    seen: Counter[int] = Counter()
    sent = 0
    with contextlib.ExitStack() as stack:
        for name, port in ports.items():
            (tmp_path / f"{name}-broker").mkdir()
            file = tmp_path / f"{name}-broker" / "mosquitto.conf"
            file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
            stack.enter_context(mosquitto_process(file, port))
        gateways = [Gateway(tmp_path, name, text, keys.read_bytes()) for name in NAMES]
        for gateway in gateways:
            stack.callback(gateway.end)
        for gateway, other in zip(gateways, reversed(NAMES), strict=True):
            gateway.wait_for(f"link to {other} is up")
        writer, reader = (stack.enter_context(client(ports[name])) for name in NAMES)
        reader.on_message = lambda _, __, message: seen.update([json.loads(message.payload)["number"]])
        reader.subscribe("hot/#", 1)

        def publish(count: int = 50) -> None:
            nonlocal sent
            for _ in range(count):
                writer.publish("stocks/a", json.dumps({"number": sent}), 1)
                sent += 1
            until(lambda: len(seen) >= sent, f"{len(seen)} of {sent} have come")

        until(lambda: bool(writer.publish("stocks/a", '{"number": 0}', 1)) and bool(seen), "east wants it")
        sent = 1
        for step in range(1, STEPS + 1):
            assert main(["keys", "rotate", str(keys)]) == 0
            for gateway in gateways:  # one is ahead of the other for a while
                gateway.give(keys.read_bytes())
                gateway.reload()
                gateway.wait_for("changed now: keys: ", step)
                publish()
        sending = keyring_in(keys).sending.name
        for gateway in gateways:
            for news in ("counts from now on", "seals from now on"):
                assert gateway.said(f"changed now: keys: {sending} {news}") == 1
            assert gateway.said("counts no more") == 1
            assert gateway.said("link to ") == 1, gateway.log.read_text()  # up, and never lost
            since = gateway.log.read_text().partition("changed now")[2]  # before, both have begun at the same time
            assert "refused" not in since, since
        # The next rotation begins by forgetting the first key altogether: nothing may be sealed with it any more.
        assert main(["keys", "rotate", str(keys)]) == 0
        (tmp_path / "federation.toml").write_text(text)
        assert main(["status", "-c", str(tmp_path / "federation.toml")]) == 0
    assert set(seen) == set(range(sent))
    assert all(count == 1 for number, count in seen.items() if number)
