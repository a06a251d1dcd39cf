"""Every record once in the sink, although driver and collector are killed at random moments and old records deleted.

Gateways emit all the time, with little room for what the collector does not take, so that they drop some and say so.
They wait when the query is too far behind: what the collector deletes has then been read, whatever the machine's speed.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from integration_tests.spark_parts import CollectorProcess, collector_process, java_or_skip
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import ServiceRecord
from mqloom.core.telemetry_outbox import TelemetryOutbox, decode_kept
from mqloom.core.telemetry_sockets import connect

GATEWAYS = 3
HELD_BYTES = 20_000
"""About 800 records: what comes in less than a second."""

BURST, BURST_EVERY = 1_200, 100
"""Now and then more at once than there is room for: so some are dropped, however fast the collector is."""

BEHIND_MAX = 6_000
KEEP_BYTES, SEGMENT_BYTES = 400_000, 40_000
"""Twice what so many records take, and more."""

DRIVER = """
import json, os, sys
from pathlib import Path
from mqloom.spark_analytics.sessions import SMALL, start

endpoint, folder = sys.argv[1], Path(sys.argv[2])
spark = start("local[2]", SMALL)
source = spark.readStream.format("mqloom").option("endpoint", endpoint)
source = source.option("max_records", 3_000).option("partition_records", 1_000)

def put(frame, number):
    rows = frame.select("position", "gateway", "epoch", "number", "kind", "dropped.first", "dropped.amount").collect()
    new = folder / "sink" / f".{number}.{os.getpid()}"
    new.write_text(json.dumps(rows))
    os.replace(new, folder / "sink" / f"{number}.json")

writer = source.load().writeStream.foreachBatch(put).option("checkpointLocation", str(folder / "checkpoint"))
writer.trigger(processingTime="100 milliseconds").start().awaitTermination()
"""


class Emitters(threading.Thread):
    """Gateways that emit without end, and their way to the collector."""

    def __init__(self, address: str, sink: Path) -> None:
        super().__init__()
        self.boxes = [TelemetryOutbox(GatewayId(f"g{n}"), n + 1, time.time, HELD_BYTES) for n in range(GATEWAYS)]
        self._address = address
        self._sink = sink
        self.stopping = threading.Event()

    def run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        sockets = [connect(context, self._address, None) for _ in self.boxes]
        for turn in itertools.count():
            if self._is_done():
                break
            now = time.monotonic()
            emits = not self.stopping.is_set() and not self._is_far_ahead()
            for box, socket in zip(self.boxes, sockets, strict=True):
                if emits:
                    for number in range(40 if turn % BURST_EVERY else BURST):
                        box.offer(ServiceRecord(time.time(), number, 0.001, 1), now)
                for data in box.due(now, all_of_it=True):
                    socket.send(data)
                while socket.poll(0):
                    box.confirmed(decode_kept(socket.recv()))
            time.sleep(0.04)
        context.destroy(linger=0)

    def _is_done(self) -> bool:
        return self.stopping.is_set() and all(box.kept == box.emitted for box in self.boxes)

    def _is_far_ahead(self) -> bool:
        emitted = sum(box.emitted - box.dropped for box in self.boxes)
        return emitted > read_upto(self._sink) + BEHIND_MAX


def read_upto(sink: Path) -> int:
    """Return up to which position the last batch has read."""
    found = max(sink.glob("[0-9]*.json"), key=lambda path: int(path.stem), default=None)
    return max((row[0] for row in json.loads(found.read_text())), default=-1) + 1 if found else 0


@contextmanager
def driver(endpoint: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the query in a process of its own, in a group that is killed as one: Python, Java, and workers."""
    with (folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, endpoint, str(folder)], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def batches(folder: Path) -> int:
    return len(list((folder / "sink").glob("[0-9]*.json")))


def run_and_kill(collector: CollectorProcess, folder: Path, kills: int, randomness: random.Random) -> None:
    for _ in range(kills):
        before = batches(folder)
        with driver(collector.serving, folder) as process:
            collector_dies_at = time.monotonic() + randomness.uniform(0.0, 6.0)
            driver_dies_after_batches = before + randomness.randint(0, 3)  # 0: perhaps while it starts
            until = time.monotonic() + 240
            while batches(folder) < driver_dies_after_batches or collector_dies_at:
                assert process.poll() is None, (folder / "driver.log").read_text()[-5_000:]
                assert time.monotonic() < until, "no batch has come for minutes"
                if collector_dies_at and time.monotonic() >= collector_dies_at:
                    collector_dies_at = 0.0
                    collector.kill()
                    time.sleep(randomness.uniform(0.0, 2.0))
                    collector.start()
                time.sleep(0.01)
            time.sleep(randomness.uniform(0.0, 0.5 if batches(folder) > before else 5.0))


def bounds(folder: Path) -> tuple[int, int]:
    marker = json.loads((folder / "spool" / "end").read_text())
    return marker["begin"], marker["end"]


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", folder: Path) -> None:
    until = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, (folder / "driver.log").read_text()[-5_000:]
        assert time.monotonic() < until, f"nothing has come for minutes; the spool has {bounds(folder)}"
        time.sleep(0.05)


def check(folder: Path, emitters: Emitters) -> None:
    rows: list[list[Any]] = []
    for path in (folder / "sink").glob("[0-9]*.json"):
        rows += json.loads(path.read_text())
    assert {row[4] for row in rows} <= {"service", "dropped"}
    numbers = Counter((row[1], row[2], row[3]) for row in rows)
    assert [each for each, count in numbers.items() if count > 1] == []
    dropped = {
        (row[1], row[2], number) for row in rows if row[4] == "dropped" for number in range(row[5], row[5] + row[6])
    }
    emitted = {
        (f"g{index}", index + 1, number)
        for index, box in enumerate(emitters.boxes)
        for number in range(1, box.emitted + 1)
    }
    assert len(dropped) == sum(box.dropped for box in emitters.boxes)
    assert set(numbers) == emitted - dropped
    positions = sorted(row[0] for row in rows)
    assert positions == list(range(len(positions)))


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.full)])
def test_every_record_is_once_in_the_sink_whoever_is_killed(tmp_path: Path, kills: int) -> None:
    java_or_skip()
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to be run again, should it fail
    (tmp_path / "sink").mkdir()
    with collector_process(tmp_path / "spool", SEGMENT_BYTES, KEEP_BYTES) as collector:
        emitters = Emitters(collector.listening, tmp_path / "sink")
        emitters.start()
        try:
            run_and_kill(collector, tmp_path, kills, random.Random(seed))
            with driver(collector.serving, tmp_path) as process:
                wait_until(lambda: bounds(tmp_path)[0] > 0, process, tmp_path)
                emitters.stopping.set()
                emitters.join(60)
                wait_until(lambda: read_upto(tmp_path / "sink") == bounds(tmp_path)[1], process, tmp_path)
        finally:
            emitters.stopping.set()
            emitters.join(60)
        assert not emitters.is_alive()
    check(tmp_path, emitters)
    assert sum(box.dropped for box in emitters.boxes) > 0, "nothing was dropped"
