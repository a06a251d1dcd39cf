"""The schemas of Spark's tables of telemetry: one for each kind of record, and one that has all kinds at once."""

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqloom.spark_analytics.columns import COMMON, Column, ColumnType, kinds_in_one, own_columns

_TYPES: Final[dict[ColumnType, DataType]] = {
    "string": StringType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
}


def columns_of(kind: str) -> StructType:
    """Return the schema of a kind's table: the common columns, then the kind's own."""
    return _struct(COMMON + own_columns(kind))


def columns_of_all() -> StructType:
    """Return the schema of all kinds at once: common columns, `kind`, and for each kind its own columns in one.

    That is null in the rows of other kinds. Rows of the kind `missing` stand for what could not be read.
    """
    schema = _struct((*COMMON, Column("kind", "string")))
    for kind in kinds_in_one():
        schema.add(StructField(kind, _struct(own_columns(kind))))
    return schema


def _struct(columns: tuple[Column, ...]) -> StructType:
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns])
