"""From frames of the spool to Arrow, column by column: many small frames become few large batches.

A frame that cannot be decoded, or whose values fit no column, is left out as a whole and reported: it is one batch of
one gateway, which has sent what it should not.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from mqloom.core.errors import TelemetryError
from mqloom.core.telemetry import KINDS, BatchHeader, Record, decode_batch, decode_records
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

_OF_RECORD: Final = {record: kind for kind, record in KINDS.items()}


@dataclass(frozen=True, slots=True)
class _Run:
    """The records of one kind in one frame, with their indices in it."""

    frame: Frame
    header: BatchHeader
    indices: list[int]
    records: list[Record]


class Gathering:
    """Records of many frames, by kind, until there are enough for a batch of Arrow."""

    def __init__(self, kinds: Collection[str] = tuple(KINDS)) -> None:
        self._runs: dict[str, list[_Run]] = {kind: [] for kind in kinds}
        self.rows = 0
        """How many records wait to be taken."""
        self.gaps: list[Gap] = []
        """What could not be read, or not be decoded."""

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
            records = decode_records(batch)
        except TelemetryError as error:
            self._leave_out(frame, "records", error.problem)
            return
        found: dict[type[Any], _Run] = {}
        first = batch.header.first
        for number, record in records:
            run = found.get(type(record))
            if run is None:
                run = found[type(record)] = _Run(frame, batch.header, [], [])
            run.indices.append(number - first)
            run.records.append(record)
        for record_type, run in found.items():
            runs = self._runs.get(_OF_RECORD[record_type])
            if runs is not None:
                runs.append(run)
                self.rows += len(run.records)

    def _leave_out(self, frame: Frame, what: str, problem: str) -> None:
        end = frame.position + frame.records
        text = f"the {what} at positions {frame.position} to {end} are malformed: {problem}"
        self.gaps.append(Gap(frame.position, end, text))

    def take(self, kind: str) -> pa.RecordBatch:
        """Return the records of a kind that wait, as a batch with the schema of its table; there may be none."""
        runs, self._runs[kind] = self._runs[kind], []
        self.rows -= sum(len(run.records) for run in runs)
        common, own = self._arrays(kind, runs)
        return pa.RecordBatch.from_arrays(common + own, schema=arrow_schema(kind))

    def take_all(self) -> list[pa.RecordBatch]:
        """Return all records that wait, in the schema that has all kinds, one batch for each kind that there is."""
        batches = []
        for kind, runs in self._runs.items():
            if runs:
                self._runs[kind] = []
                self.rows -= sum(len(run.records) for run in runs)
                batches.append(_batch_of_all(kind, *self._arrays(kind, runs)))
        return batches

    def _arrays(self, kind: str, runs: list[_Run]) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return the common and the own columns; runs that do not fit are left out."""
        try:
            return _common(runs), _own(kind, runs)
        except (pa.ArrowException, OverflowError, ValueError, UnicodeEncodeError):
            fitting = [run for run in runs if self._fits(kind, run)]
            return _common(fitting), _own(kind, fitting)

    def _fits(self, kind: str, run: _Run) -> bool:
        try:
            _common([run]), _own(kind, [run])
        except (pa.ArrowException, OverflowError, ValueError, UnicodeEncodeError) as error:
            self._leave_out(run.frame, f"records of kind {kind!r} from {run.header.gateway}", str(error))
            return False
        return True


def _common(runs: list[_Run]) -> list[pa.Array]:
    counts = [len(run.records) for run in runs]
    indices = np.array([index for run in runs for index in run.indices], np.int64)
    names = pa.array([run.header.gateway for run in runs], pa.string())
    return [
        pa.array(indices + _repeated([run.frame.position for run in runs], counts)),
        names.take(pa.array(_repeated(list(range(len(runs))), counts))),
        pa.array(_repeated([run.header.epoch for run in runs], counts)),
        pa.array(indices + _repeated([run.header.first for run in runs], counts)),
        _timestamps([record.at for run in runs for record in run.records]),
    ]


def _repeated(values: list[int], counts: list[int]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return np.repeat(np.array(values, np.int64), counts)


def _timestamps(seconds: list[float]) -> pa.Array:
    times = np.array(seconds, np.float64)
    if len(times) and not (times.min() >= 0 and times.max() <= AT_MAX):  # also false where one is not a number
        wrong = next(second for second in seconds if not math.isfinite(second) or not 0 <= second <= AT_MAX)
        raise ValueError(f"{wrong} is no time")
    return pa.array(np.rint(times * 1e6).astype("datetime64[us]"), pa.timestamp("us", tz="UTC"))


def _own(kind: str, runs: list[_Run]) -> list[pa.Array]:
    columns = own_columns(kind)
    rows = [record for run in runs for record in run.records]
    if not rows:
        return [pa.array([], ARROW[column.type]) for column in columns]
    fields = KINDS[kind].__struct_fields__
    by_name = dict(zip(fields, zip(*map(msgspec.structs.astuple, rows), strict=True), strict=True))
    return [pa.array(by_name[column.name], ARROW[column.type]) for column in columns]


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
