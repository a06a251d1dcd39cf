"""What a federation carries: bridges with filtering subscribers, and gateways, in turns on the same machine.

For each case both sides are started, and then take turns, step by step: while one is measured the other is idle. First
each looks for the highest rate that it holds (`bench_search`). Then both are run at half of the lower of the two rates,
where delays and the subscribers' processor time are measured. A case takes bounded time: past `case_s` no rate is
looked for any more, what was found is tried, and every wait of a step is bounded.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqloom.lab.bench_quotes import Quotes, quantile
from mqloom.lab.bench_search import Search, Step
from mqloom.lab.bench_sides import SYSTEMS, Run, Shape, Side, System, side_of

START_PER_S: Final = 200.0
SAMPLES: Final = 300
"""So many deliveries are wanted to tell a delay; the run for it is longer at low rates."""
SAMPLE_S_MAX: Final = 3.0
"""So many times the time of a probe it is at most."""
SHARE_OF_HELD: Final = 0.5
"""Delays are measured at this part of the lower of the rates that were held."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison."""

    brokers: int
    subscribers: int
    qos: int
    is_filtered: bool = True

    def shape(self, system: System, seed: int, collector: str = "") -> Shape:
        """Return what one side of it consists of; without filters, one gateway stands beside one broker."""
        return Shape(
            system=system,
            brokers=1 if system == "mqloom" and not self.is_filtered else self.brokers,
            subscribers=self.subscribers,
            qos=self.qos,
            seed=seed,
            is_filtered=self.is_filtered,
            collector=collector,
        )

    def __str__(self) -> str:
        what = f"{self.subscribers} subscribers" if self.is_filtered else "no filter"
        return f"{self.brokers} brokers, {what}, QoS {self.qos}"


UNFILTERED: Final = Case(brokers=2, subscribers=1, qos=0, is_filtered=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, and how long."""

    cases: Sequence[Case]
    seed: int = 1
    hold_s: float = 10.0
    probe_s: float = 2.0
    case_s: float = 240.0
    """Past this no side looks for a better rate."""
    precision: float = 1.2
    systems: tuple[System, ...] = SYSTEMS


@dataclass(frozen=True, slots=True)
class Row:
    """What one side of one case has reached."""

    system: str
    brokers: int
    subscribers: int
    qos: int
    held_per_s: float
    lost: int
    """In the run that was held; what was lost at higher rates is why they were not."""
    cpu_us_per_wanted: float | None
    link_bytes_per_wanted: float | None
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class _Turn:
    """One side of a case while it is measured."""

    shape: Shape
    quotes: Quotes
    folder: Path
    search: Search
    stack: contextlib.ExitStack
    side: Side
    held: Run | None = None
    calm: Run | None = None
    history: list[Run] = field(default_factory=list)

    def run(self, rate: float, seconds: float) -> Run:
        """Run, and leave the side quiet."""
        run = self.side.run(rate, seconds)
        self.history.append(run)
        if not run.is_held:
            self.settle()
        return run

    def settle(self) -> None:
        """Wait until the side is quiet: one that does not become so is started anew."""
        if not self.side.wait_until_quiet():
            self.stack.close()
            self.side = self.stack.enter_context(side_of(self.shape, self.quotes, self.folder))

    def look(self, step: Step, plan: Plan) -> Run:
        """Do one step of the search."""
        run = self.run(step.rate, plan.hold_s if step.is_whole else plan.probe_s)
        self.search.tell(held=run.is_held)
        if step.is_whole and run.is_held:
            self.held = run
        return run


def measure(plan: Plan, folder: Path, tell: Tell, note: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """Measure all cases; `note` hears of each row as soon as there is one."""
    rows = []
    for case in plan.cases:
        for row in _measure_case(case, plan, folder, tell):
            note(row)
            rows.append(row)
    return rows


def _measure_case(case: Case, plan: Plan, folder: Path, tell: Tell) -> Iterator[Row]:
    quotes = quotes_of(case, plan.seed)
    with contextlib.ExitStack() as stack:
        tell(f"{case}: starting")
        turns = [begin(case.shape(system, plan.seed), quotes, folder, plan, stack) for system in plan.systems]
        deadline = time.monotonic() + plan.case_s
        while any(turn.search.step for turn in turns):
            for turn in turns:
                if time.monotonic() > deadline:
                    turn.search.hurry()
                if (step := turn.search.step) is not None:
                    what = f"{case}: {turn.shape.system}, {step.rate:,.0f}/s"
                    tell(f"{what} for {plan.hold_s:g} s" if step.is_whole else f"{what}?")
                    run = turn.look(step, plan)
                    if run.problems:
                        tell(f"{what}: not held: {'; '.join(run.problems)}")
        _calm(case, turns, plan, tell)
        yield from (_row(case, turn) for turn in turns)


def quotes_of(case: Case, seed: int) -> Quotes:
    """Return what is published and wanted in a case."""
    return Quotes(seed, case.subscribers) if case.is_filtered else Quotes(seed, 0).everything()


def begin(shape: Shape, quotes: Quotes, folder: Path, plan: Plan, stack: contextlib.ExitStack) -> _Turn:
    """Start a side, with its search."""
    own = stack.enter_context(contextlib.ExitStack())
    side = own.enter_context(side_of(shape, quotes, folder))
    return _Turn(shape, quotes, folder, Search(START_PER_S, plan.precision), own, side)


def _calm(case: Case, turns: Sequence[_Turn], plan: Plan, tell: Tell) -> None:
    """Run all sides at a rate that all hold easily, one after the other."""
    lowest = min((turn.search.held or 0.0) for turn in turns)
    if not lowest:
        return
    rate = lowest * SHARE_OF_HELD
    wanted_per_s = rate * sum(len(each) for each in turns[0].quotes.wanted) / len(turns[0].quotes.quotes)
    seconds = min(max(plan.probe_s, SAMPLES / wanted_per_s), plan.probe_s * SAMPLE_S_MAX)
    for turn in turns:
        tell(f"{case}: {turn.shape.system}, delays at {rate:,.0f}/s")
        turn.calm = turn.run(rate, seconds)


def _row(case: Case, turn: _Turn) -> Row:
    held, calm = turn.held, turn.calm
    return Row(
        system=turn.shape.system if case.is_filtered else f"{turn.shape.system} unfiltered",
        brokers=turn.shape.brokers,
        subscribers=case.subscribers,
        qos=case.qos,
        held_per_s=turn.search.held or 0.0,
        lost=held.account.lost if held is not None else 0,
        cpu_us_per_wanted=_cpu_us(calm),
        link_bytes_per_wanted=_link_bytes(turn, held),
        p50_ms=_milliseconds(calm, 0.50),
        p99_ms=_milliseconds(calm, 0.99),
    )


def _cpu_us(run: Run | None) -> float | None:
    return run.cpu_s / len(run.account.delays) * 1e6 if run is not None and run.account.delays else None


def _milliseconds(run: Run | None, share: float) -> float | None:
    delay = quantile(run.account.delays, share) if run is not None else None
    return None if delay is None else delay * 1e3


def _link_bytes(turn: _Turn, run: Run | None) -> float | None:
    """Return the bytes on a link for each publication that somebody beyond it wants: all subscribers are at the end."""
    links = turn.shape.brokers - 1
    if run is None or run.link_bytes is None or not links:
        return None
    share = len(turn.quotes.wanted_by_anybody) / len(turn.quotes.quotes)
    wanted = run.rate * run.planned_s * share
    return run.link_bytes / (links * wanted) if wanted else None
