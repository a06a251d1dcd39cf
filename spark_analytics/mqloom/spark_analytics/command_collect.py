"""Collect the telemetry of all gateways into a folder, keep it for a while, and serve it to Spark and other readers."""

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Final

from mqloom.core.command_amounts import in_units, size, time_span
from mqloom.core.errors import ConfigurationError, LocalError
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import collector_curve
from mqloom.spark_analytics.collecting import CollectPlan, CollectServer
from mqloom.spark_analytics.collector import Collector
from mqloom.spark_analytics.progress import progress
from mqloom.spark_analytics.retention import Retention

LISTEN: Final = "tcp://127.0.0.1:5570"
SERVE: Final = "tcp://127.0.0.1:5571"
PROBLEMS_MAX: Final = 20
"""What could not be archived is told one by one, up to so many."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("--spool", type=Path, required=True, metavar="DIR", help="the folder to collect into")
    parser.add_argument(
        "--listen", default=LISTEN, metavar="ADDRESS", help=f"where gateways send to; default: {LISTEN}, this machine"
    )
    parser.add_argument(
        "--serve", default=SERVE, metavar="ADDRESS", help=f"where readers ask; default: {SERVE}, this machine"
    )
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="the federation's keys, or its telemetry keys alone; else: no key"
    )
    parser.add_argument(
        "--archive",
        type=Path,
        metavar="OTHER",
        help="do not collect: add what is new in the spool to Parquet files, and end",
    )
    parser.add_argument("--keep-age", type=time_span, default=0.0, metavar="TIME", help="delete what is older: 30d")
    parser.add_argument("--keep-size", type=size, default=0, metavar="SIZE", help="delete the oldest beyond: 10GB")


def run(arguments: argparse.Namespace) -> int:
    """Collect until a signal ends it, or archive; raises LocalError if it cannot begin."""
    if arguments.archive is not None:
        return _archive(arguments.spool, arguments.archive)
    secrets = () if arguments.key_file is None else telemetry_secrets(arguments.key_file)
    if arguments.key_file is not None and not secrets:
        problem = "has no telemetry key; `mqloom keys telemetry` adds one"
        raise ConfigurationError(str(arguments.key_file), (problem,))
    plan = CollectPlan(
        spool=arguments.spool,
        listen=arguments.listen,
        serve=arguments.serve,
        retention=Retention(arguments.keep_age, arguments.keep_size),
        curve=collector_curve(secrets[0]) if secrets else None,
    )
    line = ProgressLine(arguments.spool)
    server = CollectServer(plan, line.tell, line.show)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    listening, serving = server.addresses
    line.tell(f"collecting into {arguments.spool}; gateways send to {listening}, readers ask {serving}")
    try:
        server.run()
    finally:
        server.close()
        line.end(server.collector)
    return 0


def _archive(spool: Path, folder: Path) -> int:
    """Archive what is new; 1 if something was gone, or could not be read."""
    try:
        from mqloom.spark_analytics.archive import archive  # noqa: PLC0415 - of all this alone needs Arrow
    except ModuleNotFoundError as error:
        raise LocalError(f"an archive needs {error.name}: pip install 'mqloom[spark]'") from None
    line = ProgressLine(spool)
    with progress("archive") as tell:
        done = archive(spool, folder, tell)
    for problem in done.problems[:PROBLEMS_MAX]:
        line.tell(problem)
    more = len(done.problems) - PROBLEMS_MAX
    rest = f"; {more:,} more parts could not be archived" if more > 0 else ""
    line.tell(
        f"{done.records:,} records, up to position {done.end:,}, are in {done.files:,} new files in {folder}{rest}"
    )
    return 1 if done.problems else 0


class ProgressLine:
    """One line on standard error that is written over, where somebody looks; beside it, what there is to tell.

    Where that cannot be written, as when it goes to a file on the disk that is full, collecting goes on without.
    """

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        self._is_seen = sys.stderr.isatty()
        self._shown = ""
        self._before = (time.monotonic(), 0)

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self._clear()
        self._put(f"mqloom collect: {text}\n")

    def show(self, collector: Collector[bytes]) -> None:
        """Write how it stands over what was there before."""
        now, records = time.monotonic(), collector.counts["records"]
        (then, before), self._before = self._before, (now, records)
        rate = (records - before) / max(now - then, 1e-9)
        self.write(f"{_summary(collector)}, {rate:,.0f}/s")

    def write(self, text: str) -> None:
        """Write something over what was there before, where somebody looks."""
        if self._is_seen:
            self._clear()
            self._shown = text
            self._put(text)

    def end(self, collector: Collector[bytes]) -> None:
        """Tell what came in all."""
        self.tell(f"ended; {_summary(collector)}")

    def _clear(self) -> None:
        if self._shown:
            self._put("\r" + " " * len(self._shown) + "\r")
            self._shown = ""

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _summary(collector: Collector[bytes]) -> str:
    counts = collector.counts
    text = f"{counts['records']:,} records of {collector.gateways:,} gateways, {in_units(counts['bytes'])}"
    names = ("repeated", "outdated", "early", "refused", "strangers", "failed commits", "put off", "forgotten")
    others = [f"{counts[name]:,} {name}" for name in names]
    return ", ".join([text, *(each for each in others if not each.startswith("0 "))])
