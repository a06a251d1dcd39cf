"""Whole gateways on embedded brokers: what the driver makes of the world, and of the node's orders."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.errors import BrokerError, ConfigurationError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import decode_status
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENT, MQTT_CLIENTS, make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.links import LinkState
from mqloom.lab.ports import free_ports
from mqloom.plugins.amqtt_adapter import AmqttAdapter

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
with_each_client = pytest.mark.parametrize("client", MQTT_CLIENTS)
A, B = GatewayId("A"), GatewayId("B")


def write_federation(folder: Path, more: str = "", client: str = MQTT_CLIENT) -> tuple[Path, dict[GatewayId, int]]:
    ports = dict(zip((A, B), free_ports(2), strict=True))
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        mqtt_client = "{client}"
        telemetry_s = 0.05
        [[brokers]]
        id = "A"
        port = {ports[A]}
        adapter = "amqtt"
        [[brokers]]
        id = "B"
        port = {ports[B]}
        adapter = "amqtt"
        {more}
        [[links]]
        between = ["A", "B"]
        """
    )
    return path, ports


@asynccontextmanager
async def running(path: Path, gateway: GatewayId) -> AsyncIterator[GatewayDriver]:
    driver = build_driver(load_federation(path), gateway)
    task = asyncio.create_task(driver.run())
    await wait_until_ready(driver, 10)
    try:
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
            client_id=f"person-{port}-{len(topics)}",
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
    async with asyncio.timeout(10):
        await someone.up.wait()
    try:
        yield someone
    finally:
        await someone.connection.close()


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def is_up(*drivers: GatewayDriver) -> bool:
    return all(state is LinkState.UP for driver in drivers for state in driver.node.link_states().values())


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


@with_each_client
def test_a_publication_goes_from_broker_to_broker_to_whoever_asked(tmp_path: Path, client: str) -> None:
    path, ports = write_federation(tmp_path, client=client)
    record = {"subscriptions": {"hot": {"topics": "stocks/#", "where": "volume > 10"}}}

    async def scenario() -> None:
        out, control = layout.out(B, ClientId("me")), layout.control(B, ClientId("me"))
        async with running(path, A) as one, running(path, B) as other:
            await until(lambda: is_up(one, other))
            async with person(ports[B], f"{out}/#", control) as subscriber, person(ports[A]) as publisher:
                topic = layout.record(B, ClientId("me"))
                subscriber.connection.publish(topic, json.dumps(record).encode(), 1, retain=True)
                await until(lambda: bool(subscriber.on(control)))
                assert json.loads(subscriber.on(control)[0]) == {"answer": "established", "name": "hot"}
                for volume in (10, 11, 12):
                    publisher.connection.publish("stocks/a", json.dumps({"volume": volume}).encode(), 1)
                await until(lambda: len(subscriber.on(f"{out}/stocks/a")) >= 2)
                assert subscriber.on(f"{out}/stocks/a") == [b'{"volume": 11}', b'{"volume": 12}']

    run(scenario)


def test_the_status_says_alive_and_whoever_else_writes_it_is_corrected(tmp_path: Path) -> None:
    path, ports = write_federation(tmp_path)
    gone = b'{"alive":false,"gateway":"B","version":"1","epoch":%d}'

    async def scenario() -> None:
        topic = layout.status(B)
        async with running(path, B) as other, running(path, A) as driver, person(ports[B], topic) as watcher:
            await until(lambda: bool(watcher.on(topic)))
            status = decode_status(watcher.on(topic)[-1])
            assert (status.alive, status.gateway) == (True, B)
            await until(lambda: is_up(driver, other) and driver._peers._epochs[B] == status.epoch)
            # Junk, and the last will of an earlier run: nobody minds.
            watcher.connection.publish(topic, b"not a status", 1)
            watcher.connection.publish(topic, gone % 1, 1)
            await until(lambda: driver.node.counters.reasons("frames_refused") == {"status": 1})
            assert driver._peers._alive[B]
            # A last will of this run is believed, until the gateway itself says better.
            watcher.connection.publish(topic, gone % status.epoch, 1)
            await until(lambda: gone % status.epoch in watcher.on(topic))
            await until(lambda: decode_status(watcher.on(topic)[-1]).alive and driver._peers._alive[B])
            assert other.node.counters.total("frames_refused") >= 1
            await until(lambda: is_up(driver, other))

    run(scenario)


