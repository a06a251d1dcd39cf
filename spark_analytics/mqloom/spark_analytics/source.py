"""The source `mqloom` of Spark: telemetry, all there is or as it comes in, pulled by executors from where it is.

Theory of operation. An offset is a position of the spool, and a micro-batch is a range of positions. The driver asks
how far there are records and plans ranges; executors pull the frames of theirs and hand them on as Arrow. What a range
has never changes, so a batch that was planned before the driver died is read again as it was. Only the collector
deletes, whoever reads: what a query has not read by then is an error, or is skipped and counted, as the query says.
Offsets name their spool: in another one, which may be at the same place, the same positions are other records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqloom.spark_analytics.decoding import Gathering, missing_rows
from mqloom.spark_analytics.planning import pieces
from mqloom.spark_analytics.ranges import Ranges
from mqloom.spark_analytics.schemas import columns_of, columns_of_all
from mqloom.spark_analytics.segments import Gap, SpoolError
from mqloom.spark_analytics.source_options import SourceOptions, source_options

NAME: Final = "mqloom"

ROWS: Final = 65_536
"""Records that are gathered into one batch of Arrow."""

Offset = dict[str, int | str]
"""Position, how many were skipped, and the id of the spool; without an id for a spool that has none, and in checkpoints
of an earlier version."""


class MQLoomSource(DataSource):
    """`spark.read.format("mqloom")` and `spark.readStream.format("mqloom")`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return NAME

    def schema(self) -> StructType:
        """Return the schema of one kind's table, or of all kinds in one."""
        kind = source_options(self.options).kind
        return columns_of(kind) if kind else columns_of_all()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads all there is."""
        return _Reader(source_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads while records come in."""
        return _StreamReader(source_options(self.options))


@dataclass(frozen=True)
class Piece(InputPartition):
    """The range that one task reads."""

    begin: int
    end: int
    spool: str = ""


class _Reader(DataSourceReader):
    """All there is when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the pieces; it runs on the driver."""
        with self._options.place.ranges() as ranges:
            begin, end = ranges.bounds()
            spool = ranges.identity()
            found = pieces(ranges, begin, end, self._options.partition_records)
        return [Piece(*piece, spool) for piece in found] or [Piece(begin, begin)]  # Spark wants one at least

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece; it runs on executors."""
        assert isinstance(partition, Piece)
        return read_piece(self._options, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Batch after batch, each from where the last one ended."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._upto: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        with self._options.place.ranges() as ranges:
            bounds, spool = ranges.bounds(), ranges.identity()
        return _offset(bounds.end if self._options.starting == "latest" else bounds.begin, 0, spool)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much one batch may have."""
        records = self._options.max_records
        return ReadMaxRows(records) if records else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember how far there are records now: a query of what is available goes no further."""
        with self._options.place.ranges() as ranges:
            self._upto = ranges.bounds().end

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        position = int(start["position"])
        with self._options.place.ranges() as ranges:
            spool = check_spool(self._options, ranges, str(start.get("spool", "")))
            begin, end = ranges.bounds()
            if end < position:  # what a collector has told anybody of is on its disk: this is another's
                text = f"{self._options.place} ends at position {end}, and this query has read up to {position}"
                raise SpoolError(
                    f"{text}: it is another spool; begin with a checkpoint of its own, or restore the first"
                )
            end = end if self._upto is None else min(end, self._upto)
            if end <= position or (isinstance(limit, ReadMinRows) and end - position < limit.min_rows):
                return start
            skipped = max(0, min(begin, end) - position)
            if skipped:
                self._options.check(Gap(position, position + skipped, "", is_gone=True))
            if isinstance(limit, ReadMaxRows):
                end = min(end, max(ranges.boundary(position + skipped, limit.max_rows), position + skipped))
        return _offset(end, int(start["skipped"]) + skipped, spool)

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return how far there are records, for progress reports."""
        with self._options.place.ranges() as ranges:
            return _offset(ranges.bounds().end, 0, ranges.identity())

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the pieces of a batch; after a restart, of one that was planned before."""
        begin, until = int(start["position"]), int(end["position"])
        with self._options.place.ranges() as ranges:
            spool = check_spool(self._options, ranges, str(end.get("spool", "")))
            found = pieces(ranges, begin, until, self._options.partition_records)
        return [Piece(*piece, spool) for piece in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece; it runs on executors."""
        assert isinstance(partition, Piece)
        return read_piece(self._options, partition)


def _offset(position: int, skipped: int, spool: str) -> Offset:
    """Return an offset; Spark compares their JSON, so the keys always come in this order."""
    offset: Offset = {"position": position, "skipped": skipped}
    return offset | {"spool": spool} if spool else offset


def check_spool(options: SourceOptions, ranges: Ranges, known: str) -> str:
    """Return the id of the spool; raises SpoolError if what was read until now was of another one.

    What has no id is taken for the same: a checkpoint of an earlier version goes on, and knows the id from then on.
    """
    spool = ranges.identity()
    if known and spool and known != spool:
        text = f"{options.place} is another spool ({spool}) than this query has read from ({known})"
        hint = "in which the same positions are other records: begin with a new checkpoint folder, or restore the first"
        raise SpoolError(f"{text}, {hint}")
    return spool


def read_piece(options: SourceOptions, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range as Arrow. Raises LocalError for what is missing, unless it is to be skipped."""
    gathering = Gathering((options.kind,)) if options.kind else Gathering()
    with options.place.ranges() as ranges:
        if piece.spool:
            check_spool(options, ranges, piece.spool)
        for part in ranges.parts(piece.begin, piece.end):
            gathering.add(part)
            if gathering.rows >= ROWS or len(gathering.gaps) >= ROWS:
                yield from _taken(gathering, options)
    yield from _taken(gathering, options)


def _taken(gathering: Gathering, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    batches = [gathering.take(options.kind)] if options.kind else gathering.take_all()
    gaps, gathering.gaps = gathering.gaps, []
    for gap in gaps:
        options.check(gap)
    yield from (batch for batch in batches if batch.num_rows)
    if gaps and not options.kind:
        yield missing_rows(gaps)
