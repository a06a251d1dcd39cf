"""Telemetry as tables: one DataFrame and one SQL view for each kind of record, wherever the records are.

    with tables(spark, spool="telemetry") as found:
        found["load"].groupBy("gateway").avg("cpu_ratio").show()
        spark.sql("SELECT gateway, max(cpu_ratio) FROM telemetry_load GROUP BY gateway").show()

Records of a spool are decoded once, into Parquet files in a scratch folder that goes when the tables are closed.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from mqloom.core.errors import LocalError
from mqloom.core.telemetry import KINDS
from mqloom.spark_analytics.archive import STATE as ARCHIVE_STATE
from mqloom.spark_analytics.columns import own_columns
from mqloom.spark_analytics.place import place_of
from mqloom.spark_analytics.schemas import columns_of
from mqloom.spark_analytics.staging import stage, staged_name


@dataclass(frozen=True, slots=True)
class Finding:
    """Positions that could not be read, and why."""

    begin: int
    end: int
    problem: str


class Tables(Mapping[str, DataFrame]):
    """The tables by kind: `load`, `broker`, `link` and so on; a kind without records has an empty table."""

    def __init__(self, frames: dict[str, DataFrame], findings: tuple[Finding, ...], scratch: Path | None) -> None:
        self._frames = frames
        self._scratch = scratch
        self.findings = findings
        """What could not be read."""

    def __getitem__(self, kind: str) -> DataFrame:
        return self._frames[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete the scratch folder, if one was made; the tables cannot be used any more."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def tables(
    spark: SparkSession,
    *,
    spool: str | Path | None = None,
    endpoint: str | None = None,
    parquet: str | Path | None = None,
    key_file: str | Path | None = None,
    scratch: str | Path | None = None,
) -> Tables:
    """Return the tables of a spool at hand, of a collector's spool, or of an archive; also as views `telemetry_KIND`.

    `key_file` has the telemetry key, if the collector has one: the driver and all executors need it at the same path.
    `scratch` is where to put a folder for decoded records: on a cluster it must be one that all machines share.
    Raises LocalError or RemoteError if nothing can be read there.
    """
    if parquet is not None:
        if spool or endpoint:
            raise LocalError("telemetry is read from one place: an archive (parquet), a spool or an endpoint")
        folder = Path(parquet).absolute()
        if not any((folder / name).exists() for name in (*KINDS, ARCHIVE_STATE)):
            raise LocalError(
                f"{folder} is no archive: there is no folder of a kind of record in it; `mqloom collect --archive`"
            )
        return _views(Tables(_archived(spark, folder), (), None))
    place = place_of(spool, endpoint, key_file)
    folder = _scratch(scratch)
    try:
        told = stage(spark, place, folder).collect()
        check_shared(folder, told)
        findings = tuple(Finding(row["begin"], row["end"], row["problem"]) for row in told if row["problem"])
        return _views(Tables(_archived(spark, folder), findings, folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _scratch(above: Path | str | None) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="mqloom-telemetry-", dir=above)).absolute()
    except OSError as error:
        where = above or tempfile.gettempdir()
        raise LocalError(
            f"{where}: {error.strerror}: scratch must be a folder that is there and can be written"
        ) from None


def check_shared(folder: Path, told: list[Row]) -> None:
    """Raise LocalError if executors have written where we do not see it: tables would be empty, and nobody knew."""
    for row in told:
        if row["kind"] and not (folder / row["kind"] / staged_name(row["begin"], row["end"])).exists():
            hint = "on a cluster, scratch must be a folder that all machines share under one path"
            raise LocalError(f"{folder}: what executors have written there is not here; {hint}")


def _archived(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    return {kind: _archived_kind(spark, folder, kind) for kind in KINDS}


def _archived_kind(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    """Return the table of `folder/KIND`, whatever partitions are below; columns that older files lack are filled in."""
    schema = columns_of(kind)
    if not (folder / kind).is_dir():
        return spark.createDataFrame([], schema)
    frame = spark.read.schema(schema).parquet((folder / kind).as_uri())
    if any((folder / kind).glob("*/gateway=*")):
        frame = frame.withColumn("gateway", _decoded(frame["gateway"]))
    defaults = {column.name: column.default for column in own_columns(kind) if column.default is not None}
    return frame.select(
        *(
            sql.coalesce(frame[name], sql.lit(defaults[name])).alias(name) if name in defaults else frame[name]
            for name in schema.fieldNames()
        )
    )


def _decoded(name: Column) -> Column:
    """Return the name that a folder stands for: Spark makes a character of each byte that is percent-encoded there."""
    found = sql.encode(name, "ISO-8859-1").cast("string")
    return sql.when(name.rlike(r"^[\x00-\xFF]*$") & sql.is_valid_utf8(found), found).otherwise(name)


def _views(found: Tables) -> Tables:
    for kind, frame in found.items():
        frame.createOrReplaceTempView(f"telemetry_{kind}")
    return found
