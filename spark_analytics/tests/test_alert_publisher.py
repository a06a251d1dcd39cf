import queue
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.broker_login import BrokerLogin
from mqloom.core.errors import BrokerError
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port
from mqloom.spark_analytics import alert_publisher
from mqloom.spark_analytics.alert_publisher import AlertPublisher
from mqloom.spark_analytics.alerts import Alert

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

TOPIC = "mqloom/v1/alerts"


def alert(number: int) -> Alert:
    return Alert(
        id=f"a{number}", kind="link", gateway="north", what="south", is_over=False, value=1.0, at=1.0, text="down"
    )


@pytest.fixture
def login(tmp_path: Path) -> Iterator[BrokerLogin]:
    port = free_port()
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with mosquitto_process(tmp_path / "mosquitto.conf", port):
        yield BrokerLogin("127.0.0.1", port)


@contextmanager
def subscriber(login: BrokerLogin) -> Iterator["queue.SimpleQueue[str]"]:
    """A plain client of MQTT."""
    came: queue.SimpleQueue[str] = queue.SimpleQueue()
    ready: queue.SimpleQueue[bool] = queue.SimpleQueue()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_subscribe = lambda *_: ready.put(True)
    client.on_message = lambda _client, _data, message: came.put(msgspec.json.decode(message.payload)["id"])
    client.connect(login.host, login.port)
    client.loop_start()
    client.subscribe(TOPIC, 1)
    try:
        assert ready.get(timeout=10)
        yield came
    finally:
        client.disconnect()
        client.loop_stop()


class CrashError(Exception):
    pass


def crash(_: Collection[str]) -> None:
    raise CrashError


def test_a_plain_client_gets_each_alert_once_although_the_publisher_died_before_it_could_tick_it_off(
    login: BrokerLogin,
) -> None:
    ticked: list[str] = []
    with subscriber(login) as came:
        with pytest.raises(CrashError), AlertPublisher(login, TOPIC, "me") as publisher:
            publisher.publish([alert(1), alert(2)], crash)
        with AlertPublisher(login, TOPIC, "me", ["a1", "a2"]) as publisher:
            publisher.publish([alert(1), alert(2), alert(3)], ticked.extend)
            publisher.publish([alert(4)], ticked.extend)
        assert [came.get(timeout=10) for _ in range(4)] == ["a1", "a2", "a3", "a4"]
        assert came.empty()
    assert ticked == ["a1", "a2", "a3", "a4"]


def test_what_others_publish_there_is_left_alone(login: BrokerLogin) -> None:
    ticked: list[str] = []
    with AlertPublisher(login, TOPIC, "me") as one, AlertPublisher(login, TOPIC, "other") as other:
        other.publish([alert(number) for number in range(50)], lambda _: None)
        one.publish([alert(100)], ticked.extend)
    assert ticked == ["a100"]


def test_what_others_publish_there_does_not_fill_what_the_broker_keeps_for_us(
    login: BrokerLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_publisher, "RETURN_S", 20.0)
    ticked: list[str] = []
    with AlertPublisher(login, TOPIC, "me") as one, AlertPublisher(login, TOPIC, "other") as other:
        for begin in range(0, 2_000, 200):  # twice what a Mosquitto queues for one session
            other.publish([alert(number) for number in range(begin, begin + 200)], lambda _: None)
        one.publish([alert(3_000)], ticked.extend)
    assert ticked == ["a3000"]


def test_what_has_come_back_meanwhile_is_ticked_off_together(login: BrokerLogin) -> None:
    ticked: list[Collection[str]] = []

    def tick_off(names: Collection[str]) -> None:
        time.sleep(0.05)  # as a disk takes
        ticked.append(names)

    with AlertPublisher(login, TOPIC, "me") as publisher:
        publisher.publish([alert(number) for number in range(100)], tick_off)
    assert [name for names in ticked for name in names] == [f"a{number}" for number in range(100)]
    assert len(ticked) < 50


def test_a_broker_that_is_not_there_is_an_error_that_says_where() -> None:
    login = BrokerLogin("127.0.0.1", free_port())
    with (
        pytest.raises(BrokerError, match=f"broker at {login.address}: cannot be reached"),
        AlertPublisher(login, "a", "b"),
    ):
        pass
