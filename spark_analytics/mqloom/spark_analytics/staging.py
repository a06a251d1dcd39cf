"""One pass over telemetry that writes each kind to Parquet files of its own, for all that is asked of it later.

Executors pull their ranges, decode each record once and write what they find; nothing goes through Spark's own rows.
A file is named after its range and renamed into place when it is whole, so a task that is tried again, or twice at
once, changes nothing. The folder must be one that all executors and the driver see under the same path.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from mqloom.core.telemetry import KINDS
from mqloom.spark_analytics.columns import arrow_schema
from mqloom.spark_analytics.decoding import Gathering
from mqloom.spark_analytics.place import Place
from mqloom.spark_analytics.planning import pieces
from mqloom.spark_analytics.segments import Gap

ROWS: Final = 131_072
"""Records that are gathered before they are written."""

RANGE_RECORDS: Final = 500_000
"""Records that one task reads, about."""

GAPS_MAX: Final = 100
"""What could not be read of one task's range: so many parts are told one by one."""

STAGED: Final = "kind string, begin long, end long, rows long, problem string"
"""What staging tells: how many rows of each kind a range had, and with `problem` what of it could not be read."""


def stage(spark: SparkSession, place: Place, folder: Path, range_records: int = RANGE_RECORDS) -> DataFrame:
    """Return a plan that, when it is run, writes `folder/KIND/*.parquet` and tells what was staged."""
    with place.ranges() as ranges:
        found = pieces(ranges, *ranges.bounds(), range_records)
    stager = _Stager(place, str(folder.absolute()), found)
    return spark.range(0, len(found), 1, max(1, len(found))).mapInArrow(stager, STAGED)


class _Stager:
    """What executors do with their ranges."""

    def __init__(self, place: Place, folder: str, found: list[tuple[int, int]]) -> None:
        self._place = place
        self._pieces = found
        self._folder = Path(folder)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield self._stage(*self._pieces[number])

    def _stage(self, begin: int, end: int) -> pa.RecordBatch:
        gathering = Gathering()
        files = _Files(self._folder, begin, end)
        with self._place.ranges() as ranges:
            for part in ranges.parts(begin, end):
                gathering.add(part)
                if gathering.rows >= ROWS:
                    files.write(gathering)
        files.write(gathering)
        files.finish()
        told = [(kind, begin, end, rows, "") for kind, rows in files.rows.items()]
        told += [("", gap.begin, gap.end, 0, gap.problem) for gap in _few(gathering.gaps)]
        columns = list(zip(*told, strict=True)) or [()] * 5
        types = [pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string()]
        arrays = [pa.array(column, each) for column, each in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=["kind", "begin", "end", "rows", "problem"])


def staged_name(begin: int, end: int) -> str:
    """Return the name of the files of a range."""
    return f"{begin:020d}-{end:020d}.parquet"


def _few(gaps: list[Gap]) -> list[Gap]:
    """Return gaps as they are, or the last of very many as one."""
    if len(gaps) <= GAPS_MAX:
        return gaps
    kept, rest = gaps[: GAPS_MAX - 1], gaps[GAPS_MAX - 1 :]
    text = f"between positions {rest[0].begin} and {rest[-1].end} {len(rest)} more parts, such as: {rest[0].problem}"
    return [*kept, Gap(rest[0].begin, rest[-1].end, text)]


class _Files:
    """The Parquet files of one range, one for each kind that it has."""

    def __init__(self, folder: Path, begin: int, end: int) -> None:
        self._folder = folder
        self._name = staged_name(begin, end)
        self._own = f".{self._name}.{uuid.uuid4().hex}"
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.rows: dict[str, int] = {}

    def write(self, gathering: Gathering) -> None:
        """Take what was gathered."""
        for kind in KINDS:
            batch = gathering.take(kind)
            if not batch.num_rows:
                continue
            if kind not in self._writers:
                (self._folder / kind).mkdir(parents=True, exist_ok=True)
                path = self._folder / kind / self._own
                self._writers[kind] = pq.ParquetWriter(path, arrow_schema(kind), compression="snappy")
            self._writers[kind].write_batch(batch)
            self.rows[kind] = self.rows.get(kind, 0) + batch.num_rows

    def finish(self) -> None:
        """Put the files in place."""
        for kind, writer in self._writers.items():
            writer.close()
            os.replace(self._folder / kind / self._own, self._folder / kind / self._name)
