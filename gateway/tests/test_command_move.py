"""`mqloom overlay move` beside running gateways on real brokers, while publications flow; and what it says if not."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.command import main
from mqloom.core.errors import BrokerError
from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.move_order import order_move
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

ONE, TWO, THREE, FOUR = map(GatewayId, ("ONE", "TWO", "THREE", "FOUR"))
NAMES = (ONE, TWO, THREE, FOUR)
MORE = """
[plugins.settings.tree_overlay]
strategy = "S1"
delta = 4
"""


def subscribing(broker: str) -> str:
    return f'[[subscriptions]]\nbroker = "{broker}"\ntopics = "stocks/#"\nwhere = "volume >= 0"\ninto = "all"\n'


class Reader:
    """Counts what comes on one topic of a broker."""

    def __init__(self, port: int, topic: str) -> None:
        self.seen: Counter[int] = Counter()
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        is_ready = threading.Event()
        self.client.on_message = self._on_message
        self.client.on_connect = lambda client, *_: client.subscribe(topic, 1) and None
        self.client.on_subscribe = lambda *_: is_ready.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert is_ready.wait(10)

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        if message.topic.startswith("all/"):  # some brokers replay retained messages that nobody asked for
            self.seen[json.loads(message.payload)["volume"]] += 1


def publisher(port: int) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def test_a_gateway_moves_while_publications_flow_and_nothing_is_lost_or_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, NAMES, MORE + subscribing("ONE") + subscribing("THREE"))
    with gateways_in_thread(path, NAMES) as drivers:
        readers = {name: Reader(ports[name], "all/#") for name in (ONE, THREE)}
        publishers = [publisher(ports[ONE]), publisher(ports[TWO])]
        is_over = threading.Event()
        sent = []

        def publish() -> None:
            number = 0
            while not is_over.is_set() and number < 5_000:
                publishers[number % 2].publish("stocks/a", json.dumps({"volume": number}), 1)
                sent.append(number)
                number += 1
                time.sleep(0.03)

        until(lambda: drivers[ONE].node.subscription_counts() == (1, 1), "ONE knows what THREE wants")
        until(lambda: drivers[TWO].node.subscription_counts() == (0, 2), "TWO knows what both want")
        until(lambda: bool(drivers[ONE].node.way_to(THREE)), "ONE has a map")
        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert main(["overlay", "move", "ONE", "--to", "THREE", "-c", str(path)]) == 0
            out = capsys.readouterr().out
            assert "linked to both" in out
            assert out.endswith("ONE is a neighbour of THREE now; its broker keeps that\n")
            until(lambda: ONE not in drivers[TWO].node.link_states(), "TWO has heard of it")
            time.sleep(0.3)
        finally:
            is_over.set()
            thread.join()
        assert set(drivers[ONE].node.link_states()) == {THREE}
        assert set(drivers[THREE].node.link_states()) == {ONE, TWO, FOUR}
        for name, reader in readers.items():
            deadline = time.monotonic() + 10
            while len(reader.seen) < len(sent) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert reader.seen == Counter(sent), name
        assert main(["overlay", "move", "ONE", "--to", "THREE", "-c", str(path), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["answer"] == "stayed"
        assert main(["overlay", "move", "ONE", "--to", "THREE", "-c", str(path)]) == 1
        assert "ONE stays where it is: THREE is a neighbour of ONE already" in capsys.readouterr().err
        for client in (*publishers, *(reader.client for reader in readers.values())):
            client.disconnect()
            client.loop_stop()
        with pytest.raises(BrokerError, match=r"NOBODY does not answer within 0\.3 s; is it running"):
            order_move(GatewayId("NOBODY"), BrokerAddress("127.0.0.1", ports[ONE]), TWO, print, wait_s=0.3)
    assert main(["overlay", "move", "ONE", "--to", "TOW", "-c", str(path)]) == 1
    assert "did you mean 'TWO'" in capsys.readouterr().err
