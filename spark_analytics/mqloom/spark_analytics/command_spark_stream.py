"""Watch telemetry as it comes in, and publish alerts to the federation: on mqloom/v1/alerts, as JSON.

It goes on where it was stopped, or died: the folder of --checkpoint has all that it needs, and what
was published is not published again. While the collector is away it waits.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from mqloom.core import layout
from mqloom.core.broker_login import add_connection_options, login_of
from mqloom.core.command_numbers import positive_number, whole_number
from mqloom.core.errors import LocalError
from mqloom.core.topics import check_topic
from mqloom.spark_analytics.alert_journal import AlertJournal
from mqloom.spark_analytics.alert_publisher import AlertPublisher
from mqloom.spark_analytics.alerts import Limits
from mqloom.spark_analytics.place import Place, place_of
from mqloom.spark_analytics.source import NAME
from mqloom.spark_analytics.spark_failures import is_no_answer, reason_of
from mqloom.spark_analytics.spark_options import JavaEndedError, add_place, add_session, session_of

WATCHED: Final = ("load", "link", "migration", "dropped", "missing")
MAX_RECORDS: Final = 200_000
EVERY_S: Final = 5.0
_LOOK_S: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Name the arguments."""
    add_place(parser, archive=False)
    add_session(parser)
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="DIR", help="where it keeps how far it is")
    parser.add_argument("--topic", default=layout.alerts(), help="where alerts are published (%(default)s)")
    parser.add_argument(
        "--every", type=positive_number(3_600), default=EVERY_S, metavar="SECONDS", help="how often to look; 5"
    )
    parser.add_argument(
        "--max-records", type=whole_number(), default=MAX_RECORDS, metavar="N", help="records at once; 200,000"
    )
    parser.add_argument(
        "--starting", choices=("earliest", "latest"), default="earliest", help="where to begin; earliest"
    )
    limits = Limits()
    parser.add_argument(
        "--overload",
        type=positive_number(10),
        default=limits.begin_ratio,
        metavar="RATIO",
        help="what of a resource is too much (%(default)s)",
    )
    parser.add_argument(
        "--windows",
        type=whole_number(1_000),
        default=limits.windows,
        metavar="N",
        help="load samples in a row before it is an alert (%(default)s)",
    )
    parser.add_argument("--once", action="store_true", help="end when all that is there now was looked at")
    add_connection_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C, or once. Raises LocalError, or BrokerError if the broker for alerts does not answer."""
    check_topic(arguments.topic)
    place = place_of(arguments.spool, arguments.endpoint, arguments.key_file)
    if arguments.endpoint:  # where nobody has ever answered there is a mistake, and not somebody away
        with place.ranges() as ranges:
            ranges.bounds()
    ratio = arguments.overload
    limits = Limits(begin_ratio=ratio, end_ratio=min(0.9, 0.95 * ratio), windows=arguments.windows)
    journal = AlertJournal(arguments.checkpoint.absolute() / "alerts", limits)
    pending = [alert.id for alert in journal.pending]
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        with (
            AlertPublisher(login_of(arguments), arguments.topic, journal.publisher, pending) as publisher,
            session_of(arguments) as spark,
        ):
            follow(lambda: _start(spark, arguments, place, journal, publisher), stopping, once=arguments.once)
    except JavaEndedError:
        if not stopping.is_set():  # systemd, for one, tells all processes of a service to end, and Java was faster
            raise
    return 0


def _start(
    spark: SparkSession, arguments: argparse.Namespace, place: Place, journal: AlertJournal, publisher: AlertPublisher
) -> StreamingQuery:
    reader = spark.readStream.format(NAME).options(
        **place.options(),
        max_records=arguments.max_records,
        starting=arguments.starting,
        on_missing="skip",
        on_broken="skip",
    )

    def watch(batch: DataFrame, number: int) -> None:
        told = journal.batch(number, lambda: _rows(batch), publisher.publish)
        if told:
            print(f"{told} alerts on {arguments.topic}", file=sys.stderr)  # noqa: T201 - progress

    writer = reader.load().writeStream.foreachBatch(watch)
    writer = writer.option("checkpointLocation", str(arguments.checkpoint.absolute() / "query"))
    if arguments.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(arguments.every * 1_000)} milliseconds").start()


def _rows(batch: DataFrame) -> list[Row]:
    """Return what is watched, in the order of the spool: some of the few that one batch may have."""
    wanted = batch.where(sql.col("kind").isin(*WATCHED))
    at = sql.col("at").cast("double").alias("at_s")
    rows = wanted.select("position", "gateway", at, "kind", *WATCHED).collect()
    return sorted(rows, key=lambda row: row["position"])


def follow(start: Callable[[], StreamingQuery], stopping: threading.Event, *, once: bool = False) -> None:
    """Run a query until somebody stops it; raises LocalError with what has ended it otherwise.

    When the collector has been away for so long that the query has ended, another one goes on from its checkpoint; but
    whoever looks once waits for an end.
    """
    failures = 0
    while True:
        query = start()
        try:
            _tell(query, stopping)
            error = query.exception()
        finally:
            query.stop()
        if error is None or stopping.is_set():
            return
        if once or not is_no_answer(error):
            raise LocalError(reason_of(error))
        failures += 1
        if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th... time
            print(f"{reason_of(error)} Trying again", file=sys.stderr, flush=True)  # noqa: T201 - progress


def _tell(query: StreamingQuery, stopping: threading.Event) -> None:
    """Tell how far it is, until it ends or somebody stops it."""
    told = -1
    while query.isActive and not stopping.is_set():
        time.sleep(_LOOK_S)
        progress = query.lastProgress
        if progress is not None and progress.batchId > told and progress.numInputRows:
            told = progress.batchId
            source = progress.sources[0]
            text = f"batch {told}: {progress.numInputRows:,} records, up to {source.endOffset}"
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress
