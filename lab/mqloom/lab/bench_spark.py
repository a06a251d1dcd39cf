"""How long Spark takes for telemetry: the whole report, one query beside other engines, and the reader of streams.

The report is run as its users run it, as a command of its own, with the start of Spark. The query is the report's table
of utilisation, by Spark, DuckDB and pandas, all from the same Parquet files, which Spark's workers have made of the
spool; how long that took is told apart. The stream reads the spool to its end, all kinds, and keeps nothing.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from mqloom.core.errors import LocalError
from mqloom.lab.bench_spark_view import SparkFigures
from mqloom.lab.bench_spool import write_telemetry
from mqloom.spark_analytics.capacity.utilisation import METRICS, PERCENTS, utilisation
from mqloom.spark_analytics.sessions import session
from mqloom.spark_analytics.source import NAME
from mqloom.spark_analytics.tables import tables

MAX_RECORDS: Final = 1_000_000
STREAM_ROWS: Final = 10_000_000
"""So many rows the stream reads, if there are: its speed is told, and does not change."""

REPORT_S_MAX: Final = 3_600.0
TOLERANCE: Final = 0.01
"""How far percentiles of the engines may differ: each has a way of its own between two values."""

Tell = Callable[[float, str], None]
Answer = dict[str, tuple[int, float]]
"""By broker: how many windows, and the 95th percentile of its fullest resource."""

_QUERY: Final = "SELECT gateway, count(*) AS windows, {columns} FROM ({rows}) GROUP BY gateway ORDER BY gateway"


def measure(rows: int, folder: Path, master: str, tell: Tell) -> SparkFigures:
    """Measure one size. Raises LocalError if the report fails."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="spool-") as name:
        spool = Path(name)
        started = time.perf_counter()
        written = write_telemetry(spool, rows, lambda done: tell(0.1 * done / rows, "writing telemetry"))
        generate_s = time.perf_counter() - started
        tell(0.1, "the whole report")
        report_s = _report(spool, folder, master)
        with session(master) as spark:
            figures = _queries(spark, spool, folder, tell)
            tell(0.8, "a stream of it")
            stream_rows_s = _stream(spark, spool, folder)
        size = sum(path.stat().st_size for path in spool.iterdir())
    tell(1.0, "done")
    return SparkFigures(
        rows=written,
        spool_bytes=size,
        generate_s=generate_s,
        report_s=report_s,
        stream_rows_s=stream_rows_s,
        **figures,
    )


def _report(spool: Path, folder: Path, master: str) -> float:
    program = "from mqloom.core.command import main; raise SystemExit(main())"
    arguments = ["spark", "report", "--spool", str(spool), "--out", str(folder / "report.html"), "--master", master]
    arguments += ["--scratch", str(folder)]
    started = time.perf_counter()
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=REPORT_S_MAX, check=False)  # noqa: S603 - no shell
    if done.returncode:
        raise LocalError(f"the report failed: {done.stderr.decode(errors='replace')[-2_000:]}")
    return time.perf_counter() - started


def _queries(spark: SparkSession, spool: Path, folder: Path, tell: Tell) -> dict[str, Any]:
    spark.range(1).count()  # Spark is awake
    tell(0.5, "decoding into tables")
    started = time.perf_counter()
    with tables(spark, spool=spool, scratch=folder) as found:
        stage_s = time.perf_counter() - started
        [scratch] = folder.glob("mqloom-telemetry-*")
        files = f"{scratch}/load/*.parquet"
        tell(0.7, "utilisation by Spark")
        by_spark, spark_s = _timed(lambda: _by_spark(found["load"]))
        tell(0.75, "utilisation by DuckDB and pandas")
        by_pandas, pandas_s = _timed(lambda: _by_pandas(f"{scratch}/load"))
        by_duckdb, duckdb_s = _timed(lambda: _by_duckdb(files)) if find_spec("duckdb") else (by_pandas, None)
    return {
        "stage_s": stage_s,
        "spark_s": spark_s,
        "duckdb_s": duckdb_s,
        "pandas_s": pandas_s,
        "agree": _agree(by_spark, by_pandas) and _agree(by_duckdb, by_pandas),
    }


def _timed(query: Callable[[], Answer]) -> tuple[Answer, float]:
    started = time.perf_counter()
    answer = query()
    return answer, time.perf_counter() - started


def _by_spark(load: Any) -> Answer:
    return {row["gateway"]: (row["windows"], row["utilisation_p95"]) for row in utilisation(load).collect()}


def _by_duckdb(files: str) -> Answer:
    import duckdb  # noqa: PLC0415 - optional

    shares = ", ".join(str(percent / 100) for percent in PERCENTS)
    columns = ", ".join(
        f"quantile_cont({column}, [{shares}]) AS {name}, max({column}) AS {name}_max"
        for name, column in METRICS.items()
    )
    fullest = "greatest(input_ratio, output_ratio, cpu_ratio, memory_ratio) AS utilisation"
    rows = f"SELECT *, {fullest} FROM read_parquet('{files}')"  # noqa: S608 - our own folder
    with duckdb.connect() as connection:
        cursor = connection.execute(_QUERY.format(columns=columns, rows=rows))
        names = [each[0] for each in cursor.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {row["gateway"]: (row["windows"], row["utilisation"][PERCENTS.index(95)]) for row in found}


def _by_pandas(folder: str) -> Answer:
    import pandas as pd  # noqa: PLC0415 - `--help` need not load it

    ratios = ["input_ratio", "output_ratio", "cpu_ratio", "memory_ratio"]
    frame = pd.read_parquet(folder, columns=["gateway", "delay_s", *ratios])
    frame["utilisation"] = frame[ratios].max(axis=1)
    groups = frame.groupby("gateway")[list(METRICS.values())]
    quantiles, counts = groups.quantile([percent / 100 for percent in PERCENTS]), groups.size()
    groups.max()
    return {name: (int(count), float(quantiles.loc[(name, 0.95), "utilisation"])) for name, count in counts.items()}


def _agree(one: Answer, other: Answer) -> bool:
    return one.keys() == other.keys() and all(
        count == other[name][0] and abs(value - other[name][1]) <= TOLERANCE * max(value, other[name][1])
        for name, (count, value) in one.items()
    )


def _stream(spark: SparkSession, spool: Path, folder: Path) -> float:
    """Return how many rows a second a stream reads that is far behind, from its start."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="checkpoint-", ignore_cleanup_errors=True) as checkpoint:
        reader = spark.readStream.format(NAME).option("spool", str(spool)).option("max_records", MAX_RECORDS)
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        started = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        batch, rows, seconds = -1, 0, 1.0
        while query.isActive and rows < STREAM_ROWS:
            time.sleep(0.05)
            progress = query.lastProgress
            if progress is not None and progress.batchId > batch:
                batch, rows, seconds = progress.batchId, rows + progress.numInputRows, time.perf_counter() - started
        if rows < STREAM_ROWS:
            query.awaitTermination()
            rows, seconds = sum(each.numInputRows for each in query.recentProgress), time.perf_counter() - started
        query.stop()
    return rows / seconds
