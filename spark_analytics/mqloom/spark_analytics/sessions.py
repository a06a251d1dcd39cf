"""A session of Spark as our commands want it: on this machine or a cluster, in UTC, with the source `mqloom`."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession

from mqloom.spark_analytics.java import find_java

LOCAL: Final = "local[*]"

SMALL: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings for a few thousand records, as in tests: Java and Spark spend no time on making queries fast."""

MEMORY_SHARE: Final = 4
"""On this machine Spark gets one part in so many of the memory."""

MEMORY_MB_RANGE: Final = (1_024, 16_384)


@contextmanager
def session(master: str = LOCAL, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end, unless it ran already. Raises JavaError if there is no Java for it.

    `settings` are Spark's own, for instance {"spark.executor.memory": "4g"}; they win over ours.
    """
    if SparkSession.getActiveSession() is not None:
        yield start(master, settings)
        return
    with TemporaryDirectory(prefix="mqloom-warehouse-", ignore_cleanup_errors=True) as folder:
        # Else a query that names an unknown table leaves a folder `spark-warehouse` wherever one happens to be.
        own = {"spark.sql.warehouse.dir": folder} if master.startswith("local") else {}
        spark = start(master, own | dict(settings or {}))
        try:
            yield spark
        finally:
            spark.stop()


def start(master: str = LOCAL, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or return the session that there is in this process. Raises JavaError."""
    os.environ["JAVA_HOME"] = str(find_java())
    # Executors must run the Python that has us installed, not whichever comes first on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("mqloom")
    for name, value in (_settings(master) | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _settings(master: str) -> dict[str, str]:
    found = {
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
    }
    if master.startswith("local"):
        found |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": f"{_memory_mb()}m",
            # Tasks that do little cost more than they bring, on few cores.
            "spark.sql.shuffle.partitions": str(max(2, 2 * (os.cpu_count() or 1))),
        }
    return found


def _memory_mb() -> int:
    low, high = MEMORY_MB_RANGE
    try:
        whole_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (AttributeError, ValueError, OSError):  # not every system tells
        return low
    return min(max(whole_mb // MEMORY_SHARE, low), high)
