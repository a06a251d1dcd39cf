"""Measure Spark on telemetry: the whole report, one query beside DuckDB and pandas, and how fast a stream is read."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console

from mqloom.core.command_numbers import whole_number
from mqloom.core.errors import LocalError
from mqloom.lab.bench_spark_view import SparkFigures, as_json, view
from mqloom.spark_analytics.progress import progress

SIZES: Final = (5_000_000, 20_000_000, 50_000_000)
ROWS_MAX: Final = 1_000_000_000
LOCAL: Final = "local[*]"


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    parser.add_argument(
        "--rows",
        type=whole_number(ROWS_MAX),
        action="append",
        metavar="N",
        help=f"records of telemetry; may be given several times; without it {sizes}",
    )
    parser.add_argument("--master", default=LOCAL, metavar="URL", help="where Spark runs (%(default)s)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the telemetry is written, 70 bytes a record")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Measure; 1 if engines do not agree. Raises LocalError without Java, or if the report fails."""
    try:
        from mqloom.lab.bench_spark import measure  # noqa: PLC0415 - other benches do without Spark
    except ModuleNotFoundError as error:
        raise LocalError(f"there is no {error.name}: pip install 'mqloom[bench,spark]'") from None
    sizes = sorted(arguments.rows or SIZES)
    found: list[SparkFigures] = []
    with (
        tempfile.TemporaryDirectory(prefix="mqloom-bench-", dir=arguments.folder) as folder,
        progress("bench spark") as tell,
    ):
        for size in sizes:
            done, share = sum(each for each in sizes if each < size) / sum(sizes), size / sum(sizes)

            def say(part: float, text: str, size: int = size, done: float = done, share: float = share) -> None:
                tell(done + part * share, f"{size:,} rows: {text}")

            found.append(measure(size, Path(folder), arguments.master, say))
    if arguments.json:
        print(json.dumps(as_json(arguments.master, found)))  # noqa: T201 - a command's answer
    else:
        Console(highlight=False).print(view(found))
    if not all(each.agree for each in found):
        sys.stderr.write("mqloom bench spark: the engines do not agree on the utilisation of brokers\n")
        return 1
    return 0
