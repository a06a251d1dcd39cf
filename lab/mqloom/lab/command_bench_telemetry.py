"""Measure what telemetry costs gateways at full load, and how fast the collector takes it in."""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mqloom.core.command_amounts import in_units
from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.lab.bench_collector import Collected, measure_collector
from mqloom.lab.bench_processes import find_mosquitto
from mqloom.lab.bench_telemetry_cost import TelemetryCost, TelemetryPlan, measure_cost
from mqloom.lab.bench_telemetry_full import FullLoadCost, measure_full
from mqloom.lab.bench_telemetry_node import NodeCost, measure_node

RECORDS_MAX: Final = 100_000_000
RUN_S_MAX: Final = 600.0
RATE_MAX: Final = 200_000.0
TURNS_MAX: Final = 100_000
COLLECTOR_TARGET_PER_S: Final = 500_000
COST_TARGET: Final = 0.02


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add = parser.add_argument
    add("--only", choices=("collector", "node", "cost", "full"), help="measure this alone; else all four")
    add("--records", type=whole_number(RECORDS_MAX), default=4_000_000, metavar="N", help="to collect; 4,000,000")
    add("--gateways", type=whole_number(1_000), default=8, metavar="N", help="that send them; 8")
    add("--subscribers", type=whole_number(1_000), default=100, metavar="N", help="at the second broker; 100")
    add("--qos", type=int, choices=(0, 1), default=0, help="0")
    add("--run-s", type=positive_number(RUN_S_MAX), default=60.0, metavar="S", help="how long gateways run; 60")
    add("--rate", type=positive_number(RATE_MAX), default=0.0, metavar="R", help="else 90%% of what is held")
    add("--turns", type=whole_number(TURNS_MAX), default=400, metavar="N", help="of the node, of each kind; 400")
    add("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Measure; raises BenchError if there is no Mosquitto."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started ends first
    collected: Collected | None = None
    node: NodeCost | None = None
    cost: TelemetryCost | None = None
    full: FullLoadCost | None = None
    if arguments.only in (None, "cost", "full"):
        find_mosquitto()
    with tempfile.TemporaryDirectory(prefix="mqloom-bench-") as folder, _progress() as tell:
        if arguments.only in (None, "collector"):
            collected = measure_collector(arguments.records, arguments.gateways, Path(folder), tell)
        if arguments.only in (None, "node"):
            tell(f"node: {arguments.turns} turns with telemetry, and as many without")
            node = measure_node(arguments.turns, arguments.subscribers)
        plan = TelemetryPlan(
            subscribers=arguments.subscribers,
            qos=arguments.qos,
            run_s=arguments.run_s,
            rate=arguments.rate,
        )
        if arguments.only in (None, "full"):
            full = measure_full(plan, Path(folder), tell)
        if arguments.only in (None, "cost"):
            cost = measure_cost(plan, Path(folder), tell)
    if arguments.json:
        parts = {"collector": collected, "node": node, "full": full, "cost": cost}
        told = {name: asdict(part) for name, part in parts.items() if part is not None}
        print(json.dumps({"cores": os.cpu_count(), **told}))  # noqa: T201 - a command's answer
    else:
        Console(highlight=False).print("\n".join(view(collected, node, cost, full)))
    return 0


def view(
    collected: Collected | None, node: NodeCost | None, cost: TelemetryCost | None, full: FullLoadCost | None
) -> Iterator[str]:
    """Yield the figures for people."""
    if collected is not None:
        yield (
            f"collector: {collected.records:,} records of {collected.gateways} gateways in {collected.took_s:.2f} s: "
            f"{collected.records_per_s:,.0f}/s (target {COLLECTOR_TARGET_PER_S:,}), "
            f"{in_units(collected.spool_bytes)} on the disk, {collected.cpu_s:.2f} s of processor time"
        )
    if node is not None:
        yield (
            f"node: {node.us_on:.2f} microseconds for a publication with telemetry, {node.us_off:.2f} without: "
            f"{node.cost_share:+.2%} (between {node.cost_low:+.2%} and {node.cost_high:+.2%}; target: under "
            f"{COST_TARGET:.0%}); a window ends in {node.window_ms:.2f} ms, {node.window_share:.3%} of its time"
        )
    if full is not None:
        yield (
            f"a gateway at full load, {full.taken_per_s:,.0f} publications/s, busy {full.busy_ratio:.0%} of the time: "
            f"{full.us_on:.2f} microseconds for a publication with telemetry, {full.us_off:.2f} without: "
            f"{full.cost_share:+.2%} (between {full.cost_low:+.2%} and {full.cost_high:+.2%}; target: under "
            f"{COST_TARGET:.0%}); {full.pairs} pairs of slices"
        )
    if cost is not None:
        yield f"gateways at {cost.rate:,.0f} publications/s, telemetry off and on in turns, {cost.records:,} records:"
        for each in cost.gateways:
            yield (
                f"  {each.gateway}: {each.us_on:.2f} microseconds for a publication with telemetry, {each.us_off:.2f} "
                f"without: {each.cost_share:+.2%} (between {each.cost_low:+.2%} and {each.cost_high:+.2%}; target: "
                f"under {COST_TARGET:.0%}); {each.slices} slices of each kind, {each.cpu_ratio:.0%} of a processor"
            )
        if not cost.is_held:
            yield "  the rate was not held: the machine had something else to do"


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Give what shows how far it is on standard error; where nobody looks, it writes lines."""
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress
        return
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)
