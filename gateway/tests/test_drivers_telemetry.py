"""A gateway on an embedded broker, and the collector's end of its telemetry, which is here, gone, or somebody else."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import zmq

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    KINDS,
    BrokerRecord,
    ConfigurationRecord,
    GroupRecord,
    LinkRecord,
    LoadRecord,
    Record,
    decode_batch,
    decode_records,
)
from mqloom.core.telemetry_outbox import Kept, encode_kept
from mqloom.core.telemetry_sockets import listen
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers import telemetry
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.gateway.drivers.telemetry import TICK_S
from mqloom.lab.ports import free_port
from mqloom.plugins.amqtt_adapter import AmqttAdapter

A = GatewayId("A")
Kind = TypeVar("Kind", bound=Record)


def text(broker: int, collector: int, more: str = "", of_broker: str = "") -> str:
    return f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        load_window_s = 0.2
        [[brokers]]
        id = "A"
        port = {broker}
        adapter = "amqtt"
        {of_broker}
        [[brokers]]
        id = "B"
        port = 1
        adapter = "amqtt"
        [[links]]
        between = ["A", "B"]
        [[subscriptions]]
        broker = "A"
        topics = "stocks/#"
        into = "hot"
        [telemetry]
        endpoint = "tcp://127.0.0.1:{collector}"
        window_s = 0.2
        {more}
        """


class Catcher:
    """The collector's socket, without a collector."""

    def __init__(self, port: int) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = listen(self.context, f"tcp://127.0.0.1:{port}", None)
        self.records: dict[int, Record] = {}
        self.batches = 0

    def catch(self) -> int:
        """Take what has come, and answer; return how many batches there were so far."""
        while self.socket.poll(0):
            peer, data = self.socket.recv_multipart()
            batch = decode_batch(data)
            assert batch.header.gateway == A
            self.batches += 1
            self.records |= dict(decode_records(batch))
            upto = batch.header.first + batch.header.count - 1
            self.socket.send_multipart([peer, encode_kept(Kept(A, batch.header.epoch, upto))])
        return self.batches

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [record for record in self.records.values() if isinstance(record, kind)]

    def close(self) -> None:
        self.context.destroy(linger=0)


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


async def until(condition: Callable[[], bool], timeout_s: float = 15) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


def write(folder: Path, content: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(content)
    return path


def test_a_gateway_tells_its_load_its_links_and_its_groups(tmp_path: Path) -> None:
    collector, broker = free_port(), free_port()

    async def scenario() -> None:
        catcher = Catcher(collector)
        async with running(write(tmp_path, text(broker, collector))):

            def told() -> bool:
                catcher.catch()
                return bool(catcher.of(LoadRecord) and catcher.of(LinkRecord) and catcher.of(GroupRecord))

            await until(told)
        catcher.catch()
        assert sorted(catcher.records) == list(range(1, len(catcher.records) + 1))
        (first, *_) = catcher.of(ConfigurationRecord)
        assert (first.what, first.before) == ("brokers", "")
        (link, *_), (group, *_) = catcher.of(LinkRecord), catcher.of(GroupRecord)
        assert (link.peer, link.kind, link.is_up) == ("B", "primary", False)
        assert (group.topics, group.where, group.subscribers) == ("stocks/#", "", 1)
        assert all(0.15 < record.window_s < 5 for record in catcher.of(LinkRecord)[:-1])
        catcher.close()

    asyncio.run(scenario())


def test_without_a_collector_a_gateway_serves_its_broker_as_ever_and_tells_it_all_later(tmp_path: Path) -> None:
    collector, broker = free_port(), free_port()

    async def scenario() -> None:
        async with running(write(tmp_path, text(broker, collector))) as assembly:
            outbox = assembly.driver.telemetry.outbox
            await until(lambda: outbox.emitted > 20)
            assert (outbox.kept, outbox.dropped) == (0, 0)
            catcher = Catcher(collector)

            def told() -> bool:
                catcher.catch()
                return outbox.kept > 20

            await until(told)
            catcher.close()

    asyncio.run(scenario())


def test_an_adapter_that_fails_is_logged_now_and_then_and_the_rest_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector, broker = free_port(), free_port()

    def figures() -> dict[str, float]:
        calls.append(None)
        if len(calls) < 4:
            raise OSError("no such figure")
        return {"uptime": 7.0}

    calls: list[None] = []

    async def scenario() -> None:
        catcher = Catcher(collector)
        async with running(write(tmp_path, text(broker, collector))) as assembly:
            assembly.driver.telemetry.broker_figures = figures
            await until(lambda: catcher.catch() > 0 and bool(catcher.of(BrokerRecord)))
        catcher.close()

    asyncio.run(scenario())
    assert len([each for each in caplog.records if "no such figure" in each.getMessage()]) == 2


def test_a_configuration_that_was_read_again_ends_begins_and_moves_telemetry(tmp_path: Path) -> None:
    first, second, broker = free_port(), free_port(), free_port()

    async def scenario() -> None:
        one, other = Catcher(first), Catcher(second)
        path = write(tmp_path, text(broker, first))
        async with running(path) as assembly:
            await until(lambda: one.catch() > 1)
            write(tmp_path, text(broker, first, of_broker="telemetry = false"))
            news, left = assembly.reload(load_federation(path))
            assert (news, left) == (["brokers.telemetry of A"], [])
            emitted = assembly.driver.telemetry.outbox.emitted
            await asyncio.sleep(0.5)
            assert assembly.driver.telemetry.outbox.emitted == emitted
            write(tmp_path, text(broker, second))
            news, left = assembly.reload(load_federation(path))
            assert news == ["brokers.telemetry of A", "telemetry.endpoint"]
            await until(lambda: other.catch() > 1)
            changed = {record.what: (record.before, record.after) for record in other.of(ConfigurationRecord)}
            assert changed["telemetry.endpoint"] == (f'"tcp://127.0.0.1:{first}"', f'"tcp://127.0.0.1:{second}"')
        assert min(other.records) > max(one.records) - 100
        one.close()
        other.close()

    asyncio.run(scenario())


def test_the_configuration_is_told_again_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "SETTINGS_EVERY_S", 0.5)
    collector = free_port()

    async def scenario() -> None:
        catcher = Catcher(collector)

        def told() -> bool:
            catcher.catch()
            return len([each for each in catcher.of(ConfigurationRecord) if each.what == "version"]) > 2

        async with running(write(tmp_path, text(free_port(), collector))):
            await until(told)
        first, *again = [each for each in catcher.of(ConfigurationRecord) if each.what == "telemetry.window_s"]
        assert (first.before, first.after) == ("", "0.2")
        assert {(each.before, each.after) for each in again} == {("0.2", "0.2")}
        assert again[0].at - first.at >= 0.4
        catcher.close()

    asyncio.run(scenario())


