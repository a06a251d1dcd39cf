"""A spool as Parquet, for as long as one likes: a folder for each kind, in it one for each day and gateway.

    DIR/load/day=2026-11-18/gateway=north/00000000000000000000-00000000000000150000.parquet

Theory of operation. The spool is archived piece by piece. Before a piece is written, the file `archive.json` says which
one it is; when all its files are in place, it says so too. So whoever is killed in between does the same piece again,
into files of the same names, which replace what there was: each record is in the archive once. Days are those of UTC.
The columns are those of Spark's tables; `gateway` is in the folder's name alone, percent-encoded, as Hive has it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from mqloom.core.errors import LocalError
from mqloom.core.telemetry import KINDS
from mqloom.core.topics import encode_id
from mqloom.spark_analytics.decoding import Gathering
from mqloom.spark_analytics.ranges import LocalRanges
from mqloom.spark_analytics.spool import SpoolLock, sync_folder

PIECE_RECORDS: Final = 200_000
"""Records that are archived at a time."""

STATE: Final = "archive.json"

Tell = Callable[[float, str], None]
"""Told what share of all is done, and what there is to say, if anything."""


class _State(Struct, frozen=True, kw_only=True):
    """How far an archive is."""

    version: int = 1
    upto: int = 0
    """All positions of the spool before this one are archived, or were not there any more."""
    piece_end: int = 0
    """If it is more, the piece from `upto` to there was begun."""
    spool: str = ""
    """The id of the spool; empty if it has none, or the archive is of an earlier version."""


class Archived(Struct, frozen=True):
    """What was done."""

    begin: int
    end: int
    records: int
    files: int
    problems: list[str]
    """What was gone before it could be archived, or could not be read."""


def archive(spool: Path, folder: Path, tell: Tell, piece_records: int = PIECE_RECORDS) -> Archived:
    """Add to an archive what has come into the spool since the last time; may be called while it is collected into.

    Raises SpoolError if there is no spool, or somebody else writes the archive, and LocalError if it cannot be written.
    """
    ranges = LocalRanges(spool)
    lock = SpoolLock(folder)
    try:
        return _archive(ranges, folder, tell, piece_records)
    except OSError as error:
        raise LocalError(
            f"{error.filename or folder}: {error.strerror}: what was archived before stays as it is"
        ) from None
    finally:
        lock.release()


def _archive(ranges: LocalRanges, folder: Path, tell: Tell, piece_records: int) -> Archived:
    state, end = _read_state(folder), ranges.bounds().end
    spool = ranges.identity()
    if state.upto > end:
        text = f"{folder} has all up to position {state.upto}, and the spool only goes to {end}: it is of another spool"
        raise LocalError(f"{text}; take a folder for each")
    if state.spool and spool and state.spool != spool:
        text = f"{folder} is of the spool {state.spool}, and this is another one, {spool}"
        raise LocalError(f"{text}; take a folder for each")
    spool = spool or state.spool
    begin, records, files = state.upto, 0, 0
    problems: list[str] = []
    while state.upto < end:
        if state.piece_end <= state.upto:
            piece_end = _piece_end(ranges, state.upto, end, piece_records)
            state = _State(upto=state.upto, piece_end=piece_end, spool=spool)
            _write_state(folder, state)
        gathering = Gathering()
        for part in ranges.parts(state.upto, state.piece_end):
            gathering.add(part)
        name = f"{state.upto:020d}-{state.piece_end:020d}.parquet"
        records += gathering.rows
        written = [place for kind in KINDS for place in _write(folder, kind, gathering, name)]
        for each in sorted({above for place in written for above in (place, *place.parents[:3])}):
            sync_folder(each)
        files += len(written)
        problems += [gap.problem for gap in gathering.gaps]
        state = _State(upto=state.piece_end, spool=spool)
        _write_state(folder, state)
        tell((state.upto - begin) / max(1, end - begin), "archived")
    return Archived(begin, state.upto, records, files, problems)


def _piece_end(ranges: LocalRanges, begin: int, end: int, records: int) -> int:
    first = ranges.bounds().begin
    if begin < first:  # deleted before it was archived: a piece of its own, of which nothing is left
        return min(first, end)
    return min(ranges.boundary(begin, records), end)


def _write(folder: Path, kind: str, gathering: Gathering, name: str) -> list[Path]:
    """Write the records of a kind, a file for each day and gateway; return in which folders."""
    batch = gathering.take(kind)
    places = []
    for day, gateway, part in _parts(batch):
        place = folder / kind / f"day={day}" / f"gateway={encode_id(gateway)}"
        place.mkdir(parents=True, exist_ok=True)
        own = place / f".{name}"
        pq.write_table(pa.Table.from_batches([part]), own, compression="zstd")
        with own.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(own, place / name)
        places.append(place)
    return places


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """Yield the rows of each day and gateway, without the column of the latter."""
    if not batch.num_rows:
        return
    days, gateways = pc.strftime(batch["at"], format="%Y-%m-%d"), batch["gateway"]
    for day in sorted(pc.unique(days).to_pylist()):
        is_day = pc.equal(days, day)
        for gateway in sorted(pc.unique(gateways.filter(is_day)).to_pylist()):
            part = batch.filter(pc.and_(is_day, pc.equal(gateways, gateway)))
            yield day, gateway, part.drop_columns(["gateway"])


def _read_state(folder: Path) -> _State:
    path = folder / STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except FileNotFoundError:
        return _State()
    except msgspec.DecodeError as error:
        raise LocalError(f"{path}: it cannot be told how far the archive is: {error}; restore it") from None


def _write_state(folder: Path, state: _State) -> None:
    path = folder / f"{STATE}.new"
    with path.open("wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path, folder / STATE)
    sync_folder(folder)
