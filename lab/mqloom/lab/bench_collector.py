"""How fast the collector takes telemetry in: many gateways send as fast as it answers, until its disk has all of it.

What is sent is made before: windows of records as gateways emit them, in the batches of a gateway's outbox. Then one
process is all gateways, each with a connection and an outbox of its own, so that what is measured is the collector:
`mqloom collect`, a process as in production, whose every answer comes after its disk has what is answered.
"""

import contextlib
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import zmq

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import GroupRecord, LinkRecord, LoadRecord, Record, ServiceRecord
from mqloom.core.telemetry_outbox import IN_FLIGHT_MAX, TelemetryOutbox, decode_kept
from mqloom.core.telemetry_sockets import connect
from mqloom.lab.bench_brokers import start_command
from mqloom.lab.bench_processes import ANSWER_S_MAX, START_S_MAX, BenchError, Worker, wait_for_port
from mqloom.lab.ports import free_ports
from mqloom.spark_analytics.spool import SpoolReader

GROUPS: Final = 100
LINKS: Final = 4
SEND_S_MAX: Final = 600.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collector has done."""

    records: int
    gateways: int
    took_s: float
    records_per_s: float
    spool_bytes: int
    cpu_s: float


def window(gateway: int, at: float, randomness: random.Random) -> list[Record]:
    """Return what a gateway with some links and a hundred groups of subscribers tells in one window."""
    figures = [randomness.random() for _ in range(7)]
    input_ratio, output_ratio, cpu_ratio, memory_ratio, rate, output, service = figures
    records: list[Record] = [
        LoadRecord(
            at=at,
            window_s=10.0,
            input_ratio=input_ratio,
            delay_s=1e-4,
            output_ratio=output_ratio,
            cpu_ratio=cpu_ratio,
            memory_ratio=memory_ratio,
            input_rate=1e4 * rate,
            output_bytes_s=1e6 * output,
            output_bytes_s_max=1.25e8,
            subscriptions=5_000,
            clients=500,
            deliveries_s=5e4 * output,
        ),
        ServiceRecord(at, 5_000, 1e-4 * service, round(1e5 * rate), round(5e5 * output)),
    ]
    for link in range(LINKS):
        peer = GatewayId(f"gateway-{gateway + link + 1}")
        sent = randomness.randrange(100_000)
        records.append(
            LinkRecord(at, 10.0, peer, "primary", True, sent, sent // 3, 200 * sent, 0.0, 1, sent, sent // 5)
        )
    for group in range(GROUPS):
        count = randomness.randrange(1_000)
        where = f"symbol = 'S{group:03}' AND volume > {1_000 * group}"
        records.append(GroupRecord(at, 10.0, "stocks/#", where, group + 1, count, 200 * count))
    return records


def send_for(control: Connection, address: str, gateways: int, records: int) -> None:
    """Be the process: make what is to be sent, say so, and when told send it; say how long that took."""
    boxes = [_filled(number, math.ceil(records / gateways)) for number in range(gateways)]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = [connect(context, address, None, queue=2 * IN_FLIGHT_MAX) for _ in boxes]
    control.send(sum(box.emitted for box in boxes))
    control.recv()
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    begun = time.monotonic()
    while any(box.kept < box.emitted for box in boxes):
        now = time.monotonic()
        if now > begun + SEND_S_MAX:
            raise TimeoutError(f"the collector has not taken everything after {SEND_S_MAX:g} s")
        for box, socket in zip(boxes, sockets, strict=True):
            _exchange(box, socket, now)
        poller.poll(5)
    control.send(time.monotonic() - begun)
    context.destroy(linger=0)


def _filled(number: int, records: int) -> TelemetryOutbox:
    randomness = random.Random(number)  # noqa: S311 - a workload, not a secret
    box = TelemetryOutbox(GatewayId(f"gateway-{number}"), 1, time.time, held_max=1 << 40)
    at = 1.7e9
    while box.emitted < records:
        at += 10.0
        for record in window(number, at, randomness)[: records - box.emitted]:
            box.offer(record, 0.0)
    return box


def _exchange(box: TelemetryOutbox, socket: "zmq.Socket[bytes]", now: float) -> None:
    with contextlib.suppress(zmq.Again):
        while True:
            box.confirmed(decode_kept(socket.recv(zmq.NOBLOCK)))
    due = box.due(now, all_of_it=True)
    for place, batch in enumerate(due):
        try:
            socket.send(batch, zmq.NOBLOCK)
        except zmq.Again:
            box.not_taken(due[place:])
            return


def measure_collector(records: int, gateways: int, folder: Path, tell: Tell) -> Collected:
    """Start a collector, have it take so many records of so many gateways, and look whether all are there."""
    spool = folder / "spool"
    listen, serve = free_ports(2)
    addresses = ["--listen", f"tcp://127.0.0.1:{listen}", "--serve", f"tcp://127.0.0.1:{serve}"]
    with contextlib.ExitStack() as stack:
        tell("collector: starting")
        collector = start_command("collector", ["collect", "--spool", str(spool), *addresses], folder, stack)
        wait_for_port(collector, listen)
        sender = Worker("gateways", send_for, f"tcp://127.0.0.1:{listen}", gateways, records)
        stack.callback(sender.end)
        emitted: int = sender.answer(ANSWER_S_MAX + records / 20_000)
        tell(f"collector: {emitted:,} records of {gateways} gateways")
        before = collector.cpu_s()
        sender.ask("go")
        took_s: float = sender.answer(SEND_S_MAX + START_S_MAX)
        cpu_s = collector.cpu_s() - before
        end = SpoolReader(spool).bounds()[1]
        if end != emitted:
            raise BenchError(f"the collector has answered {emitted:,} records, and its spool has {end:,}")
        size = sum(path.stat().st_size for path in spool.glob("*.segment"))
    return Collected(emitted, gateways, took_s, emitted / took_s, size, cpu_s)
