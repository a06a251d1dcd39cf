"""From frames of the spool to Arrow, column by column: many small frames become few large batches.

A record that cannot be decoded, or whose values fit no column, is left out and told, by its position and by whose it is
and its number: the others of its frame are read. Of a frame that has another number of records than it says nobody
knows which is which, and it is left out as a whole.
"""

import math
from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from mqloom.core.errors import TelemetryError
from mqloom.core.telemetry import KINDS, Record, decode_batch, salvage_records
from mqloom.spark_analytics.columns import (
    ARROW,
    COMMON,
    MISSING,
    MISSING_COLUMNS,
    arrow_schema,
    arrow_schema_of_all,
    kinds_in_one,
    own_columns,
    own_struct,
)
from mqloom.spark_analytics.segments import Frame, Gap, Part

AT_MAX: Final = 253_402_300_799.0
"""The last second that a timestamp of Spark has; a record of another time is malformed."""

_MISFITS: Final = (pa.ArrowException, OverflowError, ValueError, UnicodeEncodeError)


class _Origin(NamedTuple):
    """Which frame, and whose."""

    position: int
    gateway: str
    epoch: int
    first: int


class _Rows:
    """The records of one kind that wait, with their numbers; `counts` of them are of each of the `origins`.

    All is in few long lists: of many small objects Python's garbage collection would look at each again and again.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.numbers: list[int] = []
        self.origins: list[_Origin] = []
        self.counts: list[int] = []
        self._closed = 0

    def close_run(self, origin: _Origin) -> int:
        """Note where the records came from that were added since the last call; return how many."""
        count = len(self.records) - self._closed
        if count:
            self.origins.append(origin)
            self.counts.append(count)
            self._closed = len(self.records)
        return count

    def runs(self) -> "Iterator[_Rows]":
        """Yield the rows of each frame for themselves."""
        at = 0
        for origin, count in zip(self.origins, self.counts, strict=True):
            yield _run(origin, self.records[at : at + count], self.numbers[at : at + count])
            at += count

    def singles(self) -> "Iterator[_Rows]":
        """Yield each row of a single frame for itself."""
        [origin] = self.origins
        for record, number in zip(self.records, self.numbers, strict=True):
            yield _run(origin, [record], [number])

    def extend(self, other: "_Rows") -> None:
        """Add the rows of another."""
        self.records += other.records
        self.numbers += other.numbers
        self.origins += other.origins
        self.counts += other.counts
        self._closed = len(self.records)


def _run(origin: _Origin, records: list[Record], numbers: list[int]) -> _Rows:
    run = _Rows()
    run.records, run.numbers = records, numbers
    run.close_run(origin)
    return run


class Gathering:
    """Records of many frames, by kind, until there are enough for a batch of Arrow."""

    def __init__(self, kinds: Collection[str] = tuple(KINDS)) -> None:
        self._rows = {kind: _Rows() for kind in kinds}
        self._of_record: dict[type[Any], _Rows] = {}
        self._index()
        self.rows = 0
        """How many records wait to be taken."""
        self.gaps: list[Gap] = []
        """What could not be read, or not be decoded."""

    def _index(self) -> None:
        self._of_record = {KINDS[kind]: rows for kind, rows in self._rows.items()}

    def add(self, part: Part) -> None:
        """Take the records of a frame, those that are of our kinds; or note a gap."""
        if isinstance(part, Gap):
            self.gaps.append(part)
        else:
            self._decode(part)

    def _decode(self, frame: Frame) -> None:
        try:
            batch = decode_batch(frame.data)
            if batch.header.count != frame.records:
                raise TelemetryError(f"a frame of {frame.records} records has a batch of {batch.header.count}")
            records, malformed = salvage_records(batch)
        except TelemetryError as error:
            begin, end = frame.position, frame.position + frame.records
            text = f"the records at positions {begin} to {end} are malformed: {error.problem}"
            self.gaps.append(Gap(begin, end, text))
            return
        of_record = self._of_record
        for number, record in records:
            rows = of_record.get(type(record))
            if rows is not None:
                rows.records.append(record)
                rows.numbers.append(number)
        header = batch.header
        origin = _Origin(frame.position, header.gateway, header.epoch, header.first)
        self.rows += sum([rows.close_run(origin) for rows in of_record.values()])
        for number, problem in malformed:
            self._leave_out(origin, number, problem)

    def _leave_out(self, origin: _Origin, number: int, problem: str) -> None:
        position = origin.position + number - origin.first
        whose = f"number {number} of start {origin.epoch} of {origin.gateway}"
        text = f"the record at position {position}, {whose}, is malformed: {problem}"
        self.gaps.append(Gap(position, position + 1, text))

    def take(self, kind: str) -> pa.RecordBatch:
        """Return the records of a kind that wait, as a batch with the schema of its table; there may be none."""
        return pa.RecordBatch.from_arrays([*self._take(kind)], schema=arrow_schema(kind))

    def take_all(self) -> list[pa.RecordBatch]:
        """Return all records that wait, in the schema that has all kinds, one batch for each kind that there is."""
        common = len(COMMON)
        batches = []
        for kind, rows in self._rows.items():
            if rows.records:
                arrays = self._take(kind)
                batches.append(_batch_of_all(kind, arrays[:common], arrays[common:]))
        return batches

    def _take(self, kind: str) -> list[pa.Array]:
        """Return the columns of what waits of a kind; records that do not fit are left out."""
        rows, self._rows[kind] = self._rows[kind], _Rows()
        self._index()
        self.rows -= len(rows.records)
        try:
            return _columns(kind, rows)
        except _MISFITS:
            fitting = _Rows()
            for run in rows.runs():
                if _misfit(kind, run) is None:
                    fitting.extend(run)
                    continue
                for single in run.singles():
                    problem = _misfit(kind, single)
                    if problem is None:
                        fitting.extend(single)
                    else:
                        self._leave_out(single.origins[0], single.numbers[0], f"as a {kind} record, {problem}")
            return _columns(kind, fitting)


def _misfit(kind: str, rows: _Rows) -> str | None:
    """Say why some rows fit no columns; None: they do."""
    try:
        _columns(kind, rows)
    except _MISFITS as error:
        return str(error)
    return None


def _columns(kind: str, rows: _Rows) -> list[pa.Array]:
    """Return all columns; raises one of _MISFITS for values that none can have."""
    origins, counts = rows.origins, rows.counts
    numbers = np.array(rows.numbers, np.int64)
    names = pa.array([origin.gateway for origin in origins], pa.string())
    return [
        pa.array(numbers + _repeated([origin.position - origin.first for origin in origins], counts)),
        names.take(pa.array(_repeated(list(range(len(origins))), counts))),
        pa.array(_repeated([origin.epoch for origin in origins], counts)),
        pa.array(numbers),
        _timestamps([record.at for record in rows.records]),
        *(
            pa.array(list(map(attrgetter(column.name), rows.records)), ARROW[column.type])
            for column in own_columns(kind)
        ),
    ]


def _repeated(values: list[int], counts: list[int]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return np.repeat(np.array(values, np.int64), counts)


def _timestamps(seconds: list[float]) -> pa.Array:
    times = np.array(seconds, np.float64)
    if len(times) and not (times.min() >= 0 and times.max() <= AT_MAX):  # also false where one is not a number
        wrong = next(second for second in seconds if not math.isfinite(second) or not 0 <= second <= AT_MAX)
        raise ValueError(f"{wrong} is no time")
    return pa.array(np.rint(times * 1e6).astype("datetime64[us]"), pa.timestamp("us", tz="UTC"))


def _batch_of_all(kind: str, common: list[pa.Array], own: list[pa.Array]) -> pa.RecordBatch:
    rows = len(common[0])
    structs = [
        pa.StructArray.from_arrays(own, fields=list(own_struct(each)))
        if each == kind
        else pa.nulls(rows, own_struct(each))
        for each in kinds_in_one()
    ]
    arrays = [*common, pa.repeat(pa.scalar(kind), rows), *structs]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema_of_all())


def missing_rows(gaps: list[Gap]) -> pa.RecordBatch:
    """Return a row for each gap, in the schema that has all kinds; of the common columns only the position is known."""
    common = [pa.array([gap.begin for gap in gaps], pa.int64())]
    common += [pa.nulls(len(gaps), ARROW[column.type]) for column in COMMON[1:]]
    columns = zip(*((gap.end, gap.is_gone, gap.problem) for gap in gaps), strict=True)
    own = [pa.array(values, ARROW[column.type]) for values, column in zip(columns, MISSING_COLUMNS, strict=True)]
    return _batch_of_all(MISSING, common, own)
