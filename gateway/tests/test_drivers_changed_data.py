"""What was data in an earlier configuration, and is in the session of the intake still, on a real Mosquitto."""

import asyncio
import getpass
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS, make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port

pytestmark = [
    pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine"),
    pytest.mark.parametrize("client", MQTT_CLIENTS),
]

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
WEST = GatewayId("west")


class Place:
    """A broker's files, and a gateway's."""

    def __init__(self, folder: Path, client: str) -> None:
        self.port = free_port()
        self._client = client
        self._folder = folder
        self.broker = folder / "mosquitto.conf"
        self.broker.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            f"persistence true\npersistence_location {folder}/\nuser {getpass.getuser()}\n"  # who may write there
        )

    def configured(self, *data: str) -> Path:
        path = self._folder / "federation.toml"
        path.write_text(
            f'[federation]\nname = "one"\ndata = {json.dumps(data)}\nmqtt_client = "{self._client}"\n'
            f'[[brokers]]\nid = "west"\nport = {self.port}\n'
            '[[subscriptions]]\nbroker = "west"\ntopics = "stocks/+"\ninto = "hot"\n'
        )
        return path

    @asynccontextmanager
    async def gateway(self, *data: str) -> AsyncIterator[GatewayDriver]:
        driver = build_driver(load_federation(self.configured(*data)), WEST)
        task = asyncio.create_task(driver.run())
        try:
            await wait_until_ready(driver, 20)
            yield driver
        finally:
            driver.stop()
            await task


class Person:
    """A plain MQTT client."""

    def __init__(self, port: int, *topics: str) -> None:
        self.messages: list[Received] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id="person",
            clean_session=True,
            subscriptions=[TopicSubscription(topic, 1) for topic in topics],
            on_messages=self.messages.extend,
            on_up=self.up.set,
            on_down=lambda problem: None,
        )
        self.connection = make_connection(plan, LOG)
        self.connection.open()

    def on(self, topic: str) -> list[bytes]:
        return [message.payload for message in self.messages if message.topic == topic]


@asynccontextmanager
async def person(port: int, *topics: str) -> AsyncIterator[Person]:
    someone = Person(port, *topics)
    async with asyncio.timeout(20):
        await someone.up.wait()
    try:
        yield someone
    finally:
        await someone.connection.close()


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


async def every_publication_comes_once(driver: GatewayDriver, someone: Person) -> None:
    sent = [b"%d" % number for number in range(5)]
    before = driver.node.counters.total("publications_in")
    for payload in sent:
        someone.connection.publish("stocks/A", payload, 1)
    await until(lambda: someone.on("hot/stocks/A")[-1:] == sent[-1:])
    someone.connection.publish("stocks/B", b"behind", 1)
    await until(lambda: bool(someone.on("hot/stocks/B")))
    assert someone.on("hot/stocks/A") == sent
    assert driver.node.counters.total("publications_in") == before + len(sent) + 1


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_what_overlaps_with_what_was_data_before_a_restart_comes_once(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, client)
        with mosquitto_process(place.broker, place.port):
            async with place.gateway("stocks/#", "news/#"):
                pass
            async with person(place.port, "hot/#", layout.intake(WEST)) as someone:
                done: list[bool] = []
                for topic in ("news/today", "stocks/A/b", "stocks/C"):
                    someone.connection.publish(topic, b"meanwhile", 1, then=lambda: done.append(True))
                await until(lambda: len(done) == 3)
                async with place.gateway("stocks/+") as driver:
                    await until(lambda: bool(someone.on("hot/stocks/C")))  # of what had come meanwhile nothing is lost
                    await every_publication_comes_once(driver, someone)

                    await until(lambda: json.loads(someone.on(layout.intake(WEST))[-1]) == ["stocks/+"])
                    assert len(someone.on("hot/stocks/C")) == 1

    run(scenario)


def test_what_overlaps_comes_once_also_if_the_broker_was_away_when_it_was_changed(
    tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MIN", 0.1)
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MAX", 0.5)

    async def scenario() -> None:
        place = Place(tmp_path, client)
        with mosquitto_process(place.broker, place.port) as broker:
            gateway = place.gateway("stocks/#")
            driver = await gateway.__aenter__()
            broker.terminate()
            await until(lambda: driver._own is not None and not driver._own.is_up)
        try:
            assert driver._intake is not None
            await until(lambda: not driver._intake.connection.is_up)  # type: ignore[union-attr]
            driver._intake.change(["stocks/+"])
            with mosquitto_process(place.broker, place.port):
                await until(lambda: driver._intake.connection.is_up)  # type: ignore[union-attr]
                assert driver._intake.connection.is_resumed
                assert driver.node.counters.total("broker_sessions_lost") == 0
                async with person(place.port, "hot/#", layout.intake(WEST)) as someone:
                    await until(lambda: someone.on(layout.intake(WEST))[-1:] == [b'["stocks/+"]'])
                    await every_publication_comes_once(driver, someone)
        finally:
            await gateway.__aexit__(None, None, None)

    run(scenario)
