"""The adapter `mosquitto`, beside a broker whose log is written by hand, and beside one that starts again."""

import asyncio
import getpass
import logging
import socket
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.ids import GatewayId
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress, InterestAdapter
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port
from mqloom.plugins import mosquitto_adapter, mqtt_adapter, plain_clients
from mqloom.plugins.amqtt_adapter import AmqttAdapter
from mqloom.plugins.mosquitto_log import SUBSCRIBE

US = GatewayId("US")
UPTIME_S = 8
"""Longer than it takes to be back at a broker that starts again, on a busy machine, too."""
LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": US})


class Bench:
    """The adapter beside an embedded broker, which keeps nothing when it ends; its log is written by hand."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = BrokerAddress("127.0.0.1", probe.getsockname()[1])
        self.broker = AmqttAdapter(self.address)
        self.adapter = mosquitto_adapter.MosquittoAdapter(self.address)
        self.told: list[tuple[str, ...]] = []
        self.passed_over = 0
        self.kept: list[bytes] = []

    def _tell(self, filters: Collection[str], passed_over: int = 0, /) -> None:
        self.told.append(tuple(filters))
        self.passed_over = passed_over

    async def start(self) -> None:
        await self.broker.start()
        self.adapter.watch(US, self._tell)
        await self.adapter.start()
        self.watcher = make_connection(
            ConnectionPlan(
                address=self.address,
                client_id="mqloom-watcher",
                clean_session=True,
                subscriptions=[TopicSubscription(layout.interest(US), 1)],
                on_messages=lambda batch: self.kept.extend(each.payload for each in batch),
                on_up=lambda: None,
                on_down=lambda problem: None,
            ),
            LOG,
        )
        self.watcher.open()
        await self.until_kept(b"clients")

    async def stop(self) -> None:
        await self.watcher.close()
        await self.adapter.stop()
        await self.broker.stop()

    async def lose_everything(self) -> None:
        """The broker ends, and another one starts in its place."""
        await self.broker.stop()
        self.kept.clear()
        self.broker = AmqttAdapter(self.address)
        await self.broker.start()

    def log(self, *lines: str) -> None:
        """The broker logs subscriptions, which come in one batch."""
        self.adapter._received([Received(SUBSCRIBE, f"1: {line}".encode(), 0, False, (1, 0)) for line in lines])

    async def until_kept(self, what: bytes) -> None:
        while not self.kept or what not in self.kept[-1]:
            await asyncio.sleep(0.01)


def at_the_bench(steps: Callable[[Bench], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        bench = Bench()
        await bench.start()
        try:
            await asyncio.wait_for(steps(bench), 20)
        finally:
            await bench.stop()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mosquitto_adapter, "KEEP_EVERY_S", 0.1)


def test_a_broker_that_lost_what_was_kept_gets_it_again() -> None:
    async def steps(bench: Bench) -> None:
        bench.log("ann 1 a/#")
        await bench.until_kept(b"a/#")
        await bench.lose_everything()
        await bench.until_kept(b"a/#")

    at_the_bench(steps)


def test_what_is_too_much_to_be_kept_does_not_delete_what_was_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_clients, "KEPT_BYTES_MAX", 200)

    async def steps(bench: Bench) -> None:
        bench.log("ann 1 a/#")
        await bench.until_kept(b"a/#")
        bench.log("bob 1 " + "b" * 200)
        while "is not written" not in caplog.text:
            await asyncio.sleep(0.01)
        assert b"" not in bench.kept
        await bench.lose_everything()  # then the last that was not too much is written again
        await bench.until_kept(b"a/#")
        assert bench.told[-1] == ("a/#", "b" * 200)

    at_the_bench(steps)
    assert caplog.text.count("is not written to mqloom/v1/US/interest: ") == 1


def test_a_flood_of_subscriptions_is_told_at_once_and_then_all_together() -> None:
    async def steps(bench: Bench) -> None:
        for number in range(100):
            bench.log(f"ann 1 a/{number:02}")
        await bench.until_kept(b"a/99")
        assert [len(filters) for filters in bench.told] == [1, 100]

    at_the_bench(steps)


def test_a_client_that_wants_too_much_is_named_in_the_log_and_not_each_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_clients, "PLAIN_FILTERS_PER_CLIENT_MAX", 1)

    async def steps(bench: Bench) -> None:
        bench.log(*(f"ann 1 a/{number}" for number in range(10)))
        assert bench.told == [("a/0",)]
        bench.log("ann 1 b", "bob 1 c")
        await bench.until_kept(b'"c"')
        assert bench.told[-1] == ("a/0", "c")
        assert bench.passed_over == 10

    at_the_bench(steps)
    assert caplog.text.count("subscriptions of plain clients were passed over") == 1
    assert "9 subscriptions of plain clients were passed over, the last one of 'ann'" in caplog.text


def test_it_tells_what_clients_want_and_the_plain_one_does_not() -> None:
    async def look() -> None:
        address = BrokerAddress("127.0.0.1", 1)
        assert isinstance(mosquitto_adapter.mqloom_adapter().build(address), InterestAdapter)
        assert not isinstance(mqtt_adapter.mqloom_adapter().build(address), InterestAdapter)

    asyncio.run(look())


def test_when_nobody_watches_it_connects_to_nothing() -> None:
    async def look() -> None:
        adapter = mosquitto_adapter.MosquittoAdapter(BrokerAddress("127.0.0.1", 1))
        await adapter.start()
        await adapter.stop()

    asyncio.run(look())


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
def test_who_was_there_before_the_broker_started_again_wants_nothing_any_more_but_who_comes_back_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MAX", 0.5)
    conf, port = tmp_path / "mosquitto.conf", free_port()
    conf.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nuser {getpass.getuser()}\n"
        f"persistence true\npersistence_location {tmp_path}/\n"
        "sys_interval 1\nlog_dest topic\nlog_type subscribe\nlog_type unsubscribe\nlog_type notice\n"
    )
    address = BrokerAddress("127.0.0.1", port)
    told: list[tuple[str, ...]] = []

    def plain(name: str, topic: str) -> Connection:
        plan = ConnectionPlan(
            address=address,
            client_id=name,
            clean_session=True,
            subscriptions=[TopicSubscription(topic, 1)],
            on_messages=lambda batch: None,
            on_up=lambda: None,
            on_down=lambda problem: None,
        )
        connection = make_connection(plan, LOG)
        connection.open()
        return connection

    async def until(wanted: tuple[str, ...]) -> None:
        async with asyncio.timeout(30):
            while not told or told[-1] != wanted:
                await asyncio.sleep(0.02)

    async def steps() -> None:
        adapter = mosquitto_adapter.MosquittoAdapter(address)
        adapter.watch(US, lambda filters, passed_over=0, /: told.append(tuple(filters)))
        with mosquitto_process(conf, port):
            await adapter.start()
            staying, going = plain("staying", "a"), plain("going", "b")
            await until(("a", "b"))
            async with asyncio.timeout(20):
                while adapter._clients._uptime_s < UPTIME_S:
                    await asyncio.sleep(0.02)
        await going.close()
        with mosquitto_process(conf, port):
            await until(("a",))
            await staying.close()
            await until(())
            await adapter.stop()

    asyncio.run(steps())
