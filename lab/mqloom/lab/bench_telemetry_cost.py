"""What telemetry costs a gateway: processor time for each publication with it and without, in turns, at full load.

Two gateways beside two Mosquittos, subscribers with filters at the second, and a collector. First the highest rate that
they hold is looked for, with telemetry. Then they run at nearly that rate, again and again, and telemetry is turned off
and on between two runs by a reload of their configuration: the same processes, the same load, the same minutes.
"""

import contextlib
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqloom.lab.bench_brokers import start_command
from mqloom.lab.bench_federation import Case, Plan, begin, quotes_of
from mqloom.lab.bench_processes import BenchError, free_ports, wait_for_port
from mqloom.lab.bench_sides import Side
from mqloom.spark_analytics.spool import SpoolReader

SHARE_OF_HELD: Final = 0.9
"""Runs are at this part of the rate that was held: what is not held tells nothing."""
SETTLE_S: Final = 2.0
"""After a reload, before a run."""
TRIES_MAX: Final = 2
"""A run that was not held is repeated so often; then it counts as it is, and is told."""

ON: Final = "\n[[brokers]]\n"
OFF: Final = "\n[[brokers]]\ntelemetry = false\n"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPlan:
    """What is measured, and how long."""

    subscribers: int = 100
    qos: int = 0
    rounds: int = 5
    run_s: float = 20.0
    rate: float = 0.0
    """Publications a second; 0: nearly as many as are held."""
    seed: int = 1
    search_s: float = 60.0


@dataclass(frozen=True, slots=True)
class TelemetryCost:
    """What telemetry has cost."""

    rate: float
    rounds: int
    cpu_us_on: list[float]
    """Processor time of both gateways for one publication, in microseconds, of each run with telemetry."""
    cpu_us_off: list[float]
    cost_share: float
    """By what part the median of the runs with telemetry is more than that of those without."""
    pair_shares: list[float]
    """The same of each run with telemetry, against the run without beside it."""
    cpu_ratio_on: float
    """Of one processor, that the busier of the two gateways used."""
    records: int
    not_held: int


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
        return _cost(_Runs(turn.side, rate, plan.run_s, tell), plan.rounds, spool)


def _cost(runs: "_Runs", rounds: int, spool: Path) -> TelemetryCost:
    figures: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        for is_on in (True, False) if number % 2 else (False, True):  # neither is always the first
            figures[is_on].append(runs.cpu_us(is_on=is_on))
    on, off = figures[True], figures[False]
    return TelemetryCost(
        rate=runs.rate,
        rounds=rounds,
        cpu_us_on=on,
        cpu_us_off=off,
        cost_share=statistics.median(on) / statistics.median(off) - 1,
        pair_shares=[one / other - 1 for one, other in zip(on, off, strict=True)],
        cpu_ratio_on=runs.busiest_on,
        records=SpoolReader(spool).bounds()[1],
        not_held=runs.not_held,
    )


class _Runs:
    """Runs of one side at one rate, with telemetry and without."""

    def __init__(self, side: Side, rate: float, run_s: float, tell: Tell) -> None:
        self._side = side
        self.rate = rate
        self._run_s = run_s
        self._tell = tell
        self._text = side.configuration.read_text()
        self.not_held = 0
        self.busiest_on = 0.0

    def cpu_us(self, *, is_on: bool) -> float:
        """Return the gateways' processor time for a publication, in microseconds, of one run."""
        self._turn(is_on=is_on)
        for attempt in range(TRIES_MAX):
            before, begun = self._cpu_s(), time.monotonic()
            run = self._side.run(self.rate, self._run_s)
            used = [after - earlier for earlier, after in zip(before, self._cpu_s(), strict=True)]
            took_s = time.monotonic() - begun
            if run.is_held or attempt == TRIES_MAX - 1:
                break
        self.not_held += not run.is_held
        if is_on:
            self.busiest_on = max(self.busiest_on, max(used) / took_s)
        cost_us = sum(used) / round(self.rate * self._run_s) * 1e6
        self._tell(f"telemetry {'on' if is_on else 'off'}: {cost_us:.2f} us for each at {self.rate:,.0f}/s")
        return cost_us

    def _turn(self, *, is_on: bool) -> None:
        self._side.configuration.write_text(self._text if is_on else self._text.replace(ON, OFF))
        for gateway in self._side.gateways:
            gateway.signal(signal.SIGHUP)
        time.sleep(SETTLE_S)

    def _cpu_s(self) -> Sequence[float]:
        return [gateway.cpu_s() for gateway in self._side.gateways]
