"""Plain MQTT clients without anything of ours: one that listens, and one that publishes numbers."""

import itertools
import json
import threading
import time
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.processes import wait_until

HOST = "127.0.0.1"
ACKNOWLEDGE_S_MAX = 60.0
KEEPALIVE_S = 5
"""So that it notices soon when its broker is cut off."""


class PlainClient:
    """A client that remembers what came."""

    def __init__(self, port: int, *topics: str) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self._subscribed = 0
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._client.connect(HOST, port)
        self._client.loop_start()
        for topic in topics:
            self._client.subscribe(topic, 1)
        wait_until(lambda: self._subscribed == len(topics), "the subscriptions are acknowledged")

    def _on_message(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self.messages.append((message.topic, bytes(message.payload)))

    def _on_subscribe(self, *_: Any) -> None:
        self._subscribed += 1

    def publish(self, topic: str, payload: str | bytes, *, retain: bool = False) -> None:
        """Publish, and return when the broker has acknowledged it."""
        self._client.publish(topic, payload, 1, retain).wait_for_publish(10)

    def on(self, prefix: str) -> list[bytes]:
        """Return what came on topics that begin so."""
        return [payload for topic, payload in self.messages if topic.startswith(prefix)]

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


class Publisher(threading.Thread):
    """Publishes numbers on a topic until it is told to stop; what the broker has acknowledged counts."""

    def __init__(self, port: int, topic: str = "stocks/a", *, pause_s: float = 0.01) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._topic = topic
        self._pause_s = pause_s
        self._ended = threading.Event()
        self.acknowledged = 0
        self.doubtful: set[int] = set()
        """What was under way when a connection broke: the client sends it again, and the broker may have it twice."""

    def run(self) -> None:
        """Publish one by one, through reconnections."""
        client = Client(CallbackAPIVersion.VERSION2, f"publisher-{self._port}", clean_session=False)
        client.reconnect_delay_set(1, 1)
        client.on_disconnect = lambda *_: self.doubtful.update((self.acknowledged, self.acknowledged + 1))
        taken = threading.Event()
        client.on_publish = lambda *_: taken.set()
        client.connect(HOST, self._port, keepalive=KEEPALIVE_S)
        client.loop_start()
        for number in itertools.count():
            if self._ended.is_set():
                break
            taken.clear()
            client.publish(self._topic, json.dumps({"number": number}), 1)
            if not taken.wait(ACKNOWLEDGE_S_MAX):
                break
            self.acknowledged = number + 1
            time.sleep(self._pause_s)
        client.disconnect()
        client.loop_stop()

    def stop(self) -> None:
        """Return when it has ended, if it began."""
        self._ended.set()
        if self.is_alive():
            self.join(ACKNOWLEDGE_S_MAX)
