"""What telemetry costs gateways: processor time for each publication with it and without, in turns, at full load.

Two gateways beside two Mosquittos, subscribers with filters at the second, and a collector. First the highest rate that
they hold is looked for. Then they run at nearly that rate, while each turns its telemetry off and on four times a
second (`bench_telemetry_gateway`): the same process, the same load, and what else the machine does is in both alike.
"""

import contextlib
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqloom.lab.bench_brokers import slices_file, start_command
from mqloom.lab.bench_federation import Case, Plan, begin, quotes_of
from mqloom.lab.bench_processes import BenchError, wait_for_port
from mqloom.lab.bench_telemetry_gateway import SLICE_S
from mqloom.lab.bench_telemetry_node import bounds
from mqloom.lab.ports import free_ports
from mqloom.spark_analytics.spool import SpoolReader

SHARE_OF_HELD: Final = 0.9
"""Runs are at this part of the rate that was held: what is not held tells nothing."""
BUSY_SHARE: Final = 0.5
"""Slices with less than this part of the publications of most do not count: before a run, and after it."""

PAIRS_MIN: Final = 3

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPlan:
    """What is measured, and how long."""

    subscribers: int = 100
    qos: int = 0
    run_s: float = 60.0
    rate: float = 0.0
    """Publications a second; 0: nearly as many as are held."""
    seed: int = 1
    search_s: float = 60.0


@dataclass(frozen=True, slots=True)
class GatewayCost:
    """What it costs one gateway."""

    gateway: str
    slices: int
    """Of each kind."""
    us_on: float
    """Processor time for a publication, in microseconds, of all threads: the median of the slices with telemetry."""
    us_off: float
    cost_share: float
    """By what part a slice with telemetry costs more than the one beside it without: the median."""
    cost_low: float
    cost_high: float
    """So low and so high that share may be by chance, with a confidence of 95%."""
    cpu_ratio: float
    """Of one processor, that the gateway uses."""


@dataclass(frozen=True, slots=True)
class TelemetryCost:
    """What telemetry has cost."""

    rate: float
    is_held: bool
    """Whether everything came in time in that run."""
    gateways: list[GatewayCost]
    records: int
    """That were collected meanwhile."""


def measure_cost(plan: TelemetryPlan, folder: Path, tell: Tell) -> TelemetryCost:
    """Measure; raises BenchError."""
    case = Case(brokers=2, subscribers=plan.subscribers, qos=plan.qos)
    listen, serve = free_ports(2)
    spool = folder / "cost-spool"
    addresses = ["--listen", f"tcp://127.0.0.1:{listen}", "--serve", f"tcp://127.0.0.1:{serve}"]
    with contextlib.ExitStack() as stack:
        tell("telemetry: starting")
        collector = start_command("collector", ["collect", "--spool", str(spool), *addresses], folder, stack)
        wait_for_port(collector, listen)
        shape = case.shape("mqloom", plan.seed, collector=f"tcp://127.0.0.1:{listen}")
        search = Plan(cases=[case], seed=plan.seed, hold_s=5.0, case_s=plan.search_s, systems=("mqloom",))
        turn = begin(shape, quotes_of(case, plan.seed), folder, search, stack)
        deadline = time.monotonic() + search.case_s
        while not plan.rate and (step := turn.search.step) is not None:
            if time.monotonic() > deadline:
                turn.search.hurry()
            tell(f"telemetry: {step.rate:,.0f}/s{' held' if step.is_whole else '?'}")
            turn.look(step, search)
        rate = plan.rate or (turn.search.held or 0.0) * SHARE_OF_HELD
        if not rate:
            raise BenchError("no rate is held here at all: is the machine busy with something else?")
        side = turn.side
        files = {name: slices_file(side.configuration.parent, name) for name in side.names}
        before = {name: len(file.read_text("ascii").splitlines()) for name, file in files.items()}
        tell(f"telemetry: on and off at {rate:,.0f}/s")
        run = side.run(rate, plan.run_s)
        costs = [
            cost_of(name, [json.loads(line) for line in file.read_text("ascii").splitlines()[before[name] :]])
            for name, file in files.items()
        ]
        return TelemetryCost(rate, run.is_held, costs, SpoolReader(spool).bounds()[1])


def cost_of(name: str, slices: Sequence[Mapping[str, float]]) -> GatewayCost:
    """Return what the slices of a gateway tell; raises BenchError if there are too few."""
    usual = statistics.median(each["publications"] for each in slices) if slices else 0.0
    pairs = [
        (one, other) if one["on"] else (other, one)
        for one, other in zip(slices[::2], slices[1::2], strict=False)
        if usual and min(one["publications"], other["publications"]) >= BUSY_SHARE * usual
    ]
    if len(pairs) < PAIRS_MIN:
        raise BenchError(f"gateway {name}: {len(pairs)} slices with publications: {PAIRS_MIN} are needed; run longer")
    on, off = ([pair[place]["cpu_s"] / pair[place]["publications"] for pair in pairs] for place in (0, 1))
    shares = [one / other - 1 for one, other in zip(on, off, strict=True)]
    low, high = bounds(shares, random.Random(1))  # noqa: S311 - statistics, no secret
    return GatewayCost(
        gateway=name,
        slices=len(pairs),
        us_on=statistics.median(on) * 1e6,
        us_off=statistics.median(off) * 1e6,
        cost_share=statistics.median(shares),
        cost_low=low,
        cost_high=high,
        cpu_ratio=statistics.fmean(each["cpu_s"] for pair in pairs for each in pair) / SLICE_S,
    )
