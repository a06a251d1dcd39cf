"""Gateways with a key on running brokers, and the commands that ask and order them."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core import layout
from mqloom.core.command import main
from mqloom.core.errors import BrokerError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Order, Question, Status, encode_order, encode_status
from mqloom.core.seals import Keyring, key_of
from mqloom.gateway.command_route import ask
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.links import LinkState
from mqloom.lab.demo_thread import gateways_in_thread, write_chain

ONE, TWO = GatewayId("ONE"), GatewayId("TWO")
HOT = '[[subscriptions]]\nbroker = "TWO"\ntopics = "stocks/#"\nwhere = "volume > 10"\ninto = "hot"'


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def test_gateways_with_a_key_answer_whoever_has_it_and_believe_nobody_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, ("ONE", "TWO"), HOT)
    path.write_text(path.read_text().replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    words = ["route", "-c", str(path), "--at", "ONE", "--topic", "stocks/a", "--payload", '{"volume": 11}', "--json"]
    with gateways_in_thread(path, ("ONE", "TWO")) as drivers:
        counters = drivers[ONE].node.counters
        until(lambda: drivers[ONE].node.subscription_counts()[1] == 1, "ONE knows what TWO wants")
        capsys.readouterr()
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["anchors"] == {"TWO": 1}

        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", ports[ONE])
        client.loop_start()
        order = encode_order(Order(number=1, move_to=TWO))
        client.publish(layout.order(ONE, ClientId("hostile")), order, 1)
        until(lambda: counters.value("moves_refused", "unsealed") == 1, "the order is refused")
        for alive in (True, False):
            status = encode_status(Status(alive=alive, gateway=ONE, version="1", epoch=2**62))
            client.publish(layout.status(ONE), status, 1)
        client.publish(layout.link(ONE, TWO), b"\x01forged", 0)
        until(lambda: counters.value("frames_refused", "unsealed") >= 1, "the frame is refused")
        two = drivers[TWO].node.counters
        until(lambda: two.value("frames_refused", "unsealed") >= 2, "TWO does not believe the statuses")
        assert drivers[ONE].node.link_states() == {TWO: LinkState.UP}
        assert drivers[TWO].node.link_states() == {ONE: LinkState.UP}
        client.disconnect()
        client.loop_stop()

        address, question = BrokerAddress("127.0.0.1", ports[ONE]), Question(number=1, topic="stocks/a")
        assert "key_file" in ask(ONE, address, question).problem
        with pytest.raises(BrokerError, match=r"is not to be trusted: .*; has it the same key_file"):
            ask(ONE, address, question, keyring=Keyring(key_of(bytes(32))))
        assert main(words) == 0


def test_what_was_recorded_before_a_restart_is_refused_after_it_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    ports = write_chain(path, ("ONE", "TWO"), HOT)
    path.write_text(path.read_text().replace("[federation]\n", '[federation]\nkey_file = "our.keys"\n'))
    assert main(["keys", "new", str(tmp_path / "our.keys")]) == 0
    topics = [layout.link(TWO, ONE), layout.link(TWO, ONE, urgent=True)]
    recorded: list[tuple[str, bytes]] = []

    def came(_: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        if message.topic in topics:  # the embedded broker hands over what is retained, wanted or not
            recorded.append((message.topic, bytes(message.payload)))

    hostile = paho.Client(CallbackAPIVersion.VERSION2)
    hostile.on_message = came
    with gateways_in_thread(path, ("ONE", "TWO")):
        hostile.connect("127.0.0.1", ports[TWO])
        hostile.subscribe([(topic, 0) for topic in topics])
        hostile.loop_start()
        until(hostile.is_connected, "it is there")
        for number in range(3):
            pub = ["pub", "stocks/a", '{"volume": 11}', "--port", str(ports[ONE]), "--qos", "1"]
            assert main(pub) == 0
            until(lambda number=number: len(recorded) > number, "the link is heard")  # type: ignore[misc]
        hostile.disconnect()
        hostile.loop_stop()
    with gateways_in_thread(path, ("ONE", "TWO")) as drivers:
        counters = drivers[TWO].node.counters
        until(lambda: drivers[ONE].node.subscription_counts()[1] == 1, "ONE knows what TWO wants")
        before, resets = counters.total("frames_refused"), counters.total("link_resets")
        hostile = paho.Client(CallbackAPIVersion.VERSION2)
        hostile.connect("127.0.0.1", ports[TWO])
        hostile.loop_start()
        for topic, payload in recorded:
            hostile.publish(topic, payload, 0)
        until(lambda: counters.total("frames_refused") == before + len(recorded), "each of them is refused")
        assert {*counters.reasons("frames_refused")} <= {"replayed", "outdated"}
        assert counters.total("link_resets") == resets
        assert drivers[ONE].node.link_states() == {TWO: LinkState.UP}
        assert drivers[TWO].node.link_states() == {ONE: LinkState.UP}
        hostile.disconnect()
        hostile.loop_stop()
