"""Run random topologies, workloads and faults under the checkers; run number i has seed S + i."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import LocalError
from mqloom.lab.experiment import Tell
from mqloom.lab.progress import progress_bar

if TYPE_CHECKING:  # `--help` need not load a whole federation
    from mqloom.lab.storm import RunReport, StormReport

RUNS_MAX: Final = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("--runs", type=whole_number(RUNS_MAX), default=200, metavar="N", help="how many; 200")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first run; 1")
    parser.add_argument("--agents", action="store_true", help="load agents that move clients in every run, not in some")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="write an account of each failure into a folder")
    parser.add_argument("--broken", metavar="NAME", help="break the gateways on purpose, to see the checkers notice")


def run(arguments: argparse.Namespace) -> int:
    """Run the storm; 1 if a checker found anything."""
    from mqloom.lab.storm import run_storm  # noqa: PLC0415 - as above

    with _broken(arguments.broken):
        return storm(arguments, run_storm)


def _broken(name: str | None) -> AbstractContextManager[object]:
    if name is None:
        return nullcontext()
    from mqloom.lab.broken import BROKEN, everywhere  # noqa: PLC0415 - as above

    if name not in BROKEN:
        raise LocalError(f"nothing is called {name!r}; there are: {', '.join(BROKEN)}")
    return everywhere(BROKEN[name])


def storm(arguments: argparse.Namespace, run_storm: "Callable[..., StormReport]") -> int:
    """Do what `mqloom lab storm` does, with a storm of one's own."""
    told: list[str] = []
    try:
        with progress_bar("storm") as tell:
            after_each = partial(_move, tell, arguments.seed, arguments.runs)
            report = run_storm(
                arguments.seed,
                arguments.runs,
                told.append,
                traces=arguments.traces,
                after_each=after_each,
                broken=arguments.broken,
                agents=arguments.agents,
            )
    finally:  # also what was found before somebody had enough
        if not arguments.json:
            sys.stdout.writelines(f"{line}\n" for line in told)
    if arguments.json:
        print(json.dumps(as_json(report, arguments.broken, agents=arguments.agents)))  # noqa: T201 - a command's answer
        if report.failed:
            sys.stderr.writelines(f"{line}\n" for line in told)
    return 1 if report.failed else 0


def as_json(report: "StormReport", broken: str | None = None, *, agents: bool = False) -> dict[str, object]:
    """Return what `--json` prints: the sums, what was found and how to see it again, and every run."""
    from mqloom.lab.storm import replay_command  # noqa: PLC0415 - as above

    sums: dict[str, object] = msgspec.to_builtins(report)
    runs = sums.pop("reports")
    failures = [
        {"seed": each.seed, "replay": replay_command(each.seed, broken, agents=agents), "findings": each.findings}
        for each in report.reports
        if each.findings
    ]
    return {**sums, "ok": not report.failed, "failures": failures, "reports": runs}


def _move(tell: Tell, seed: int, runs: int, report: "RunReport") -> None:
    tell((report.seed - seed + 1) / runs, f"seed {report.seed}: {report.topology} of {report.gateways}")
