"""Measure what its load meters cost a gateway: its processor time with and without them, beside a real Mosquitto."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.lab.bench_meters import Cost, Plan, measure

COMPARISONS_MAX: Final = 100_000
PUBLICATIONS_MAX: Final = 100_000
CLIENTS_MAX: Final = 10_000
WINDOW_S_MAX: Final = 3_600.0
SHARE_MAX: Final = 0.01
"""What meters may cost of a gateway's processor time."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add, usual = parser.add_argument, Plan()
    comparisons = whole_number(COMPARISONS_MAX)
    add("--comparisons", type=comparisons, default=usual.comparisons, metavar="N", help="with and without; 100")
    publications = whole_number(PUBLICATIONS_MAX)
    add("--publications", type=publications, default=usual.publications, metavar="N", help="of each turn; 2,000")
    add("--clients", type=whole_number(CLIENTS_MAX), default=usual.clients, metavar="N", help="who get them all; 10")
    window_s = positive_number(WINDOW_S_MAX)
    add("--window-s", type=window_s, default=usual.window_s, metavar="S", help="the window of the meters; 10")
    add("--seed", type=int, default=usual.seed, metavar="S", help="of the order of turns; 1")
    add("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Measure; 1 if meters cost more than they may. Raises BenchError."""
    plan = Plan(
        comparisons=arguments.comparisons,
        publications=arguments.publications,
        clients=arguments.clients,
        window_s=arguments.window_s,
        seed=arguments.seed,
    )

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K")

    with tempfile.TemporaryDirectory(prefix="mqloom-bench-") as folder:
        cost = measure(plan, Path(folder), tell)
    tell("")
    if arguments.json:
        told = {**asdict(plan), **asdict(cost), "total": cost.total}
        sys.stdout.write(f"{json.dumps(told, indent=2)}\n")
    else:
        sys.stdout.write(view(plan, cost))
    return 0 if cost.total <= SHARE_MAX else 1


def view(plan: Plan, cost: Cost) -> str:
    """Return the figures for people."""
    twice = 2 * cost.compared_error
    return (
        f"a gateway takes {cost.publication_us:,.0f} microseconds of processor time for a publication to "
        f"{plan.clients:,} clients\n"
        f"  compared as a whole      {cost.compared:+8.3%} of that, give or take {twice:.3%} "
        f"({cost.comparisons:,} comparisons)\n"
        f"  time that is noted       {cost.noted:+8.3%}, {cost.note_us:.2f} microseconds for each of "
        f"{cost.events:.2f} events\n"
        f"  bytes that are added up  {cost.bytes_note:+8.3%}, with {cost.messages:.2f} messages for each\n"
        f"  windows of {plan.window_s:g} s         {cost.window:+8.3%} of one processor\n"
        f"load meters cost {cost.total:.2%} of a gateway's processor time; {SHARE_MAX:.0%} is what they may\n"
    )
