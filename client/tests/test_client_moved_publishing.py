"""What the application itself publishes while it is moved between real Mosquittos."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTErrorCode

from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WEST, Town, numbers, running_town, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with running_town(tmp_path) as town:
        yield town


@pytest.mark.parametrize("qos", [0, 1])
def test_what_it_publishes_while_it_is_moved_arrives_once(town: Town, qos: int) -> None:
    mover, _ = town.client(client_id="mover", clean_session=False)
    _, came = town.client(EAST, client_id="listener", clean_session=False)
    results: set[MQTTErrorCode] = set()
    sent: list[int] = []
    done = threading.Event()

    def publish() -> None:
        while not done.is_set():
            info = mover.publish("stocks/YHOO", json.dumps({"number": len(sent)}), qos)
            results.add(info.rc)
            sent.append(len(sent))
            time.sleep(0.001)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for to in (EAST, WEST, EAST, WEST):
            assert town.migrate("mover", to) == 0
            until(lambda to=to: mover._port == town.ports[to] and mover.is_connected(), "it is there")  # type: ignore[misc]
    finally:
        done.set()
        thread.join()
    until(lambda: not mover._out_messages, "all is acknowledged")
    assert results == {MQTTErrorCode.MQTT_ERR_SUCCESS}
    assert numbers(came, sent) == sent
