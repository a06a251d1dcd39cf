"""Run an experiment, and compare what comes out with the paper and with our target."""

import argparse
import json
from pathlib import Path

from rich.console import Console

from mqloom.core.plotting import PlotError, check_plot
from mqloom.lab.experiment import Report
from mqloom.lab.progress import progress_bar
from mqloom.lab.report_view import as_json, view


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("name", metavar="NAME", help="as `mqloom lab list` shows it, or a file of your own, ./mine.py")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed: the same figures; 1")
    parser.add_argument("--quick", action="store_true", help="the small version, seconds instead of minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a picture (.png, .svg, .pdf)")


def run(arguments: argparse.Namespace) -> int:
    """Run the experiment; 1 if a target is missed. Raises ExperimentError, PlotError."""
    from mqloom.lab.catalogue import ExperimentError, find  # noqa: PLC0415 - `--help` need not load all experiments
    from mqloom.lab.report_plot import draw  # noqa: PLC0415 - as above

    if arguments.plot is not None:
        check_plot(arguments.plot)
    experiment = find(arguments.name)
    with progress_bar(experiment.name) as tell:
        report = experiment.run(arguments.seed, arguments.quick, tell)
    if not isinstance(report, Report):  # files of users are not checked by mypy
        raise ExperimentError(arguments.name, f"its run returned a {type(report).__name__}, not a Report")
    console = Console(highlight=False)
    if arguments.json:
        answer = as_json(experiment, arguments.seed, arguments.quick, report)
        print(json.dumps(answer, allow_nan=False))  # noqa: T201 - a command's answer
    else:
        console.print(view(experiment, arguments.seed, arguments.quick, report))
    if arguments.plot is not None:
        if report.picture is None:
            raise PlotError(f"--plot {arguments.plot}: {experiment.name} has no picture to draw")
        draw(report.picture, f"{experiment.name}: {experiment.summary}", arguments.plot)
        if not arguments.json:
            console.print(f"drawn: {arguments.plot}")
    return 0 if report.ok else 1
