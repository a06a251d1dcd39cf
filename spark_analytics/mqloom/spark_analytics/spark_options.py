"""The options that all commands of Spark share: where telemetry is, and where Spark runs."""

import argparse
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import SparkSession

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.sessions import LOCAL, session
from mqloom.spark_analytics.tables import Tables, tables


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


def session_of(arguments: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """Start Spark as the options say; raises LocalError for a setting that is none, or if there is no Java."""
    settings = {}
    for each in arguments.settings:
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("spark."):
            raise LocalError(f"--set {each}: a setting of Spark looks like spark.executor.memory=4g")
        settings[name] = value
    return session(arguments.master, settings)


def tables_of(spark: SparkSession, arguments: argparse.Namespace) -> Tables:
    """Return the tables of the place that the options name."""
    return tables(
        spark,
        spool=arguments.spool,
        endpoint=arguments.endpoint,
        parquet=getattr(arguments, "parquet", None),
        key_file=arguments.key_file,
        scratch=arguments.scratch,
    )