def test_a_mistake_of_our_own_ends_the_gateway_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ports = write_federation(tmp_path)

    async def scenario() -> None:
        driver = build_driver(load_federation(path), A)
        task = asyncio.create_task(driver.run())
        await wait_until_ready(driver, 10)
        monkeypatch.setattr(driver.node, "handle", broken)
        async with person(ports[A]) as publisher:
            publisher.connection.publish("stocks/a", b"{}", 1)
            with pytest.raises(AssertionError, match="a bug of ours"):
                await asyncio.wait_for(task, 10)

    def broken(event: object, now: float) -> list[object]:
        raise AssertionError("a bug of ours")

    run(scenario)


def test_topics_of_nobody_and_malformed_ids_are_passed_over(tmp_path: Path) -> None:
    path, ports = write_federation(tmp_path)

    async def scenario() -> None:
        async with running(path, A) as driver, person(ports[A]) as stranger:
            for topic in ("mqloom/v1/A/link/%zz", "mqloom/v1/A/sub/%zz", "mqloom/v1/A/link/X/urgent"):
                stranger.connection.publish(topic, b"x", 1)
            driver._received([Received("mqloom/v1/A/status", b"", 0, retain=True)])
            driver._received([Received("other/topic", b"", 0, retain=False)])
            await until(lambda: driver.node.counters.total("frames_refused") >= 3)
            assert driver.node.counters.reasons("frames_refused") == {"malformed": 2, "stranger": 1}
            assert driver.node.counters.total("publications_in") == 0

    run(scenario)


def test_telemetry_goes_to_the_sinks_while_it_runs_and_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "counters.jsonl"
    path, _ = write_federation(tmp_path, f'[plugins.settings.json_lines]\nfile = "{file}"')

    async def scenario() -> None:
        async with running(path, A):
            await until(lambda: file.exists() and len(file.read_text().splitlines()) >= 2)

    run(scenario)
    assert json.loads(file.read_text().splitlines()[-1])["gateway"] == "A"


def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path) -> None:
    path, ports = write_federation(tmp_path)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", ports[A])):
            driver = build_driver(load_federation(path), A)
            with pytest.raises(BrokerError, match=f"127.0.0.1:{ports[A]}.*is the port taken"):
                await driver.run()

    run(scenario)


def test_a_gateway_whose_broker_never_answers_is_not_ready(tmp_path: Path) -> None:
    path, _ = write_federation(tmp_path)
    path.write_text(path.read_text().replace('adapter = "amqtt"', 'adapter = "mqtt"'))

    async def scenario() -> None:
        driver = build_driver(load_federation(path), A)
        task = asyncio.create_task(driver.run())
        with pytest.raises(BrokerError, match=r"gateway A: not reached in 0\.2 s"):
            await wait_until_ready(driver, 0.2)
        driver.stop()
        await asyncio.wait_for(task, 10)

    run(scenario)


def test_a_password_that_is_not_in_the_environment_is_a_clear_error(tmp_path: Path) -> None:
    path, _ = write_federation(tmp_path)
    text = path.read_text().replace('id = "A"', 'id = "A"\nusername = "us"\npassword_env = "MQLOOM_TEST_NOT_SET"')
    path.write_text(text)

    async def scenario() -> None:
        with pytest.raises(ConfigurationError, match="MQLOOM_TEST_NOT_SET is not set"):
            build_driver(load_federation(path), A)

    run(scenario)


def test_a_clock_that_has_gone_back_ends_the_gateway_with_what_to_do(tmp_path: Path) -> None:
    path, ports = write_federation(tmp_path)
    path.write_text(path.read_text().replace('adapter = "amqtt"', 'adapter = "mqtt"'))
    later = b'{"alive":false,"gateway":"A","version":"1","epoch":99999999999999}'

    async def scenario() -> None:
        broker = AmqttAdapter(BrokerAddress("127.0.0.1", ports[A]))
        await broker.start()
        async with person(ports[A]) as someone:
            someone.connection.publish(layout.status(A), later, 1, retain=True)
            await until(lambda: not someone.connection._pending)  # type: ignore[attr-defined]
            driver = build_driver(load_federation(path), A)
            with pytest.raises(BrokerError, match="the clock has gone back"):
                await asyncio.wait_for(driver.run(), 10)
        await broker.stop()

    run(scenario)


