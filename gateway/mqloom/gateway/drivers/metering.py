"""Feeds a gateway's meter with what only its process knows, and tells the node its load when a window has ended."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mqloom.core.counters import Counters
from mqloom.core.events import LoadMeasured
from mqloom.core.load import Load
from mqloom.gateway.drivers.metrics import process_figures
from mqloom.gateway.interfaces import BrokerAdapter, BrokerFigures, FiguresAdapter
from mqloom.gateway.meters import Figures, Meter
from mqloom.gateway.node import Node

Log = logging.LoggerAdapter[logging.Logger]


def broker_figures(adapter: BrokerAdapter, counters: Counters, log: Log) -> BrokerFigures:
    """Return what a broker says of itself; an adapter's mistake ends neither meters nor telemetry."""
    if not isinstance(adapter, FiguresAdapter):
        return BrokerFigures()
    try:
        return adapter.figures()
    except Exception as error:  # of whatever kind: it is a plugin's
        counters.add("plugin_failures", "adapter")
        log.error("adapter: figures raised %s: %s", type(error).__name__, error)
        return BrokerFigures()


class MemoryLimits(NamedTuple):
    """What memory is measured against; 0: the gateway's against the machine's, and the broker's not at all."""

    gateway_bytes_max: int = 0
    broker_bytes_max: int = 0


class Metering:
    """The meter of one gateway while it runs."""

    def __init__(
        self,
        node: Node,
        meter: Meter,
        memory: MemoryLimits,
        figures: Callable[[], BrokerFigures],
        waiting_bytes: Callable[[], int],
        is_crowded: Callable[[], bool],
        handle: Callable[[LoadMeasured], None],
    ) -> None:
        self._node = node
        self._meter = meter
        self._memory_bytes_max = memory.gateway_bytes_max or machine_bytes()
        self._broker_memory_bytes_max = memory.broker_bytes_max
        self._broker_figures = figures
        self._waiting_bytes = waiting_bytes
        self._is_crowded = is_crowded
        self._handle = handle
        self.load: Load | None = None
        """Of the last window that has ended."""
        self.broker: Mapping[str, float] = {}
        """What the broker said of itself then, by its own names; empty where it says nothing."""

    async def run(self, window_s: float) -> None:
        """Measure one window after the other, until cancelled."""
        self._meter.begin(self._figures(), asyncio.get_running_loop().time())
        while True:
            await asyncio.sleep(window_s)
            self.end_window()

    def end_window(self) -> None:
        """Say what was measured, and begin the next window."""
        self.load = self._meter.sample(self._figures(), asyncio.get_running_loop().time())
        self._handle(LoadMeasured(load=self.load, broker=self.broker))

    def _figures(self) -> Figures:
        process, counters = process_figures(), self._node.counters
        broker = self._broker_figures()
        self.broker = broker.named
        return Figures(
            publications=counters.total("publications_in") + counters.total("publications_received"),
            subscriptions=self._node.subscriptions,
            cpu_s=process.cpu_s,
            memory_ratio=max(
                _share(process.resident_bytes, self._memory_bytes_max),
                _share(broker.memory_bytes, self._broker_memory_bytes_max),
            ),
            waiting_bytes=self._waiting_bytes(),
            deliveries=counters.total("deliveries"),
            is_crowded=self._is_crowded(),
        )


def _share(used: float | None, most: float) -> float:
    """Return how full a memory is; one of which it is not known how full it is or may be counts as empty."""
    return used / most if used and most else 0.0


def machine_bytes() -> int:
    """Return how much memory this process may use: the machine's, or less where a control group says so; 0: unknown."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no group, or "max"
        return machine
