"""A gateway whose collector is away for long, or has another key: publications notice nothing, and all is counted."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import DroppedRecord, Record, ServiceRecord, decode_batch, decode_records
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import Curve, collector_curve
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers import telemetry as driver_module
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.gateway.drivers.mqtt import ConnectionPlan, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.ports import free_port
from mqloom.spark_analytics.collecting import CollectPlan, CollectServer
from mqloom.spark_analytics.spool import SpoolReader

A = GatewayId("A")
HELD_BYTES_MAX = 1_048_576


def write(folder: Path, broker: int, collector: int, key: str = "") -> Path:
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        load_window_s = 0.1
        {key}
        [[brokers]]
        id = "A"
        port = {broker}
        adapter = "amqtt"
        [[subscriptions]]
        broker = "A"
        topics = "stocks/#"
        into = "hot"
        [telemetry]
        endpoint = "tcp://127.0.0.1:{collector}"
        window_s = 0.1
        held_bytes_max = {HELD_BYTES_MAX}
        """
    )
    return path


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Assembly]:
    assembly = Assembly(load_federation(path), A)
    task = asyncio.create_task(assembly.driver.run())
    await wait_until_ready(assembly.driver, 10)
    try:
        yield assembly
    finally:
        assembly.driver.stop()
        await task


@contextmanager
def collecting(spool: Path, port: int, curve: Curve | None = None) -> Iterator[CollectServer]:
    plan = CollectPlan(spool=spool, listen=f"tcp://127.0.0.1:{port}", serve="tcp://127.0.0.1:*", curve=curve)
    server = CollectServer(plan, lambda _: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        server.close()


async def until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


def spooled(spool: Path) -> dict[int, Record]:
    reader = SpoolReader(spool)
    found: dict[int, Record] = {}
    for frame in reader.frames(*reader.bounds()):
        for number, record in decode_records(decode_batch(frame.data)):
            assert number not in found
            found[number] = record
    return found


class Person:
    """Publishes, and gets what the gateway makes of it."""

    def __init__(self, port: int) -> None:
        self.came: list[int] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id="person",
            clean_session=True,
            subscriptions=[TopicSubscription("hot/#", 1)],
            on_messages=lambda messages: self.came.extend(json.loads(each.payload)["id"] for each in messages),
            on_up=self.up.set,
            on_down=lambda problem: None,
        )
        self.connection = make_connection(plan, logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"}))
        self.connection.open()

    def publish(self, number: int) -> None:
        self.connection.publish("stocks/YHOO", json.dumps({"id": number}).encode(), 1)


def test_without_a_collector_memory_is_bounded_drops_are_counted_and_publications_flow(tmp_path: Path) -> None:
    broker, collector, spool = free_port(), free_port(), tmp_path / "spool"

    async def scenario() -> tuple[int, int]:
        async with running(write(tmp_path, broker, collector)) as assembly:
            telemetry, person = assembly.driver.telemetry, Person(broker)
            await person.up.wait()
            for number in range(100):
                telemetry.offer([ServiceRecord(1.0, each, 0.1, 1) for each in range(1_000)])
                person.publish(number)
                assert telemetry.outbox.held_bytes <= HELD_BYTES_MAX + 100_000
                await asyncio.sleep(0.005)
            await until(lambda: person.came == list(range(100)))
            await person.connection.close()
            await until(lambda: assembly.driver.node.counters.total("telemetry_dropped") > 0)
            dropped = telemetry.outbox.dropped
            assert dropped > 10_000
            with collecting(spool, collector):
                kept = telemetry.outbox.kept
                await until(lambda: telemetry.outbox.kept > max(kept, 100_000))
                assembly.driver.stop()
                await until(lambda: not telemetry.outbox.held_bytes)
            return telemetry.outbox.emitted, telemetry.outbox.dropped

    emitted, dropped = asyncio.run(scenario())
    found = spooled(spool)
    gaps = [record for record in found.values() if isinstance(record, DroppedRecord)]
    missing = [number for gap in gaps for number in range(gap.first, gap.first + gap.amount)]
    assert len(missing) == dropped
    assert sorted([*found, *missing]) == list(range(1, emitted + 1))


def test_who_has_another_key_is_counted_and_tells_all_when_the_collector_has_its_own(tmp_path: Path) -> None:
    broker, collector, spool = free_port(), free_port(), tmp_path / "spool"
    for name in ("ours", "theirs"):
        assert main(["keys", "new", str(tmp_path / f"{name}.keys")]) == 0
    ours, theirs = (telemetry_secrets(tmp_path / f"{name}.keys")[0] for name in ("ours", "theirs"))

    async def scenario() -> None:
        async with running(write(tmp_path, broker, collector, 'key_file = "ours.keys"')) as assembly:
            outbox = assembly.driver.telemetry.outbox
            with collecting(spool, collector, collector_curve(theirs)) as server:
                await until(lambda: server.collector.counts["strangers"] > 1)
                assert (outbox.kept, server.collector.counts["records"]) == (0, 0)
            with collecting(spool, collector, collector_curve(ours)):
                await until(lambda: outbox.kept > 20)
            assert outbox.dropped == 0

    asyncio.run(scenario())
    found = spooled(spool)
    assert sorted(found) == list(range(1, len(found) + 1))


def test_while_the_key_is_rotated_a_gateway_finds_out_which_one_the_collector_goes_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "PATIENCE_S", 0.5)
    broker, collector, spool, keys = free_port(), free_port(), tmp_path / "spool", tmp_path / "federation.keys"
    assert main(["keys", "new", str(keys)]) == 0
    (old,) = telemetry_secrets(keys)

    async def scenario() -> None:
        path = write(tmp_path, broker, collector, 'key_file = "federation.keys"')
        async with running(path) as assembly:
            outbox = assembly.driver.telemetry.outbox
            with collecting(spool, collector, collector_curve(old)):
                await until(lambda: outbox.kept > 10)
                for step in range(3):
                    assert main(["keys", "rotate", "--telemetry", str(keys)]) == 0
                    if step == 0:
                        assembly.reload(load_federation(path))
                        before = outbox.kept
                        await until(lambda before=before: outbox.kept > before + 10)  # type: ignore[misc]
            new = telemetry_secrets(keys)[0]
            assert new != old
            with collecting(spool, collector, collector_curve(new)):  # the gateway knows both, and this one second
                before = outbox.kept
                await until(lambda: outbox.kept > before + 10)
                assembly.reload(load_federation(path))
                before = outbox.kept
                await until(lambda: outbox.kept > before + 10)
            assert outbox.dropped == 0

    asyncio.run(scenario())
    found = spooled(spool)
    assert sorted(found) == list(range(1, len(found) + 1))