def test_a_username_and_password_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLOOM_TEST_PASSWORD", "secret")
    path, _ = write_federation(tmp_path)
    text = path.read_text().replace('id = "A"', 'id = "A"\nusername = "us"\npassword_env = "MQLOOM_TEST_PASSWORD"')
    path.write_text(text)

    async def scenario() -> None:
        async with running(path, A) as driver:
            assert driver._address == BrokerAddress("127.0.0.1", driver._address.port, "us", "secret")

    run(scenario)


@with_each_client
def test_what_was_published_while_a_gateway_was_away_is_delivered_when_it_is_back(tmp_path: Path, client: str) -> None:
    path, ports = write_federation(tmp_path, client=client)
    path.write_text(path.read_text().replace('adapter = "amqtt"', 'adapter = "mqtt"'))
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}}
    out, control = layout.out(A, ClientId("me")), layout.control(A, ClientId("me"))

    async def scenario() -> None:
        brokers = [AmqttAdapter(BrokerAddress("127.0.0.1", port)) for port in ports.values()]
        for broker in brokers:
            await broker.start()
        async with person(ports[A], f"{out}/#", control) as someone:
            someone.connection.publish(layout.record(A, ClientId("me")), json.dumps(record).encode(), 1, retain=True)
            async with running(path, A) as driver, running(path, B) as other:
                # As a broker with a session does it: first what it kept, then the records, then neighbours.
                assert driver._intake is not None
                assert driver._intake.is_held
                connection = driver._intake.connection
                connection._backlog.add([Received("stocks/kept", b"{}", 1, retain=False, token=(1, 1))])  # type: ignore[attr-defined]
                await until(lambda: is_up(driver, other))
                await until(lambda: someone.on(f"{out}/stocks/kept") == [b"{}"])
                await until(lambda: not driver.node.holdings().intake)
        for broker in brokers:
            await broker.stop()

    run(scenario)


@with_each_client
def test_a_burst_that_fans_out_loses_nothing(tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.LINK_QUEUE_MAX", 100)
    path, ports = write_federation(tmp_path, client=client)
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}}
    names = [ClientId(f"c{number}") for number in range(5)]

    async def scenario() -> None:
        topics = [f"{layout.out(A, name)}/#" for name in names]
        async with running(path, A) as driver, person(ports[A], *topics) as everybody, person(ports[A]) as publisher:
            for name in names:
                everybody.connection.publish(layout.record(A, name), json.dumps(record).encode(), 1, retain=True)
            await until(lambda: driver.node.counters.total("subscriptions_established") == len(names), 20)
            for number in range(300):
                while publisher.connection.is_crowded:
                    await asyncio.sleep(0.01)
                assert publisher.connection.publish("stocks/a", str(number).encode(), 1)
            topics = [f"{layout.out(A, name)}/stocks/a" for name in names]
            # Not simply so many messages: the embedded broker also hands out retained ones that nobody asked for.
            await until(lambda: all(len(everybody.on(topic)) >= 300 for topic in topics), 30)
            for topic in topics:
                assert everybody.on(topic) == [str(number).encode() for number in range(300)]
            assert driver.node.counters.total("local_publishes_dropped") == 0

    run(scenario)


def test_whom_an_admission_plugin_refuses_is_told(tmp_path: Path) -> None:
    path, ports = write_federation(tmp_path, '[plugins.settings.allow_list]\nclients = ["nobody"]')
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}}
    control = layout.control(A, ClientId("me"))

    async def scenario() -> None:
        async with running(path, A), person(ports[A], control) as someone:
            someone.connection.publish(layout.record(A, ClientId("me")), json.dumps(record).encode(), 1, retain=True)
            await until(lambda: bool(someone.on(control)))
            assert json.loads(someone.on(control)[0])["answer"] == "refused"

    run(scenario)
