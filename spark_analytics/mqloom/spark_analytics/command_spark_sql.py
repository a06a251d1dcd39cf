"""Query telemetry with SQL: the tables are telemetry_load, telemetry_link, and so on for each kind of record."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Final, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import LocalError
from mqloom.spark_analytics.capacity.views import CapacityViews
from mqloom.spark_analytics.progress import progress
from mqloom.spark_analytics.spark_options import OWN_BAR, add_place, add_session, session_of, tables_of
from mqloom.spark_analytics.tables import Tables
from mqloom.spark_analytics.task_progress import watched_tasks

ROWS_MAX: Final = 1_000_000
ROWS: Final = 100
QUERY_LINES_MAX: Final = 1_000
"""Lines of one query at the prompt; more: refused."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    parser.add_argument("query", nargs="?", help="one query; without it they are read, each up to its `;`")
    add_place(parser)
    add_session(parser)
    parser.add_argument("--rows", type=whole_number(ROWS_MAX), default=ROWS, metavar="N", help="rows to show; 100")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="table")


def run(arguments: argparse.Namespace) -> int:
    """Answer the query, or queries until the end of input."""
    with session_of(arguments, OWN_BAR) as spark, _tables(spark, arguments) as found:
        for finding in found.findings:
            print(f"left out: {finding.problem}", file=sys.stderr)  # noqa: T201 - a command's answer
        views = CapacityViews(found)
        if arguments.query is not None:
            _answer(spark, views, arguments.query, arguments)
            return 0
        failed = False
        for query in queries(sys.stdin, sys.stderr if sys.stdin.isatty() else None):
            try:
                _answer(spark, views, query, arguments)
            except LocalError as error:
                print(error, file=sys.stderr)  # noqa: T201 - at a prompt one goes on
                failed = True
    return int(failed and not sys.stdin.isatty())  # a script must see that it lacks an answer


def _tables(spark: SparkSession, arguments: argparse.Namespace) -> Tables:
    with progress("sql", is_logged=False) as tell:
        tell(0.0, "reading telemetry", upto=1.0)
        return tables_of(spark, arguments, tell.tasks)


def queries(lines: TextIO, prompt: TextIO | None) -> Iterator[str]:
    """Yield what ends with `;`, and what is left at the end of input; raises LocalError for one without end."""
    query: list[str] = []
    while True:
        if prompt is not None:
            print("sql> " if not query else "...> ", end="", file=prompt, flush=True)
        line = lines.readline()
        query.append(line)
        if len(query) > QUERY_LINES_MAX:
            raise LocalError(f"a query of more than {QUERY_LINES_MAX} lines; is there a `;` missing?")
        if not line or line.rstrip().endswith(";"):
            text = "".join(query).strip().removesuffix(";").strip()
            if text:
                yield text
            query = []
        if not line:
            return


def _answer(spark: SparkSession, views: CapacityViews, query: str, arguments: argparse.Namespace) -> None:
    answer = io.StringIO()
    try:
        with progress("sql", is_logged=False) as tell, watched_tasks(spark, tell.tasks):
            views.ensure(query, tell)
            tell(0.0, "answering", upto=1.0)
            with redirect_stdout(answer):  # it comes when the bar is gone
                _print(spark.sql(query).limit(arguments.rows), arguments)
        sys.stdout.write(answer.getvalue())
        sys.stdout.flush()  # a program at the other end of a pipe asks its next question after this answer
    except PySparkException as error:
        raise LocalError(f"Spark cannot do that: {error.getMessage() or error}") from None


def _print(answer: DataFrame, arguments: argparse.Namespace) -> None:
    if arguments.format == "table":
        answer.show(arguments.rows, truncate=False)
        return
    rows = answer.collect()
    if arguments.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([answer.columns, *rows])
    else:
        for row in rows:
            print(json.dumps(row.asDict(recursive=True), default=str))  # noqa: T201 - a command's answer