def test_plugins_get_the_same_records_where_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "plugins.d").mkdir()
    (tmp_path / "plugins.d" / "keeping.py").write_text(
        "from mqloom.gateway.hookspecs import hookimpl\n"
        "KEPT = []\n"
        "@hookimpl\n"
        "def mqloom_telemetry(gateway, records):\n"
        "    KEPT.extend((gateway, record) for record in records)\n"
    )
    content = text(free_port(), free_port(), "plugins = true").replace("endpoint", "#endpoint")

    async def scenario() -> None:
        federation = load_federation(write(tmp_path, content))
        (kept,) = [plugin.module.KEPT for plugin in federation.manager.plugins if plugin.name == "keeping"]  # type: ignore[attr-defined]
        assembly = Assembly(federation, A)
        task = asyncio.create_task(assembly.driver.run())
        await until(lambda: {"load", "link", "group"} <= {kind_of(record) for _, record in kept})
        assert {gateway for gateway, _ in kept} == {A}
        assert assembly.driver.telemetry.outbox.emitted == 0
        assembly.driver.stop()
        await task

    asyncio.run(scenario())


def test_an_adapter_whose_figures_fail_ends_neither_meters_nor_telemetry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ValueError("no figure")

    monkeypatch.setattr(AmqttAdapter, "figures", fail, raising=False)
    collector, broker = free_port(), free_port()

    async def scenario() -> None:
        catcher = Catcher(collector)
        async with running(write(tmp_path, text(broker, collector))) as assembly:

            def told() -> bool:
                catcher.catch()
                return len(catcher.of(LoadRecord)) > 2 and len(catcher.of(LinkRecord)) > 2

            await until(told)
            assert assembly.driver.node.counters.value("plugin_failures", "adapter") > 2
        catcher.close()

    asyncio.run(scenario())


def test_an_address_that_cannot_be_used_costs_no_socket_with_every_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = text(free_port(), 1).replace("tcp://127.0.0.1:1", f"ipc:///tmp/{'x' * 200}")

    async def scenario() -> None:
        async with running(write(tmp_path, content)):
            await until(lambda: "File name too long" in caplog.text)
            await asyncio.sleep(5 * TICK_S)
        gc.collect()  # a socket that was left open warns, which is an error

    asyncio.run(scenario())


def kind_of(record: Record) -> str:
    return next(name for name, kind in KINDS.items() if type(record) is kind)
