"""Measure what gateways carry beside Mosquitto's bridges, on brokers started for it."""

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

from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.plotting import check_plot
from mqloom.lab.bench_federation import UNFILTERED, Case, Plan, Row, Tell, measure
from mqloom.lab.bench_federation_view import as_json, draw, row_as_json, view
from mqloom.lab.bench_processes import find_mosquitto
from mqloom.lab.bench_quotes import Quotes
from mqloom.lab.bench_soak import Soak, soak

SUBSCRIBERS_MAX: Final = 1_000
HOLD_S_MAX: Final = 600.0
CASE_S_MAX: Final = 3_600.0
SOAK_MINUTES_MAX: Final = 24 * 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add = parser.add_argument
    add("--brokers", type=int, nargs="+", choices=(2, 3), default=[2, 3], help="in a chain; 2 and 3")
    add(
        *("--subscribers",),
        type=whole_number(SUBSCRIBERS_MAX),
        nargs="+",
        default=[1, 10, 100],
        metavar="N",
        help="1, 10 and 100",
    )
    add("--qos", type=int, nargs="+", choices=(0, 1), default=[0, 1], help="0 and 1")
    add(
        *("--unfiltered",),
        choices=("too", "only", "not"),
        default="too",
        help="traffic without filters through one gateway, and over a bridge; too",
    )
    add("--hold-s", type=positive_number(HOLD_S_MAX), default=10.0, metavar="S", help="how long a rate is held; 10")
    add("--probe-s", type=positive_number(HOLD_S_MAX), default=2.0, metavar="S", help="how long one is probed; 2")
    add(
        *("--case-s",),
        type=positive_number(CASE_S_MAX),
        default=240.0,
        metavar="S",
        help="after which a case looks for no better rate; 240",
    )
    add(
        *("--precision",),
        type=positive_number(4.0),
        default=1.2,
        metavar="P",
        help="how many times the held rate the next is that is not; 1.2",
    )
    add("--seed", type=int, default=1, metavar="S", help="the same seed: the same quotes and filters; 1")
    add(
        *("--soak",),
        type=positive_number(SOAK_MINUTES_MAX),
        metavar="MINUTES",
        help="instead: gateways alone, in the first case, for minutes at 80%% of the rate that they hold",
    )
    add("--json", action="store_true", help="print one JSON object, and nothing else")
    add("--plot", type=Path, metavar="FILE", help="draw the held rates (.png, .svg, .pdf)")


def run(arguments: argparse.Namespace) -> int:
    """Measure; raises BenchError if there is no Mosquitto, and PlotError."""
    find_mosquitto()
    if arguments.plot is not None:
        check_plot(arguments.plot)
    plan = plan_of(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started ends first
    with tempfile.TemporaryDirectory(prefix="mqloom-bench-") as folder, _progress(len(plan.cases)) as (tell, note):
        if arguments.soak is not None:
            soaked = soak(plan.cases[0], plan, arguments.soak, Path(folder), tell)
            _print_soak(arguments, plan, soaked)
            return 1 if soaked.lost else 0
        rows = measure(plan, Path(folder), tell, note)
    if arguments.plot is not None:
        draw(rows, arguments.plot)
    if arguments.json:
        print(json.dumps(as_json(settings_of(plan), rows)))  # noqa: T201 - a command's answer
    else:
        Console(highlight=False).print(view(rows))
    return 0


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return what is to be measured; one case in which there is nothing to compare is better first."""
    cases = [
        Case(brokers, subscribers, qos)
        for brokers in sorted(set(arguments.brokers))
        for subscribers in sorted(set(arguments.subscribers))
        for qos in sorted(set(arguments.qos))
    ]
    cases = {"too": [*cases, UNFILTERED], "only": [UNFILTERED], "not": cases}[arguments.unfiltered]
    return Plan(
        cases=cases,
        seed=arguments.seed,
        hold_s=arguments.hold_s,
        probe_s=min(arguments.probe_s, arguments.hold_s),
        case_s=arguments.case_s,
        precision=max(1.01, arguments.precision),
    )


def settings_of(plan: Plan) -> dict[str, object]:
    """Return what a reader of the figures has to know."""
    sizes = {count: Quotes(plan.seed, count).mean_bytes for count in {case.subscribers for case in plan.cases}}
    return {
        "seed": plan.seed,
        "hold_s": plan.hold_s,
        "probe_s": plan.probe_s,
        "case_s": plan.case_s,
        "precision": plan.precision,
        "cores": os.cpu_count(),
        "topic_and_payload_bytes": {str(count): round(size, 1) for count, size in sorted(sizes.items())},
    }


def _print_soak(arguments: argparse.Namespace, plan: Plan, soaked: Soak) -> None:
    if arguments.json:
        answer = {**as_json(settings_of(plan), []), "soak": asdict(soaked)}
        print(json.dumps(answer))  # noqa: T201 - a command's answer
        return
    lines = [
        f"{plan.cases[0]}: {soaked.minutes:g} minutes at {soaked.rate:,.0f}/s",
        f"lost {soaked.lost} of {soaked.wanted:,}; the last came {soaked.late_s_max * 1e3:.0f} ms late at most",
    ]
    for name, size in soaked.rss_mb.items():
        minutes = ", ".join(f"{each:.1f}" for each in soaked.rss_mb_by_minute[name])
        growth = soaked.rss_mb_per_minute[name]
        lines.append(f"{name}: {size:.1f} MB at the end, growing by {growth:+.3f} MB a minute; by minutes {minutes}")
    for name, most in soaked.waiting_max.items():
        growth = soaked.waiting_per_minute[name]
        minutes = ", ".join(f"{each:,.0f}" for each in soaked.waiting_by_minute[name])
        lines.append(f"{name}: {most:,.0f} waiting at most, growing by {growth:+.1f} a minute; by minutes {minutes}")
    Console(highlight=False).print("\n".join(lines))


@contextlib.contextmanager
def _progress(cases: int) -> Iterator[tuple[Tell, Callable[[Row], None]]]:
    """Give what moves a bar on standard error, and shows rows as they come; where nobody looks, both write lines."""
    if not sys.stderr.isatty():
        yield _say, lambda row: _say(json.dumps(row_as_json(row)))
        return
    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=2 * cases)

        def note(row: Row) -> None:
            progress.console.print(json.dumps(row_as_json(row)))
            progress.advance(task)

        yield lambda text: progress.update(task, description=text), note


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress
