"""Plain MQTT clients, which know nothing of MQLoom, and federations of Mosquittos for them."""

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from integration_tests.processes import Commands, Process, wait_until

SETTLED_S = 1.0
"""How long nothing more has to come before nothing more is believed to come."""


class PlainClient:
    """An ordinary MQTT client; what came, in its order, with the retain flag."""

    def __init__(self, port: int, *, client_id: str = "", clean: bool = True) -> None:
        self.came: list[tuple[str, bytes, bool]] = []
        self._subscribed = threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean)
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _on_message(self, _: Client, __: object, message: MQTTMessage) -> None:
        if not message.topic.startswith("mqloom/"):  # somebody who wants everything sees gateways talk, too
            self.came.append((message.topic, bytes(message.payload), message.retain))

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        self._subscribed.clear()
        self.client.subscribe([(each, qos) for each in filters])
        assert self._subscribed.wait(10)

    def publish(self, topic: str, *payloads: str, qos: int = 1, retain: bool = False) -> None:
        for payload in payloads:
            self.client.publish(topic, payload, qos, retain).wait_for_publish(10)

    def payloads(self, topic: str | None = None) -> list[str]:
        return [payload.decode() for where, payload, _ in self.came if topic in (None, where)]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextlib.contextmanager
def plain_client(port: int, *, client_id: str = "", clean: bool = True) -> Iterator[PlainClient]:
    """Give a client that is connected."""
    client = PlainClient(port, client_id=client_id, clean=clean)
    try:
        yield client
    finally:
        client.close()


class MosquittoSub:
    """`mosquitto_sub`, and what it has printed: a topic and a payload a line."""

    def __init__(self, port: int, *filters: str) -> None:
        tool = shutil.which("mosquitto_sub")
        assert tool is not None
        options = [option for text in filters for option in ("-t", text)]
        self._process = subprocess.Popen(
            [tool, "-h", "127.0.0.1", "-p", str(port), "-q", "1", "-F", "%t %p", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


class PlainFederation:
    """Gateways beside brokers of the given ports, in a chain unless other links are given."""

    def __init__(
        self,
        commands: Commands,
        ports: Mapping[str, int],
        *,
        adapters: Mapping[str, str] | None = None,
        federate: Sequence[str] = (),
        links: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    ) -> None:
        self.commands = commands
        self.ports = ports
        self.names = list(ports)
        self._adapters = adapters or {}
        self._federate = federate
        chain = list(zip(self.names, self.names[1:], strict=False))
        for name in self.names:
            text = self._configuration((links or {}).get(name, chain))
            (commands.folder / f"{name}.toml").write_text(text)
        self.gateways: dict[str, Process] = {}
        for name in self.names:
            self.start(name)
        for name in self.names:
            neighbours = [each for link in (links or {}).get(name, chain) if name in link for each in link]
            for neighbour in neighbours:
                if neighbour != name:
                    self.gateways[name].wait_for_log(f"link to {neighbour} is up")

    def start(self, name: str) -> None:
        """Start a gateway, and return when it serves its broker."""
        process = self.commands.start("gateway", "-c", f"{name}.toml", "--name", name)
        process.wait_for_log("serving the broker")
        self.gateways[name] = process

    def _configuration(self, links: Sequence[tuple[str, str]]) -> str:
        lines = [
            "[federation]",
            'name = "plain"',
            'data = ["stocks/#", "weather/+"]',
            "telemetry_s = 0.2",
            "[plugins.settings.json_lines]",
            'file = "records-{gateway}.jsonl"',
        ]
        for name, port in self.ports.items():
            adapter = self._adapters.get(name, "mosquitto")
            lines += ["[[brokers]]", f'id = "{name}"', f"port = {port}", f'adapter = "{adapter}"']
            lines.append(f"federate = {json.dumps(list(self._federate))}")
        for link in links:
            lines += ["[[links]]", f"between = {json.dumps(list(link))}"]
        return "\n".join(lines)

    def counters(self, name: str) -> dict[str, int]:
        """Return the last counts of a gateway."""
        path = self.commands.folder / f"records-{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        if not lines:
            return {}
        counters: dict[str, int] = json.loads(lines[-1])["counters"]
        return counters

    def count(self, name: str, counter: str) -> int:
        """Return one count of a gateway."""
        return self.counters(name).get(counter, 0)

    def knows(self, name: str, announcements: int) -> None:
        """Return when a gateway has announced so many subscriptions."""
        wait_until(lambda: self.count(name, "announcements_sent") >= announcements, f"{name} announces {announcements}")
