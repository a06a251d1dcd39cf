"""Measure what it costs to move subscribers between Mosquittos started for it, all of them in waves, under load."""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.limits import AT_ONCE_MAX
from mqloom.core.migration_records import RATE_MAX
from mqloom.lab.bench_migration import Plan, Tell, measure
from mqloom.lab.bench_migration_view import as_json, view
from mqloom.lab.bench_processes import find_mosquitto

SUBSCRIBERS_MAX: Final = 10_000
PUBLISH_RATE_MAX: Final = 100_000.0
WAVES_MAX: Final = 100
SECONDS_MAX: Final = 3_600.0
SHARE_MAX: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add, usual = parser.add_argument, Plan()
    add("--subscribers", type=whole_number(SUBSCRIBERS_MAX), default=usual.subscribers, metavar="N", help="1,000")
    rate = positive_number(PUBLISH_RATE_MAX)
    add("--rate", type=rate, default=usual.rate, metavar="R", help="publications a second, of QoS 1; 2,000")
    add("--waves", type=whole_number(WAVES_MAX), default=usual.waves, metavar="W", help="each moves all of them; 5")
    add("--brokers", type=int, choices=(2, 3), default=usual.brokers, help="in a chain; 2")
    move_rate = positive_number(RATE_MAX)
    add("--move-rate", type=move_rate, default=usual.move_rate, metavar="M", help="subscribers moved a second; 25")
    at_once = whole_number(AT_ONCE_MAX)
    add("--at-once", type=at_once, default=usual.at_once, metavar="N", help="so many on their way at most; 50")
    share = positive_number(SHARE_MAX)
    add("--share", type=share, default=usual.share, metavar="P", help="about what part of all each wants; 0.002")
    pause_s = positive_number(SECONDS_MAX)
    add("--pause-s", type=pause_s, default=usual.pause_s, metavar="S", help="how long nobody moves between waves; 5")
    wave_s = positive_number(SECONDS_MAX)
    add("--wave-s", type=wave_s, default=usual.wave_s, metavar="S", help="a wave that takes longer is given up; 180")
    add("--seed", type=int, default=usual.seed, metavar="S", help="the same seed: the same quotes and filters; 1")
    add("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Measure; 1 if anything was lost, came twice or was not wanted, or anybody stayed. Raises BenchError."""
    find_mosquitto()
    plan = plan_of(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything that was started ends first
    with tempfile.TemporaryDirectory(prefix="mqloom-bench-") as folder, _progress() as tell:
        result = measure(plan, Path(folder), tell)
    if arguments.json:
        print(json.dumps(as_json(settings_of(plan), result)))  # noqa: T201 - a command's answer
    else:
        Console(highlight=False).print(view(result))
    if result.problem:
        sys.stderr.write(f"mqloom bench migration: somebody stayed: {result.problem}\n")
    return 0 if result.is_kept else 1


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return what is to be measured."""
    return Plan(
        subscribers=arguments.subscribers,
        rate=arguments.rate,
        waves=arguments.waves,
        brokers=arguments.brokers,
        move_rate=arguments.move_rate,
        at_once=arguments.at_once,
        share=arguments.share,
        pause_s=arguments.pause_s,
        wave_s=arguments.wave_s,
        seed=arguments.seed,
    )


def settings_of(plan: Plan) -> dict[str, object]:
    """Return what a reader of the figures has to know."""
    return {**asdict(plan), "cores": os.cpu_count()}


@contextlib.contextmanager
def _progress() -> Iterator[Tell]:
    """Give what shows on standard error how far it is; where nobody looks, it writes a line when that is another."""
    said: list[str] = []
    if not sys.stderr.isatty():

        def say(text: str) -> None:
            if said[-1:] != [text]:
                said[:] = [text]
                print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress

        yield say
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)
