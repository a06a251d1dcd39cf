"""Write a report on capacity: one page that says what to do, with plots and tables as the evidence."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from mqloom.core.errors import LocalError
from mqloom.core.plotting import PlotError
from mqloom.spark_analytics.capacity.analysis import Analysis, NoTelemetryError, analyse
from mqloom.spark_analytics.capacity.findings import CapacityFinding, findings_of
from mqloom.spark_analytics.capacity.questions import (
    GROWTH_RANGE,
    STRENGTH_RANGE,
    Questions,
    parse_interest,
    parse_move,
)
from mqloom.spark_analytics.capacity.thresholds import FULL
from mqloom.spark_analytics.progress import progress
from mqloom.spark_analytics.report.figures import figures_of
from mqloom.spark_analytics.spark_options import OWN_BAR, add_place, add_session, session_of, tables_of
from mqloom.spark_analytics.task_progress import watched_tasks

FULL_RANGE: Final = (0.1, 1.0)


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_place(parser)
    add_session(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page to write, for instance report.html")
    parser.add_argument("--json", action="store_true", help="print all figures and findings as one JSON object")
    parser.add_argument("--full", type=float, default=FULL, metavar="SHARE", help=f"when a resource is full; {FULL:g}")
    asked = parser.add_argument_group("what if", "each may be given several times; without any, the usual is asked")
    asked.add_argument("--fails", action="append", default=[], metavar="BROKER", help="a broker fails")
    asked.add_argument("--grows", action="append", default=[], type=float, metavar="PERCENT", help="more publications")
    asked.add_argument(
        "--adds", action="append", default=[], type=float, metavar="STRENGTH", help="a broker of so many times the mean"
    )
    asked.add_argument("--moves", action="append", default=[], metavar="FROM:TO[:TOPICS [WHERE ...]]")
    asked.add_argument(
        "--place", action="append", default=[], metavar="TOPICS [WHERE ...]", help="the best place for this interest"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the report, and print its findings."""
    questions = questions_of(arguments)
    _check_out(arguments)
    with progress("report") as tell:
        tell(0.0, "starting Spark")
        with session_of(arguments, OWN_BAR) as spark:
            tell(0.02, "reading telemetry", upto=0.3)
            with tables_of(spark, arguments, tell.tasks) as found, watched_tasks(spark, tell.tasks):
                unread = [each.problem for each in found.findings]
                try:
                    analysis = analyse(found, questions, lambda share, text: tell(0.3 + 0.65 * share, text))
                except NoTelemetryError:
                    if not unread:
                        raise
                    raise NoTelemetryError(f"no load record can be read in this telemetry: {unread[0]}") from None
        findings = findings_of(analysis)
        if arguments.out is not None:
            tell(0.95, "drawing")
            _write(arguments.out, analysis, findings, unread)
    for problem in unread:
        print(f"left out: {problem}", file=sys.stderr)  # noqa: T201 - a command's answer
    if arguments.json:
        print(json.dumps(figures_of(analysis, findings) | {"unread": unread}, indent=1))  # noqa: T201 - as above
    else:
        _print(findings, arguments.out)
    return 0


def questions_of(arguments: argparse.Namespace) -> Questions:
    """Return what is asked; raises LocalError for what cannot be."""
    _within("--full", [arguments.full], FULL_RANGE)
    _within("--grows", arguments.grows, GROWTH_RANGE)
    _within("--adds", arguments.adds, STRENGTH_RANGE)
    return Questions(
        full=arguments.full,
        fails=tuple(arguments.fails),
        grows=tuple(arguments.grows),
        adds=tuple(arguments.adds),
        moves=tuple(parse_move(each) for each in arguments.moves),
        interests=tuple(parse_interest(each) for each in arguments.place),
    )


def _within(option: str, values: list[float], bounds: tuple[float, float]) -> None:
    low, high = bounds
    for value in values:
        if not low <= value <= high:
            raise LocalError(f"{option} {value:g}: it can be {low:g} to {high:g}")


def _check_out(arguments: argparse.Namespace) -> None:
    """Find out before minutes are spent whether the page can be made and written."""
    if arguments.out is None:
        if not arguments.json:
            raise LocalError("where to? --out report.html for the page, --json for the figures, or both")
        return
    from importlib.util import find_spec  # noqa: PLC0415 - only here

    if find_spec("matplotlib") is None:
        raise PlotError("the page has plots, and they need matplotlib: pip install 'mqloom[plot]'; or use --json alone")
    if not arguments.out.resolve().parent.is_dir() or arguments.out.is_dir():
        raise LocalError(f"--out {arguments.out}: there is no folder {arguments.out.resolve().parent}, or it is one")


def _write(out: Path, analysis: Analysis, findings: list[CapacityFinding], unread: list[str]) -> None:
    from mqloom.spark_analytics.report.page import page_of  # noqa: PLC0415 - draws, which --json alone does not

    page = page_of(analysis, findings, unread)
    new = out.with_name(f".{out.name}.new")
    try:
        new.write_text(page, "utf-8")
        new.replace(out)
    except OSError as error:
        raise LocalError(f"--out {out}: {error.strerror}") from None


def _print(findings: list[CapacityFinding], out: Path) -> None:
    lines = [f"{each.urgency:>4}  {each.title}\n      {each.evidence}\n      -> {each.action}" for each in findings]
    print("\n".join(lines) if lines else "All is well: nothing was found that needs anybody.")  # noqa: T201 - as above
    print(f"\nThe report is in {out}")  # noqa: T201 - as above
