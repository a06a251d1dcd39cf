"""SIGHUP to a gateway on a real Mosquitto while publications flow: what changes, and that nothing is lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

TEXT = """
[federation]
name = "one"
data = ["stocks/#"]
mqtt_client = "CLIENT"
[[brokers]]
id = "west"
port = PORT
[[subscriptions]]
broker = "west"
topics = "stocks/#"
into = "hot"
where = "volume >= 0"
"""
MORE = """
[[subscriptions]]
broker = "west"
topics = "news/#"
into = "also"
where = "words > 2"
[[codecs]]
topics = "news/#"
codec = "words"
[[codecs]]
topics = "#"
codec = "json"
"""
PLUGIN = """
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Codec

@hookimpl
def mqloom_codec():
    return Codec("words", lambda publication: {"words": len(publication.payload.split())})
"""


class Gateway:
    """A gateway as a process, and its log."""

    def __init__(self, path: Path) -> None:
        self.log = path.with_name("gateway.log")
        with self.log.open("wb") as log:
            command = [sys.executable, "-c", "from mqloom.core.command import main; main()", "gateway"]
            self.process = subprocess.Popen([*command, "-c", str(path), "--name", "west"], stderr=log)

    def wait_for(self, text: str, count: int = 1) -> None:
        until(lambda: self.log.read_text().count(text) >= count, f"{text!r} in the log:\n{self.log.read_text()}")

    def reload(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


@contextlib.contextmanager
def running(path: Path) -> Iterator[Gateway]:
    gateway = Gateway(path)
    try:
        gateway.wait_for("serving the broker")
        yield gateway
    finally:
        gateway.process.terminate()
        assert gateway.process.wait(20) == 0


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


def comings_and_goings(folder: Path) -> list[str]:
    """Return what the broker says of the gateway's clients that come and go."""
    lines = folder.joinpath("mosquitto.log").read_text().splitlines()
    return [line for line in lines if "as mqloom-west" in line or "Client mqloom-west" in line]


@contextlib.contextmanager
def publishing(writer: paho.Client, sent: list[int]) -> Iterator[None]:
    """Publish numbers all the time, noting each."""
    is_over = threading.Event()

    def publish() -> None:
        while not is_over.is_set() and len(sent) < 20_000:
            writer.publish("stocks/a", json.dumps({"volume": len(sent)}), 1)
            sent.append(len(sent))
            time.sleep(0.002)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("kind", ["asyncio", "paho"])
def test_a_reload_changes_what_it_can_without_a_break_and_nothing_is_lost(tmp_path: Path, kind: str) -> None:
    (port,) = free_ports(1)
    path, broker = tmp_path / "federation.toml", tmp_path / "mosquitto.conf"
    text = TEXT.replace("PORT", str(port)).replace("CLIENT", kind)
    path.write_text(text)
    broker.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    seen: Counter[int] = Counter()
    news: list[bytes] = []
    with mosquitto_process(broker, port), running(path) as gateway, client(port) as reader, client(port) as writer:

        def came(_: paho.Client, __: object, message: paho.MQTTMessage) -> None:
            if message.topic.startswith("hot/"):
                seen[json.loads(message.payload)["volume"]] += 1
            else:
                news.append(bytes(message.payload))

        reader.on_message = came
        reader.subscribe([("hot/#", 1), ("also/#", 1)])
        sent: list[int] = []
        with publishing(writer, sent):
            until(lambda: bool(seen), "publications flow")
            came_and_went = comings_and_goings(tmp_path)
            assert len(came_and_went) >= 2
            path.write_text(text.replace('data = ["stocks/#"]', 'data = ["stocks/#'))
            gateway.reload()
            gateway.wait_for("the configuration is not changed")
            (tmp_path / "plugins.d").mkdir()
            (tmp_path / "plugins.d" / "words.py").write_text(PLUGIN)
            path.write_text(
                text.replace('data = ["stocks/#"]', 'data = ["stocks/#", "news/#"]\nmatcher = "scan"') + MORE
            )
            gateway.reload()
            gateway.wait_for(
                "holds; changed now: federation.data; codecs; subscriptions; plugins: words (new); waiting"
            )
            gateway.wait_for("federation.matcher is changed, but stays as it was")

            def is_read() -> bool:
                writer.publish("news/today", b"one two", 1)
                writer.publish("news/today", b"one two three", 1)
                time.sleep(0.1)
                return bool(news)

            until(is_read, "what is data now is taken in, and read by the codec that was dropped in")
            assert set(news) == {b"one two three"}
            path.write_text(text)
            gateway.reload()
            gateway.wait_for("changed now: federation.data; no data any more: news/#; codecs; subscriptions")
        until(lambda: len(seen) >= len(sent), f"{len(seen)} of {len(sent)} have come")
        assert seen == Counter(sent)
        assert comings_and_goings(tmp_path) == came_and_went
