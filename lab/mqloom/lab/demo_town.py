"""Two brokers with their gateways, and clients that are moved between them: for whoever tries moves for real."""

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import Client, Federation
from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import MoveOrder, sign_order
from mqloom.core.records import decode_record
from mqloom.core.signatures import OrderKey, OrderKeys
from mqloom.gateway.key_file import order_keys_in
from mqloom.lab.demo_mosquitto import mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

HOST: Final = "127.0.0.1"
WAIT_S_MAX: Final = 20.0
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
adapter = "{adapter}"
[[brokers]]
id = "EAST"
port = {east}
adapter = "{adapter}"
[[links]]
between = ["WEST", "EAST"]
"""


def until(is_so: Callable[[], bool], text: str) -> None:
    """Wait until something is so; what that is stands in the text."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


class Town:
    """Two brokers with their gateways, and what a test needs of both."""

    def __init__(self, folder: Path, ports: dict[GatewayId, int], keys: OrderKeys) -> None:
        self.file = folder / "federation.toml"
        self.ports = ports
        self.keys = keys
        self.federation = Federation(order_keys=tuple(key.text for key in keys.public))
        self.brokers: dict[GatewayId, subprocess.Popen[bytes]] = {}
        self._clients: list[paho.Client] = []

    def client(
        self, at: GatewayId = WEST, will: str = "", host: str = HOST, **options: Any
    ) -> tuple[Client, "queue.Queue[MQTTMessage]"]:
        """Return a client that is served there, and what comes to it."""
        established = threading.Event()
        came: queue.Queue[MQTTMessage] = queue.Queue()
        client = Client(CallbackAPIVersion.VERSION2, **({"federation": self.federation} | options))
        client.on_message = lambda _c, _u, message: came.put(message)
        client.on_established = lambda *_: established.set()
        if will:
            client.will_set(will)
        client.connect(host, self.ports[at])
        client.loop_start()
        client.subscribe("stocks/#", 1)
        assert established.wait(WAIT_S_MAX)
        self._clients.append(client)
        return client, came

    def migrate(self, name: str, to: GatewayId) -> int:
        """Run `mqloom migrate`."""
        return main(["migrate", "-c", str(self.file), name, "--to", to])

    def order(self, name: str, source: GatewayId, to: GatewayId, key: OrderKey | None = None) -> None:
        """Order a client to move, and wait for nothing; with another key the order is forged."""
        records: queue.Queue[bytes] = queue.Queue()
        client = self.publisher(source)
        client.on_message = lambda _c, _u, message: records.put(bytes(message.payload))
        client.subscribe(layout.record(source, ClientId(name)), 1)
        record = decode_record(records.get(timeout=WAIT_S_MAX))
        now = time.time()
        order = MoveOrder(
            federation="two",
            client=ClientId(name),
            incarnation=record.incarnation,
            session=f"{name} {now}",
            source=source,
            to=to,
            issued_at=now,
            expires_at=now + 60,
        )
        data = sign_order(order, self.keys.signing if key is None else key)
        client.publish(layout.control(source, ClientId(name)), data, 1).wait_for_publish(WAIT_S_MAX)
        client.disconnect()
        client.loop_stop()

    @contextlib.contextmanager
    def publishing(self) -> Iterator[list[int]]:
        """Publish numbers at both brokers until the end; yields those that are acknowledged."""
        sent: list[int] = []
        done = threading.Event()

        def publish() -> None:
            clients = [self.publisher(at) for at in (WEST, EAST)]
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

    def publisher(self, at: GatewayId) -> paho.Client:
        """Return a client that is connected there."""
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
        """End all clients."""
        for client in self._clients:
            client.disconnect()
            client.loop_stop()


@contextlib.contextmanager
def running_town(folder: Path, *, is_embedded: bool = False) -> Iterator[Town]:
    """Run both brokers, embedded ones or Mosquittos, and both gateways until the end; their files are in the folder."""
    ports = dict(zip((WEST, EAST), free_ports(2), strict=True))
    assert main(["keys", "new", str(folder / "federation.keys")]) == 0
    path = folder / "federation.toml"
    adapter = "amqtt" if is_embedded else "mqtt"
    path.write_text(FEDERATION.format(west=ports[WEST], east=ports[EAST], adapter=adapter))
    keys = order_keys_in(folder / "federation.keys")
    assert keys is not None
    town = Town(folder, ports, keys)
    with contextlib.ExitStack() as stack:
        for name, port in () if is_embedded else ports.items():
            (folder / name).mkdir()
            (folder / name / "mosquitto.conf").write_text(BROKER.format(port=port))
            town.brokers[name] = stack.enter_context(mosquitto_process(folder / name / "mosquitto.conf", port))
        stack.enter_context(gateways_in_thread(path, [WEST, EAST]))
        yield town
        town.close()


def numbers(came: "queue.Queue[MQTTMessage]", expected: list[int]) -> list[int]:
    """Return what has come, as soon as it could be all; two publishers' numbers may overtake each other."""
    found: list[int] = []
    while set(found) != set(expected):
        found.append(json.loads(came.get(timeout=WAIT_S_MAX).payload)["number"])
    return sorted(found)
