"""A gateway on a real Mosquitto that does not take what is for one of its clients: it is set aside, others go on."""

import getpass
import json
import time
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.ids import GatewayId
from mqloom.core.limits import REFUSED_TRIES_MAX
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

COUNT = 20
ALLOWED = ("sub/#", "subs/#", "ctl/#", "status", "here", "place", "report", "portrait", "fence", "dead/#", "out/good")
ACCESS = "topic readwrite stocks/#\ntopic readwrite mqloom/v1/here\n" + "".join(
    f"topic readwrite mqloom/v1/west/{each}\n" for each in ALLOWED
)


def until(is_so: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["asyncio", "paho"])
def test_what_a_broker_refuses_for_one_client_is_set_aside_and_another_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("mqloom.gateway.deliveries.REFUSED_AFTER_S", 0.1)
    (port,) = free_ports(1)
    (tmp_path / "access").write_text(ACCESS)
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", f"acl_file {tmp_path / 'access'}"]
    (tmp_path / "mosquitto.conf").write_text("\n".join([*lines, f"user {getpass.getuser()}", ""]))
    path = tmp_path / "federation.toml"
    path.write_text(
        f'[federation]\nname = "one"\ndata = ["stocks/#"]\nmqtt_client = "{kind}"\n'
        f'[[brokers]]\nid = "west"\nport = {port}\n'
    )
    dead: list[bytes] = []
    answers: list[str] = []
    good: list[str] = []

    def came(_: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        if "/dead/" in message.topic:
            dead.append(bytes(message.payload))
        elif "/ctl/" in message.topic:
            answers.append(json.loads(message.payload)["answer"])
        else:
            good.append(message.topic)

    with mosquitto_process(tmp_path / "mosquitto.conf", port), gateways_in_thread(path, ("west",)) as drivers:
        counters = drivers[GatewayId("west")].node.counters
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.on_message = came
        client.connect("127.0.0.1", port)
        client.loop_start()
        client.subscribe([(f"mqloom/v1/west/{each}", 1) for each in ("dead/#", "ctl/+", "out/good")])
        wish = {"subscriptions": {"all": {"topics": "stocks/#"}}, "format": "frame"}
        for name in ("bad", "good"):
            client.publish(f"mqloom/v1/west/sub/{name}", json.dumps(wish), 1, retain=True)
        until(lambda: answers.count("established") == 2, f"both are established: {answers}")
        for number in range(COUNT):
            client.publish("stocks/a", json.dumps({"number": number}), 1).wait_for_publish(10)
        until(lambda: counters.total("publications_in") == COUNT, "all have been taken in")
        until(lambda: drivers[GatewayId("west")].node.holdings().duties == 0, "all are taken care of")
        until(lambda: len(dead) == counters.value("publications_dead", "refused"), f"all dead ones come: {len(dead)}")
        until(lambda: bool(good), "what is for the other has come")
        client.disconnect()
        client.loop_stop()
        assert dead
        assert counters.value("local_publishes_dropped", "refused by the broker") >= REFUSED_TRIES_MAX * len(dead)
        assert counters.total("publications_dropped") == 0
