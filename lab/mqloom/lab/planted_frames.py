"""Records as tables of Spark, without a spool in between: for tests and experiments that know what is in them."""

from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import KINDS, Record
from mqloom.spark_analytics.schemas import columns_of


def frames(spark: SparkSession, records: Mapping[GatewayId, Sequence[Record]], epoch: int = 1) -> dict[str, DataFrame]:
    """Return a table for each kind of record, as `mqloom.spark_analytics.tables` has them."""
    rows: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in KINDS}
    kinds = {record: kind for kind, record in KINDS.items()}
    position = 0
    for gateway, found in records.items():
        for number, record in enumerate(found, 1):
            at, *rest = msgspec.structs.astuple(record)
            rows[kinds[type(record)]].append((position, str(gateway), epoch, number, at, *rest))
            position += 1
    return {kind: _frame(spark, kind, found) for kind, found in rows.items()}


def _frame(spark: SparkSession, kind: str, rows: list[tuple[object, ...]]) -> DataFrame:
    schema = columns_of(kind)
    seconds = ", ".join(
        f"`{field.name}` {'double' if field.name == 'at' else field.dataType.simpleString()}" for field in schema
    )
    return spark.createDataFrame(rows, seconds).withColumn("at", f.timestamp_seconds("at"))
