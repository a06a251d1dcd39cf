"""Try everything that can happen to three gateways, a few clients and publications: a crash, a cut, a move.

And to a client that is moved between brokers: a fault at every moment.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import LocalError
from mqloom.lab.broken import BROKEN
from mqloom.lab.exhaust import Report, run_exhaust
from mqloom.lab.moments import NAME, QUICK_STRIDE, MomentsReport, run_moments
from mqloom.lab.small_scope import DEEP, QUICK


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("--deep", action="store_true", help="the larger scopes too: takes many minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scopes with this in their names")
    parser.add_argument("--states", type=whole_number(), metavar="N", help="stop in each scope after so many states")
    parser.add_argument("--broken", choices=tuple(BROKEN), help="with gateways that are broken in this way")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write what led to a finding into a file")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Search every scope up to the first finding; 1 if there is one, or if not everything was tried."""
    scopes = [scope for scope in (QUICK + DEEP if arguments.deep else QUICK) if arguments.only in scope.name]
    has_moments = arguments.only in NAME and arguments.broken is None and arguments.states is None
    if not scopes and not has_moments:
        hint = "" if arguments.deep else "; --deep has more"
        raise LocalError(f"--only {arguments.only!r}: no scope has this in its name{hint}")
    broken = BROKEN.get(arguments.broken)
    reports: list[Report | MomentsReport] = []
    for scope in scopes:
        report = run_exhaust(scope, _tell, broken=broken, states_max=arguments.states)
        reports.append(report)
        _say(report, is_quiet=arguments.json)
        if report.problem is not None:
            break
    if has_moments and all(report.problem is None for report in reports):
        reports.append(run_moments(1 if arguments.deep else QUICK_STRIDE, _tell))
        _say(reports[-1], is_quiet=arguments.json)
    found = next((report for report in reports if report.problem is not None), None)
    ok = all(report.is_complete for report in reports)
    if arguments.json:
        print(json.dumps({"ok": ok, "scopes": msgspec.to_builtins(reports)}))  # noqa: T201 - the answer
    if found is not None:
        _show(found, arguments.trace, is_quiet=arguments.json)
    elif not arguments.json:
        sys.stdout.write(f"{verdict(reports)}\n")
    return 0 if ok else 1


def _say(report: Report | MomentsReport, *, is_quiet: bool) -> None:
    if not is_quiet:
        sys.stdout.write(f"{line(report)}\n")
        sys.stdout.flush()


def line(report: Report | MomentsReport) -> str:
    """Return what is told of a scope."""
    if isinstance(report, MomentsReport):
        text = f"{report.scope}: {report.moments:,} moments, {report.runs:,} runs"
        return text + ("" if report.problem is None else f"\n    FOUND: {report.problem}")
    seen = (
        f"{report.states:,} states, {report.transitions:,} transitions, {report.rests:,} times at rest"
        f" ({report.gateway_states:,} states of single gateways)"
    )
    end = "" if report.is_complete or report.problem else "; not all, stopped here"
    return f"{report.scope}: {seen}{end}" + ("" if report.problem is None else f"\n    FOUND: {report.problem}")


def verdict(reports: Sequence[Report | MomentsReport]) -> str:
    """Return what is told at the end, of scopes in which nothing was found."""
    cut_short = sum(not report.is_complete for report in reports)
    scopes = f"{len(reports)} scopes" if len(reports) > 1 else "1 scope"
    if cut_short:
        return f"nothing found, but NOT everything was tried: --states stopped {cut_short} of {scopes}"
    return f"nothing found: {scopes}, tried to the end"


def _show(report: Report | MomentsReport, file: Path | None, *, is_quiet: bool) -> None:
    lines = [f"{number:4} {text}" for number, text in enumerate(report.trace, 1)]
    text = "\n".join((f"{report.scope}: {report.problem}", *lines, ""))
    if file is not None:
        file.write_text(text, encoding="utf-8")
    if not is_quiet:
        sys.stdout.write(text if file is None else f"    what led to it is in {file}\n")


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{text}\n")
