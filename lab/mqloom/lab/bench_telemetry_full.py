"""What telemetry costs a gateway at full load: one that is given more than it can take, on a core of its own.

A gateway beside a Mosquitto, with subscribers there, has one core; everything else has the others. First it is found
out how much it takes: ever more is published until it has no time left. Where the others cannot give it that much, it
has to share its core with a process that only counts, or several: what it spends on a publication is the same.

Then it is given more than it takes all the time, while it turns its telemetry off and on (`bench_telemetry_gateway`).
What counts is processor time for each publication, of all its threads: with telemetry over without, summed over all
pairs of slices beside each other, so that the ends of windows are in it. Pairs in which it was not at work, or waiting
for its core, all the time do not count. If too few are left (what it took while the machine had other work is too
little when that ends), it is found out again how much it takes, and it is given more, a few times at most.
"""

import contextlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqloom.lab.bench_brokers import slices_file, start_command
from mqloom.lab.bench_federation import Case, Plan, begin, quotes_of
from mqloom.lab.bench_processes import BenchError, Program, wait_for_port
from mqloom.lab.bench_sides import Side
from mqloom.lab.bench_telemetry_cost import PAIRS_MIN, TelemetryPlan
from mqloom.lab.bench_telemetry_gateway import SLICE_S
from mqloom.lab.ports import free_ports

FIRST_PER_S: Final = 4_000.0
"""The rate that is tried first; then always twice as much."""
TRIES_MAX: Final = 9
SHORT: Final = 0.9
"""If it gets less than this part of what is published, and has time left, the others cannot give it more."""
RIVALS_MAX: Final = 4
TRY_S: Final = 3.0
SATURATED: Final = 0.95
"""A gateway that is at work for this part of the time and more, or waits for a core that others use, has none left."""
PAIR_SATURATED: Final = 0.9
"""The same of a single slice."""
OVER: Final = 1.2
"""How many times as much as it takes the gateway is given: it always has something to do. When that was not enough, its
square, and so on."""
RUNS_MAX: Final = 3
"""If it has time left in so many runs, each with a search of its own before, that is an error."""
RESAMPLES: Final = 2_000

Slice = Mapping[str, float]
Pair = tuple[Slice, Slice]
"""A slice with telemetry, and the one beside it without."""
Tell = Callable[[str], None]
Drive = Callable[[float, float, int], Sequence[Slice]]
"""Publish at a rate, for seconds, with so many rivals for its core: what the slices of the gateway have cost."""


@dataclass(frozen=True, slots=True)
class FullLoadCost:
    """What telemetry costs a gateway that has no time left."""

    pairs: int
    """Of slices, one with telemetry and one without, in which it had no time left."""
    taken_per_s: float
    """Publications that the gateway takes a second, telemetry on and off."""
    busy_ratio: float
    """For what part of the time it was at work, or waited for its core, in those slices."""
    us_on: float
    """Processor time for a publication, in microseconds, of all threads."""
    us_off: float
    cost_share: float
    """By what part it is more with telemetry."""
    cost_low: float
    cost_high: float
    """So low and so high that share may be by chance, with a confidence of 95%."""
    rivals: int = 0
    """Processes with which it had to share its core."""


def measure_full(plan: TelemetryPlan, folder: Path, tell: Tell) -> FullLoadCost:
    """Measure; raises BenchError if runs are too short for it, or the gateway always has time left."""
    _refuse_short(plan.run_s)
    case = Case(brokers=1, subscribers=plan.subscribers, qos=plan.qos)
    listen, serve = free_ports(2)
    words = ["collect", "--spool", str(folder / "full-spool"), "--listen", f"tcp://127.0.0.1:{listen}"]
    with _cores() as core, contextlib.ExitStack() as stack:
        tell("full load: starting")
        collector = start_command("collector", [*words, "--serve", f"tcp://127.0.0.1:{serve}"], folder, stack)
        wait_for_port(collector, listen)
        shape = case.shape("mqloom", plan.seed, collector=f"tcp://127.0.0.1:{listen}")
        turn = begin(shape, quotes_of(case, plan.seed), folder, Plan(cases=[case], seed=plan.seed), stack)
        is_quiet, running = True, 0

        def drive(rate: float, seconds: float, rivals: int) -> list[Slice]:
            nonlocal is_quiet, running
            if not is_quiet:
                turn.settle()
            while core is not None and running < rivals:
                running += 1
                _rival(running, core, folder, stack)
            slices, is_quiet = _slices(turn.side, core, rate, seconds)
            return slices

        return drive_until_full(drive, plan, tell, RIVALS_MAX if core is not None else 0)


def _refuse_short(run_s: float) -> None:
    """Raise BenchError if in a run there cannot be as many pairs of slices as are needed."""
    least_s = 2 * PAIRS_MIN * SLICE_S
    if run_s < least_s:
        text = f"a run of {run_s:g} s has no {PAIRS_MIN} pairs of slices"
        raise BenchError(f"{text}: it must take {least_s:g} s at least")


