"""A gateway while it is observed: its counters for telemetry plugins, its report for operators, its metrics by HTTP.

This looks at the node between two events and never changes it.
"""

import asyncio
import time
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import NamedTuple

from mqloom.core.limits import REPORT_EVERY_S, SAMPLE_EVERY_S
from mqloom.core.reports import Report, encode_report
from mqloom.gateway.drivers.metering import MemoryLimits, Metering
from mqloom.gateway.drivers.metrics import MetricsAddress, MetricsServer, process_figures
from mqloom.gateway.drivers.telemetry import RecordsSink, TelemetryDriver, TelemetryPlan
from mqloom.gateway.interfaces import CounterRecord
from mqloom.gateway.metrics import render
from mqloom.gateway.node import Node
from mqloom.gateway.reporting import Reporting

Sink = Callable[[CounterRecord], None]


class Sinks(NamedTuple):
    """Where plugins get a gateway's counters, and its telemetry."""

    counters: Sink
    records: RecordsSink


class ObservationPlan(NamedTuple):
    """How often telemetry plugins get the counters, where metrics are served, and what the collector is told."""

    telemetry_s: float
    metrics: MetricsAddress = MetricsAddress("127.0.0.1", 0)
    load_window_s: float = 10.0
    """How often the load is measured."""
    output_bytes_s_max: float = 0.0
    """What our own clients get at most, in bytes a second; 0: as much as there is."""
    memory: MemoryLimits = MemoryLimits()
    telemetry: TelemetryPlan = TelemetryPlan(is_on=False)


class Observer:
    """Observes one gateway from `async with` to its end; then the counters are told once more."""

    def __init__(
        self,
        node: Node,
        epoch: int,
        sink: Sink,
        plan: ObservationPlan,
        metering: Metering,
        telemetry: TelemetryDriver,
        publish: Callable[[bytes], None],
        is_served: Callable[[], bool],
    ) -> None:
        self._node = node
        self._sink = sink
        self.telemetry_s = plan.telemetry_s
        self._is_served = is_served
        self._load_window_s = plan.load_window_s
        self._metering = metering
        self._driver = telemetry
        self.metrics = MetricsServer(plan.metrics, self._page) if plan.metrics.port else None
        self._publish = publish
        self._reporting = Reporting(node.gateway, epoch, time.time())
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Observer":
        if self.metrics is not None:
            await self.metrics.__aenter__()
        works = (self._telemetry(), self._reports(), self._metering.run(self._load_window_s), self._driver.run())
        self._tasks = [asyncio.create_task(work) for work in works]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._driver.farewell()
        if self.metrics is not None:
            await self.metrics.__aexit__(kind, error, trace)
        self._record()

    def look(self) -> Report:
        """Return how the gateway is right now."""
        now = time.time()
        look = self._node.look()
        self._reporting.note(look, now)
        return self._reporting.report(
            look, self._node.counters.snapshot(), now, self._metering.load, self._metering.broker
        )

    def _page(self) -> str:
        return render(self.look(), version("mqloom"), is_served=self._is_served(), process=process_figures())

    def _record(self) -> None:
        self._sink(CounterRecord(self._node.gateway, time.time(), self._node.counters.snapshot()))

    async def _telemetry(self) -> None:
        while True:
            await asyncio.sleep(self.telemetry_s)
            self._record()

    async def _reports(self) -> None:
        loop = asyncio.get_running_loop()
        written_at = -REPORT_EVERY_S
        while True:
            report = self.look()
            if loop.time() >= written_at + REPORT_EVERY_S:
                written_at = loop.time()
                self._publish(encode_report(report))
            await asyncio.sleep(SAMPLE_EVERY_S)
