"""Soft links on real Mosquittos: traffic opens a real connection past a broker, rest closes it, and nothing is lost."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.ids import GatewayId
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

NAMES = ("A", "B", "C")
FEDERATION = """
[federation]
name = "chain"
data = ["stocks/#"]
mqtt_client = "{client}"
[[brokers]]
id = "A"
port = {ports[0]}
[[brokers]]
id = "B"
port = {ports[1]}
[[brokers]]
id = "C"
port = {ports[2]}
[[links]]
between = ["A", "B"]
[[links]]
between = ["B", "C"]
[[subscriptions]]
broker = "C"
topics = "stocks/#"
into = "hot"
[plugins.settings.tree_overlay]
strategy = "S2"
weave_s = 0.1
"""


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.01)


def connected(port: int) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


@pytest.mark.parametrize("client", ["asyncio", pytest.param("paho", marks=pytest.mark.full)])
def test_traffic_opens_a_connection_past_a_broker_rest_closes_it_and_all_comes_once(
    tmp_path: Path, client: str
) -> None:
    ports = free_ports(3)
    path = tmp_path / "federation.toml"
    path.write_text(FEDERATION.format(client=client, ports=ports))
    came: Counter[int] = Counter()
    sent = 0
    with contextlib.ExitStack() as stack:
        logs = {}
        for name, port in zip(NAMES, ports, strict=True):
            file = tmp_path / name / "mosquitto.conf"
            file.parent.mkdir()
            file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
            stack.enter_context(mosquitto_process(file, port))
            logs[name] = file.with_name("mosquitto.log")
        drivers = stack.enter_context(gateways_in_thread(path, NAMES))
        reader, writer = connected(ports[2]), connected(ports[0])
        reader.on_message = lambda _, __, message: came.update([json.loads(message.payload)])
        reader.subscribe("hot/#", 1)
        until(lambda: drivers[GatewayId("A")].node.subscription_counts()[1] == 1, "A knows what C wants")
        counters = drivers[GatewayId("A")].node.counters

        def publish() -> None:
            nonlocal sent
            writer.publish("stocks/a", json.dumps(sent), 1)
            sent += 1

        def goes_past() -> bool:
            publish()
            return "as mqloom-A-to-C " in logs["C"].read_text() and counters.total("publications_softly") > 20

        until(goes_past, "publications go from A to C without B")
        until(lambda: "Client mqloom-A-to-C disconnected" in logs["C"].read_text(), "nobody needs it any more")
        publish()  # and the way through B is as it was
        until(lambda: len(came) == sent, "everything has come")
        assert came == Counter(range(sent))
        for each in (reader, writer):
            each.disconnect()
            each.loop_stop()
