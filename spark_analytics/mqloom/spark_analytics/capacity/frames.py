"""Small results of Spark as columns of numpy, and columns as DataFrames again: between the two worlds of an analysis.

Spark sums up millions of rows; what is left is small enough for a fit, a plot and a table. Nothing here may be called
with raw rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

Telemetry = Mapping[str, DataFrame]
"""A DataFrame for each kind of record, by its name in `mqloom.core.telemetry.KINDS`."""

Columns = dict[str, NDArray[Any]]

ROWS_MAX: Final = 2_000_000
"""More rows of a result are not collected: a result that large is none, and would not fit the driver."""


class TooLargeError(AssertionError):
    """Somebody collects what has not been summed up: a mistake of ours."""


def columns(frame: DataFrame) -> Columns:
    """Return a small result by column; numbers as numbers, all else as objects."""
    table = frame.limit(ROWS_MAX + 1).toArrow()
    if table.num_rows > ROWS_MAX:
        raise TooLargeError(f"more than {ROWS_MAX} rows to collect: {frame.columns}")
    return {name: table.column(name).to_numpy() for name in table.column_names}


def split(table: Columns, by: str) -> dict[str, Columns]:
    """Return the rows of each value of a column, by that value in its order."""
    places: dict[str, list[int]] = {}
    for place, key in enumerate(table[by]):  # of thousands of brokers to compare all rows with each would take hours
        places.setdefault(str(key), []).append(place)
    rows = {key: np.array(places[key]) for key in sorted(places)}
    return {key: {name: values[found] for name, values in table.items()} for key, found in rows.items()}


def frame_of(spark: SparkSession, rows: Iterable[Any], schema: str) -> DataFrame:
    """Return dataclasses, or tuples, as a DataFrame with the columns of the schema."""
    names = [part.split()[0] for part in schema.split(",")]
    found: list[tuple[Any, ...]] = []
    for row in rows:
        values: Sequence[Any] = row if isinstance(row, tuple) else [_field(row, name) for name in names]
        found.append(tuple(values))
    return spark.createDataFrame(found, schema)


def _field(row: Any, name: str) -> Any:
    value = getattr(row, name)
    return value.item() if isinstance(value, np.generic) else value
