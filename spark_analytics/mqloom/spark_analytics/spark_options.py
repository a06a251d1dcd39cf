"""The options that all commands of Spark share: where telemetry is, and where Spark runs."""

import argparse
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.sessions import LOCAL, session
from mqloom.spark_analytics.spark_failures import reason_of
from mqloom.spark_analytics.tables import Tables, tables
from mqloom.spark_analytics.task_progress import TellTasks, watched_tasks

OWN_BAR: Final = {"spark.ui.showConsoleProgress": "false"}
"""For commands that show themselves how far Spark is: its own bar would write over theirs."""


def add_place(parser: argparse.ArgumentParser, *, archive: bool = True) -> None:
    """Add where telemetry is."""
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--spool", type=Path, metavar="DIR", help="the folder that `mqloom collect` writes")
    place.add_argument("--endpoint", metavar="ADDRESS", help="a collector's address for readers: tcp://host:5571")
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="with --endpoint: the telemetry keys, if the collector has one"
    )
    if archive:
        place.add_argument("--parquet", type=Path, metavar="DIR", help="an archive of `mqloom collect`")


def add_session(parser: argparse.ArgumentParser) -> None:
    """Add where Spark runs, and how."""
    parser.add_argument("--master", default=LOCAL, metavar="URL", help="spark://host:7077, or this machine: local[*]")
    parser.add_argument(
        "--scratch", type=Path, metavar="DIR", help="for decoded records; on a cluster a folder that all machines share"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.executor.memory=4g; may be given several times",
    )


class JavaEndedError(LocalError):
    """Spark's Java has ended before we did."""


@contextmanager
def session_of(arguments: argparse.Namespace, own: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark as the options say, and stop it at the end. `own` are settings that `--set` wins over.

    Raises LocalError for a setting that is none, if there is no Java, and for what goes wrong in Spark: in a line.
    """
    settings = dict(own or {})
    for each in arguments.settings:
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("spark."):
            raise LocalError(f"--set {each}: a setting of Spark looks like spark.executor.memory=4g")
        settings[name] = value
    # Of each query that cannot be answered it writes pages of JSON to stderr, before the line that we write.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_ours)
    where = f"Spark does not start at --master {arguments.master}; is that a cluster that runs, or local[*]? "
    try:
        with session(arguments.master, settings) as spark:
            where = ""
            yield spark
    except (Py4JNetworkError, ConnectionError):
        raise JavaEndedError(
            "Spark's Java has ended: was it stopped, or had it too little memory? (--set spark.driver.memory=4g)"
        ) from None
    except (PySparkException, Py4JError) as error:
        raise LocalError(f"{where}{reason_of(error)}") from None


def tables_of(spark: SparkSession, arguments: argparse.Namespace, tell: TellTasks) -> Tables:
    """Return the tables of the place that the options name; `tell` hears how far they are."""
    with watched_tasks(spark, tell):
        return _tables_of(spark, arguments)


def _tables_of(spark: SparkSession, arguments: argparse.Namespace) -> Tables:
    return tables(
        spark,
        spool=arguments.spool,
        endpoint=arguments.endpoint,
        parquet=getattr(arguments, "parquet", None),
        key_file=arguments.key_file,
        scratch=arguments.scratch,
    )


def _is_ours(record: logging.LogRecord) -> bool:
    """Leave out pages that py4j writes to the root logger when Java has ended: we say so in a line."""
    return record.module != "java_gateway"
