"""Measure, side by side with others, how fast events are matched, what a federation carries, and what moves cost."""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mqloom.core.command_numbers import whole_number
from mqloom.core.plotting import check_plot
from mqloom.lab import (
    command_bench_federation,
    command_bench_meters,
    command_bench_migration,
    command_bench_spark,
    command_bench_telemetry,
)
from mqloom.lab.bench_match import EVENTS, PEERS, Plan, Result, Tell, measure
from mqloom.lab.bench_plot import SIZES, draw
from mqloom.lab.bench_view import as_json, view
from mqloom.lab.peers import ContentEngine
from mqloom.lab.workloads import WORKLOADS

SUBSCRIPTIONS_MAX: Final = 10_000_000
EVENTS_MAX: Final = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    benches = parser.add_subparsers(dest="bench", required=True, metavar="BENCH")
    match = benches.add_parser(
        "match",
        help="our engine, a numpy scan, brute force and R-trees on the same subscriptions and events",
        description="Measure our engine, a numpy scan, brute force and R-trees on the same subscriptions and events.",
    )
    match.add_argument("--workload", choices=tuple(WORKLOADS), default="stock", help="stock")
    match.add_argument(
        "--subscriptions", type=whole_number(SUBSCRIPTIONS_MAX), default=10_000, metavar="N", help="how many; 10,000"
    )
    match.add_argument(
        "--events", type=whole_number(EVENTS_MAX), default=EVENTS, metavar="E", help="how many distinct ones; 10,240"
    )
    match.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed: the same workload; 1")
    match.add_argument(
        "--without", action="append", default=[], choices=PEERS, help="leave a peer out; may be given several times"
    )
    match.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    match.add_argument(
        "--plot", type=Path, metavar="FILE", help=f"measure at {sizes} too, and draw the curves (.png, .svg, .pdf)"
    )
    federation = benches.add_parser(
        "federation",
        help="gateways and bridges between Mosquittos, on the same publications and subscribers",
        description=command_bench_federation.__doc__,
    )
    command_bench_federation.configure(federation)
    migration = benches.add_parser(
        "migration",
        help="subscribers that are moved between Mosquittos, in waves and under load",
        description=command_bench_migration.__doc__,
    )
    command_bench_migration.configure(migration)
    spark = benches.add_parser(
        "spark",
        help="Spark on telemetry: the report, a query beside DuckDB and pandas, and a stream",
        description=command_bench_spark.__doc__,
    )
    command_bench_spark.configure(spark)
    telemetry = benches.add_parser(
        "telemetry",
        help="what telemetry costs gateways at full load, and how fast the collector takes it in",
        description=command_bench_telemetry.__doc__,
    )
    command_bench_telemetry.configure(telemetry)
    meters = benches.add_parser(
        "meters", help="a gateway with and without its load meters, in turns", description=command_bench_meters.__doc__
    )
    command_bench_meters.configure(meters)


def run(arguments: argparse.Namespace) -> int:
    """Measure; 1 if the engines do not agree on what matches."""
    if arguments.bench == "federation":
        return command_bench_federation.run(arguments)
    if arguments.bench == "migration":
        return command_bench_migration.run(arguments)
    if arguments.bench == "spark":
        return command_bench_spark.run(arguments)
    if arguments.bench == "telemetry":
        return command_bench_telemetry.run(arguments)
    if arguments.bench == "meters":
        return command_bench_meters.run(arguments)
    from mqloom.plugins.content import Engine  # noqa: PLC0415 - `--help` need not load it

    return bench_match(arguments, Engine)


def bench_match(arguments: argparse.Namespace, make_engine: Callable[[], ContentEngine]) -> int:
    """Do what `mqloom bench match` does, with an engine of one's own. Raises PlotError."""
    plan = Plan(
        workload=arguments.workload,
        subscriptions=arguments.subscriptions,
        events=arguments.events,
        seed=arguments.seed,
        without=frozenset(arguments.without),
    )
    if arguments.plot is not None:
        check_plot(arguments.plot)
    sizes = set() if arguments.plot is None else set(SIZES) - {plan.subscriptions}
    with tempfile.TemporaryDirectory(prefix="mqloom-bench-") as folder:
        result, *more = [
            _measure(replace(plan, subscriptions=size), make_engine, Path(folder))
            for size in (plan.subscriptions, *sorted(sizes))
        ]
    results = sorted((result, *more), key=lambda each: each.plan.subscriptions)
    if arguments.plot is not None:
        draw(results, arguments.plot)
    _print(arguments, result, results)
    return 1 if any(each.disagreements for each in results) else 0


def _print(arguments: argparse.Namespace, result: Result, results: list[Result]) -> None:
    if arguments.json:
        answer = as_json(result)
        if arguments.plot is not None:
            answer["sizes"] = [as_json(each) for each in results]
        print(json.dumps(answer))  # noqa: T201 - a command's answer
        return
    console = Console(highlight=False)
    for each in results:
        console.print(view(each))
    if arguments.plot is not None:
        console.print(f"drawn: {arguments.plot}")


def _measure(plan: Plan, make_engine: Callable[[], ContentEngine], folder: Path) -> Result:
    with _progress(plan) as tell:
        return measure(plan, make_engine, folder, tell)


@contextlib.contextmanager
def _progress(plan: Plan) -> Iterator[Tell]:
    """Give a function that moves a bar on standard error; it shows nothing where nobody looks."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    columns = (
        TextColumn("{task.fields[size]:>9,} "),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=plan.steps, size=plan.subscriptions)

        def tell(text: str) -> None:
            progress.update(task, advance=1, description=text)

        yield tell