def drive_until_full(drive: Drive, plan: TelemetryPlan, tell: Tell, rivals_max: int) -> FullLoadCost:
    """Return what the first run tells in which enough pairs of slices count; raises BenchError if there is none."""
    rate, taken_most, rivals = plan.rate or FIRST_PER_S, 0.0, 0
    for number in range(1, RUNS_MAX + 1):
        rate, taken, rivals = _search(drive, rate, rivals, rivals_max, tell)
        taken_most = max(taken, taken_most)
        given = OVER**number * taken_most
        tell(f"full load: on and off at {given:,.0f}/s, of which {taken_most:,.0f} are taken")
        slices = drive(given, plan.run_s, rivals)
        count = len(_full_pairs(slices))
        if count >= PAIRS_MIN:
            break
        if number < RUNS_MAX:
            tell(f"full load: in {count} pairs of slices it had no time left, {PAIRS_MIN} are needed: searching on")
            taken_most = max(taken_most, taken_of(slices)[1])
            rate = 2 * max(rate, given)
    return full_cost_of(slices, rivals)


def _search(drive: Drive, rate: float, rivals: int, rivals_max: int, tell: Tell) -> tuple[float, float, int]:
    """Return from which rate on, and with how many rivals, it has no time left, and how much it takes then."""
    taken = 0.0
    for _ in range(TRIES_MAX):
        tried = rate
        tell(f"full load: {rate:,.0f}/s?" + (f" with {rivals} rivals for its core" if rivals else ""))
        used, taken = taken_of(drive(rate, TRY_S, rivals))
        if used >= SATURATED:
            return rate, taken, rivals
        if taken < SHORT * rate and rivals < rivals_max:
            rivals += 1
        else:
            rate *= 2
    text = f"of {tried:,.0f} publications a second the gateway has taken {taken:,.0f}"
    raise BenchError(f"{text}, and was at work for {used:.0%} of the time: something else is short")


def _rival(number: int, core: int, folder: Path, stack: contextlib.ExitStack) -> None:
    """Start a process that uses the core as much as it can; the stack ends it."""
    program = Program(f"rival-{number}", [sys.executable, "-c", "while True: pass"], folder)
    stack.callback(program.end)
    os.sched_setaffinity(program.process_id, {core})


@contextlib.contextmanager
def _cores() -> Iterator[int | None]:
    """Keep ourselves, and whatever we start, off one core, and give that; None: there is only one, or no saying."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    ours = os.sched_getaffinity(0)
    core = max(ours)
    if len(ours) < 2:
        yield None
        return
    os.sched_setaffinity(0, ours - {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, ours)


def _slices(side: Side, core: int | None, rate: float, seconds: float) -> tuple[list[Slice], bool]:
    """Publish, with the gateway on its core; return what its slices have cost, and whether nothing is left to come."""
    [gateway] = side.gateways
    if core is not None:
        for thread in Path(f"/proc/{gateway.process_id}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                os.sched_setaffinity(int(thread.name), {core})
    file = slices_file(side.configuration.parent, side.names[0])
    before = len(file.read_text("ascii").splitlines())
    run = side.run(rate, seconds)
    return [json.loads(line) for line in file.read_text("ascii").splitlines()[before:]], run.is_held


def taken_of(slices: Sequence[Slice]) -> tuple[float, float]:
    """Return for what part of the time a gateway was busy, and how many publications a second it took, at its best."""
    busy = sorted(slices, key=_busy)[len(slices) // 2 :]
    took_s = sum(each["took_s"] for each in busy)
    if not took_s:
        return 0.0, 0.0
    return sum(map(_busy, busy)) / len(busy), sum(each["publications"] for each in busy) / took_s


def _busy(each: Slice) -> float:
    return (each["cpu_s"] + each["waited_s"]) / each["took_s"]


def full_cost_of(slices: Sequence[Slice], rivals: int = 0) -> FullLoadCost:
    """Return what pairs of slices tell in which it had no time left; raises BenchError if there are too few."""
    pairs = _full_pairs(slices)
    if len(pairs) < PAIRS_MIN:
        used = taken_of(slices)[0]
        text = f"in {len(pairs)} of {len(slices) // 2} pairs of slices it had no time left, {PAIRS_MIN} are needed: "
        idle = f"it was at work for {used:.0%} of the time, what it can take changes; is the machine busy otherwise?"
        raise BenchError(text + ("run longer" if used >= PAIR_SATURATED else idle))
    randomness = random.Random(1)  # noqa: S311 - statistics, no secret
    drawn = sorted(_share(randomness.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    took_s = _sum(pairs, "took_s")
    return FullLoadCost(
        pairs=len(pairs),
        taken_per_s=_sum(pairs, "publications") / took_s,
        busy_ratio=(_sum(pairs, "cpu_s") + _sum(pairs, "waited_s")) / took_s,
        us_on=_cpu_s(pairs, 0) * 1e6,
        us_off=_cpu_s(pairs, 1) * 1e6,
        cost_share=_share(pairs),
        cost_low=drawn[round(0.025 * RESAMPLES)],
        cost_high=drawn[round(0.975 * RESAMPLES) - 1],
        rivals=rivals,
    )


def _full_pairs(slices: Sequence[Slice]) -> list[Pair]:
    return [
        (one, other) if one["on"] else (other, one)
        for one, other in zip(slices[::2], slices[1::2], strict=False)
        if all(each["publications"] and _busy(each) >= PAIR_SATURATED for each in (one, other))
    ]


def _sum(pairs: Sequence[Pair], name: str) -> float:
    return sum(each[name] for pair in pairs for each in pair)


def _cpu_s(pairs: Sequence[Pair], place: int) -> float:
    """Return the processor time for a publication in one kind of slices."""
    return sum(pair[place]["cpu_s"] for pair in pairs) / sum(pair[place]["publications"] for pair in pairs)


def _share(pairs: Sequence[Pair]) -> float:
    return _cpu_s(pairs, 0) / _cpu_s(pairs, 1) - 1
