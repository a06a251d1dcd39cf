"""amqtt with our plugins: it tells what plain clients want, and can have the gateway in its own process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from amqtt.broker import Broker

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.links import LinkState
from mqloom.lab.ports import free_ports
from mqloom.plugins import plain_clients
from mqloom.plugins.amqtt_adapter import AmqttAdapter

LOG = logging.LoggerAdapter(logging.getLogger(__name__), {"gateway": "-"})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.01)


class Somebody:
    """A plain MQTT client, and what came to it."""

    def __init__(self, port: int, *topics: str, name: str = "somebody") -> None:
        self.messages: list[Received] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id=f"{name}-{port}",
            clean_session=True,
            subscriptions=[TopicSubscription(topic, 1) for topic in topics],
            on_messages=self.messages.extend,
            on_up=self.up.set,
            on_down=lambda problem: None,
        )
        self.connection = make_connection(plan, LOG)
        self.connection.open()

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages if message.topic.startswith("stocks/")]


@asynccontextmanager
async def somebody(port: int, *topics: str, name: str = "somebody") -> AsyncIterator[Somebody]:
    client = Somebody(port, *topics, name=name)
    await until(client.up.is_set)
    try:
        yield client
    finally:
        await client.connection.close()


def test_the_embedded_broker_tells_what_plain_clients_want_as_long_as_they_do() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        told: list[list[str]] = []
        adapter.watch(GatewayId("A"), lambda filters, _=0: told.append(list(filters)))
        await adapter.start()
        try:
            async with somebody(port, "a/#", "b"), somebody(port, "stocks/#", name="mqloom-A"):
                await until(lambda: told[-1:] == [["a/#", "b"]])
            await until(lambda: told[-1] == [])
        finally:
            await adapter.stop()

    asyncio.run(scenario())


def test_of_one_client_of_the_embedded_broker_no_more_counts_than_of_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_clients, "PLAIN_FILTERS_PER_CLIENT_MAX", 2)

    async def scenario() -> None:
        (port,) = free_ports(1)
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        told: list[tuple[list[str], int]] = []
        adapter.watch(GatewayId("A"), lambda filters, passed_over=0: told.append((list(filters), passed_over)))
        await adapter.start()
        try:
            async with somebody(port, "a", "b", "c", "d"), somebody(port, "d", name="other"):
                await until(lambda: told[-1:] == [(["a", "b", "d"], 2)])
        finally:
            await adapter.stop()

    asyncio.run(scenario())


def written(folder: Path, north: int, south: int) -> Path:
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "inside"
        data = ["stocks/#"]
        [[brokers]]
        id = "north"
        port = {north}
        [[brokers]]
        id = "south"
        port = {south}
        adapter = "amqtt"
        [[links]]
        between = ["north", "south"]
        """
    )
    return path


def broker_with_gateway(path: Path, port: int, name: str = "north") -> Broker:
    plugins = {
        "mqloom.plugins.amqtt_admission.Everybody": {},
        "mqloom.plugins.amqtt_gateway.Gateway": {"configuration": str(path), "name": name},
    }
    return Broker({"listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}, "plugins": plugins})


@asynccontextmanager
async def running(path: Path, name: str) -> AsyncIterator[GatewayDriver]:
    driver = build_driver(load_federation(path), GatewayId(name))
    task = asyncio.create_task(driver.run())
    await wait_until_ready(driver, 10)
    try:
        yield driver
    finally:
        driver.stop()
        await task


def test_a_gateway_runs_inside_amqtt_and_plain_clients_of_both_sides_meet(tmp_path: Path) -> None:
    async def scenario() -> None:
        north, south = free_ports(2)
        path = written(tmp_path, north, south)
        broker = broker_with_gateway(path, north)
        await broker.start()
        try:
            async with running(path, "south") as driver:
                await until(lambda: all(each is LinkState.UP for each in driver.node.link_states().values()))
                async with somebody(north, "stocks/+") as one, somebody(south, "stocks/#") as other:
                    await until(lambda: driver.node.subscription_counts() == (1, 1))
                    await until(lambda: driver.node.counters.total("subscriptions_established") == 1)
                    one.connection.publish("stocks/a", b"from the north", 1)
                    other.connection.publish("stocks/b", b"from the south", 1)
                    await until(lambda: len(one.payloads()) == len(other.payloads()) == 2)
                    await asyncio.sleep(0.3)  # nothing comes twice, nothing goes round
                    assert sorted(one.payloads()) == sorted(other.payloads()) == [b"from the north", b"from the south"]
                assert driver.node.counters.total("publications_in") == 1
                assert driver.node.counters.total("echoes") == 1
        finally:
            await broker.shutdown()

    asyncio.run(scenario())


def test_a_wrong_configuration_is_said_and_costs_the_broker_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        north, south = free_ports(2)
        broker = broker_with_gateway(written(tmp_path, north, south), north, name="nowhere")
        await broker.start()
        async with somebody(north, "stocks/#"):
            pass
        await broker.shutdown()

    asyncio.run(scenario())
    assert "no gateway runs beside this broker" in caplog.text
    assert "there is no broker 'nowhere'" in caplog.text
