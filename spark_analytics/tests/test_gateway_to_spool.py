"""A real gateway, a real collector: what the one tells is in the spool of the other, whatever happens to either."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import Record, decode_batch, decode_records
from mqloom.gateway.assembly import Assembly
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.lab.ports import free_ports
from mqloom.spark_analytics.segments import SpoolError
from mqloom.spark_analytics.spool import SpoolReader

A = GatewayId("A")


def write(folder: Path, broker: int, collector: int) -> Path:
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        load_window_s = 0.1
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
        """
    )
    return path


def collect(spool: Path, listen: int, serve: int, *more: str) -> subprocess.Popen[str]:
    words = ["collect", "--spool", str(spool), "--listen", f"tcp://127.0.0.1:{listen}"]
    words += ["--serve", f"tcp://127.0.0.1:{serve}", *more]
    program = "import sys; from mqloom.core.command import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen([sys.executable, "-c", program, *words], stderr=subprocess.PIPE, text=True)


def spooled(spool: Path) -> list[tuple[int, Record]]:
    reader = SpoolReader(spool)
    found: list[tuple[int, Record]] = []
    for frame in reader.frames(*reader.bounds()):
        batch = decode_batch(frame.data)
        assert batch.header.gateway == A
        found += decode_records(batch)
    return found


def end_of(spool: Path) -> int:
    try:
        return SpoolReader(spool).bounds()[1]
    except SpoolError:
        return 0


async def until(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kills", [0, 3])
def test_every_record_is_in_the_spool_once_and_in_order_though_the_collector_is_killed(
    tmp_path: Path, kills: int
) -> None:
    broker, listen, serve = free_ports(3)
    spool = tmp_path / "spool"

    async def scenario() -> int:
        assembly = Assembly(load_federation(write(tmp_path, broker, listen)), A)
        task = asyncio.create_task(assembly.driver.run())
        await wait_until_ready(assembly.driver, 10)
        collector = collect(spool, listen, serve)
        for _ in range(kills):
            before = end_of(spool)
            await until(lambda before=before: end_of(spool) > before + 5)  # type: ignore[misc]
            os.kill(collector.pid, signal.SIGKILL)
            collector.communicate()
            collector = collect(spool, listen, serve)
        before = end_of(spool)
        await until(lambda: end_of(spool) > before + 5)
        assembly.driver.stop()
        await task
        emitted = assembly.driver.telemetry.outbox.emitted
        await until(lambda: end_of(spool) >= emitted)
        collector.terminate()
        told = collector.communicate()[1]
        assert collector.returncode == 0, told
        assert f"gateways send to tcp://127.0.0.1:{listen}" in told
        assert "ended; " in told
        assert assembly.driver.telemetry.outbox.dropped == 0
        return emitted

    emitted = asyncio.run(scenario())
    records = spooled(spool)
    assert [number for number, _ in records] == list(range(1, emitted + 1))
    kinds = Counter(type(record).__name__ for _, record in records)
    assert kinds["LoadRecord"] > 3
    assert kinds["GroupRecord"] > 3
