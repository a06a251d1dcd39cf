"""The spool: telemetry on disk, append-only, read by position while it is written.

Theory of operation. A spool is a folder of segments, each named after the position of its first record; positions count
records from 0 and never come twice. A segment is a run of frames; a frame has a header (length of the rest, number of
records, checksum) and a batch of records. Nothing counts before the marker says so: the file `end` has the position and
the size up to which the last segment is valid. The writer appends, has the disk take it (fdatasync), and then puts a
new marker in place (rename). After a crash it cuts off what the marker does not cover, and so nobody ever reads what
could still vanish. Only the writer deletes segments, the oldest first; `begin` in the marker tells from where on there
are records left. It goes first, unless the disk is full: then segments are emptied to make room for it, and each has
meanwhile the name `POSITION.dropped`, which tells that all before that position is gone. `id` in the marker tells
spools apart, for positions mean something else in each: whoever has read part of one knows by it whether this is still
the same. Spools of an earlier version have none until a collector begins with them.

Positions in between frames are not handed out: ranges begin and end where frames do.
"""

import errno
import fcntl
import os
import secrets
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqloom.spark_analytics.segments import MAGIC, Frame, Gap, Part, Segment, SpoolError, encode_frame, read_parts, scan

SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""A segment that has become this large is followed by another."""

MARKER: Final = "end"
LOCK: Final = "lock"
ID_BYTES: Final = 8
_SUFFIX: Final = ".segment"
_DROPPED: Final = ".dropped"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Marker(Struct, frozen=True, kw_only=True):
    """What counts of a spool."""

    version: int = 1
    begin: int = 0
    """The position of the first record that is left."""
    end: int = 0
    """The position of the next record."""
    segment: str = ""
    size: int = 0
    """How many bytes of the last segment count."""
    gateways: dict[str, tuple[int, int]] = {}
    """Of each gateway the epoch and the last number that is here: what comes again is dropped.

    In the order in which they were heard from last.
    """
    id: str = ""
    """Another one for each spool that was ever begun; empty: it is of an earlier version, and has none."""


_marker_decoder: Final = msgspec.json.Decoder(Marker)


def segment_name(position: int) -> str:
    """Return the name of the segment that begins at a position."""
    return f"{position:020d}{_SUFFIX}"


def segments_of(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments by the positions they begin with; other files are left alone."""
    return _positions(folder, _SUFFIX)


def dropped_of(folder: Path) -> list[tuple[int, Path]]:
    """Return what is left of segments that went before the marker said so, by the position up to which all is gone."""
    return _positions(folder, _DROPPED)


def _positions(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    found = []
    for path in folder.glob(f"*{suffix}"):
        stem = path.name.removesuffix(suffix)
        if stem.isdecimal():
            found.append((int(stem), path))
    return sorted(found)


def read_marker(folder: Path) -> Marker:
    """Return what counts of the spool; raises SpoolError if that cannot be told."""
    path = folder / MARKER
    try:
        return _marker_decoder.decode(path.read_bytes())
    except FileNotFoundError:
        hint = "is it the folder that `mqloom collect` writes?"
        raise SpoolError(f"{folder} is no spool: there is no file {MARKER!r} in it; {hint}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise SpoolError(f"{path}: the marker cannot be read: {error}") from None


class SpoolWriter:
    """The one writer of a spool. Raises SpoolError if the disk does not take something: what was not committed is lost.

    After such an error the writer is as after a crash: `recover` cuts off what does not count, and until it has done so
    nothing is written any more.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._file: int | None = None
        self._pending: list[bytes] = []
        self.pending_bytes = 0
        """What waits for `commit`."""
        self.marker = Marker()
        self._new = Marker()
        self._is_whole = False
        self.recover()

    def recover(self) -> None:
        """Go back to what counts: cut off what is behind the marker, forget what was not committed."""
        self.close()
        self._is_whole = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if (self.folder / MARKER).exists():
                self.marker = read_marker(self.folder)
            elif segments_of(self.folder):
                raise SpoolError(
                    f"{self.folder}: there are segments, and no {MARKER!r}: restore it, or empty the folder"
                )
            for position, path in segments_of(self.folder):
                if position >= self.marker.end and path.name != self.marker.segment:
                    path.unlink()  # begun, and never counted
            if self.marker.segment:
                path = self.folder / self.marker.segment
                if not path.exists() or path.stat().st_size < self.marker.size:
                    raise SpoolError(f"{path}: it is shorter than {self.marker.size} bytes, which count: restore it")
                os.truncate(path, self.marker.size)
        except OSError as error:
            raise SpoolError(f"{self.folder}: {error.strerror}") from None
        if not self.marker.id:
            self.marker = msgspec.structs.replace(self.marker, id=secrets.token_hex(ID_BYTES))
        self._new, self._pending, self.pending_bytes = self.marker, [], 0
        self._is_whole = True

    def ensure(self) -> None:
        """Make the folder a spool with an id, if it is not yet one: so readers may come before the first record."""
        if not (self.folder / MARKER).exists() or read_marker(self.folder).id != self.marker.id:
            try:
                self._put_marker(self.marker)
            except OSError as error:
                raise SpoolError(f"{self.folder}: {error.strerror}") from None

    def append(self, count: int, data: bytes, gateway: str = "", epoch: int = 0, last: int = 0) -> None:
        """Add a batch of so many records; it counts after `commit`."""
        frame = encode_frame(count, data)
        self._pending.append(frame)
        self.pending_bytes += len(frame)
        if gateway:
            gateways = self._own_gateways()
            gateways.pop(gateway, None)
            gateways[gateway] = (epoch, last)
        self._new = msgspec.structs.replace(self._new, end=self._new.end + count)

    def forget_oldest(self) -> None:
        """Forget the gateway that was heard from longest ago, with the next commit."""
        gateways = self._own_gateways()
        del gateways[next(iter(gateways))]

    def _own_gateways(self) -> dict[str, tuple[int, int]]:
        """Return the gateways as they will be: the marker's own stay until the disk has what is new."""
        if self._new.gateways is self.marker.gateways:
            self._new = msgspec.structs.replace(self._new, gateways=dict(self.marker.gateways))
        return self._new.gateways

    def known(self, gateway: str) -> tuple[int, int]:
        """Return the epoch and the last number of a gateway, what waits included; (0, 0) if there is nothing of it."""
        return self._new.gateways.get(gateway, (0, 0))

    @property
    def gateways(self) -> int:
        """How many gateways there are records of, what waits included."""
        return len(self._new.gateways)

    def commit(self) -> int:
        """Have the disk take what was appended, and let it count; return the position of the next record."""
        if not self._pending:
            return self.marker.end
        if not self._is_whole:
            raise SpoolError(f"{self.folder}: what was written in part is not yet cut off: nothing can be added")
        self._is_whole = False
        try:
            if not self.marker.segment or self._new.size >= self._segment_bytes:
                self._begin_segment()
            elif self._file is None:
                self._file = os.open(self.folder / self.marker.segment, os.O_WRONLY | os.O_APPEND)
            assert self._file is not None
            data = memoryview(b"".join(self._pending))
            size = self._new.size + len(data)
            while data:
                data = data[os.write(self._file, data) :]
            os.fdatasync(self._file)
            self._put_marker(msgspec.structs.replace(self._new, size=size))
        except OSError as error:
            raise SpoolError(f"{self.folder}: {error.strerror}: what was not committed is lost") from None
        self._pending, self.pending_bytes = [], 0
        self._is_whole = True
        return self.marker.end

    def _begin_segment(self) -> None:
        self.close()
        name = segment_name(self.marker.end)
        self._file = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.write(self._file, MAGIC)
        sync_folder(self.folder)
        self._new = msgspec.structs.replace(self._new, segment=name, size=len(MAGIC))

    def _put_marker(self, marker: Marker) -> None:
        path = self.folder / f"{MARKER}.new"
        with path.open("wb") as file:
            file.write(msgspec.json.encode(marker))
            file.flush()
            os.fdatasync(file.fileno())
        os.replace(path, self.folder / MARKER)
        sync_folder(self.folder)
        self.marker = self._new = marker

    def drop_before(self, position: int) -> int:
        """Delete whole segments that end at or before a position, never the last; return where what is left begins.

        The marker goes first: what it no longer names may vanish. On a full disk there is no room for a new one, and
        segments must make it.
        """
        segments = segments_of(self.folder)
        going = [(following, path) for (_, path), (following, _) in pairwise(segments) if following <= position]
        before = [upto for upto, _ in (*dropped_of(self.folder), *going)]
        try:
            if before and max(before) > self.marker.begin:
                try:
                    self._put_marker_only(begin=max(before))
                except OSError as error:
                    if error.errno not in _FULL or not going:
                        raise
                    going = self._empty(going)
                    self._put_marker_only(begin=max(before))
            for _, path in (*going, *dropped_of(self.folder)):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise SpoolError(f"{self.folder}: {error.strerror}: segments stay that should have gone") from None
        return self.marker.begin

    def _empty(self, going: list[tuple[int, Path]]) -> list[tuple[int, Path]]:
        """Give the disk what segments take, and leave a name of each, which tells that it is gone and takes no room."""
        left = [(upto, path.rename(self.folder / f"{upto:020d}{_DROPPED}")) for upto, path in going]
        sync_folder(self.folder)
        for _, path in left:
            os.truncate(path, 0)
        return left

    def _put_marker_only(self, begin: int) -> None:
        pending, new = self._pending, self._new
        self._put_marker(msgspec.structs.replace(self.marker, begin=begin))
        self._pending, self._new = pending, msgspec.structs.replace(new, begin=begin)

    def close(self) -> None:
        """Let go of the file; what was not committed stays uncommitted."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class SpoolLock:
    """Keeps a second writer out of a folder for as long as the process lives. Raises SpoolError."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SpoolError(f"{folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise SpoolError(f"{folder}: somebody else writes into it: end that one, or take another folder") from None

    def release(self) -> None:
        """Let somebody else write."""
        os.close(self._file)


class SpoolReader:
    """Reads a spool by position, while it is written or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index: dict[str, list[tuple[int, int]]] = {}  # by segment: positions of frames, and their offsets

    def bounds(self) -> tuple[int, int]:
        """Return from which position on there are records, and that of the next one."""
        marker = read_marker(self.folder)
        return marker.begin, marker.end

    def identity(self) -> str:
        """Return the spool's id; empty if it has none."""
        return read_marker(self.folder).id

    def starts(self) -> list[int]:
        """Return the positions with which segments begin: where ranges are cut best."""
        return [segment.begin for segment in self._segments(read_marker(self.folder))]

    def frames(self, begin: int, end: int) -> Iterator[Frame]:
        """Yield the frames of a range of positions, which begins and ends where frames do.

        Raises SpoolError if part of it is gone, or damaged.
        """
        for part in self.parts(begin, end):
            if isinstance(part, Gap):
                raise SpoolError(part.problem)
            yield part

    def parts(self, begin: int, end: int) -> Iterator[Part]:
        """Yield the frames of a range, and gaps for what is gone or damaged in it. Raises SpoolError for no spool."""
        marker = read_marker(self.folder)
        end = min(end, marker.end)
        segments = self._segments(marker)
        first = min(segments[0].begin if segments else marker.end, end)
        if begin < first:
            yield self._absent(begin, first, f"{self.folder}: positions {begin} to {first} are in no segment")
        for segment in segments:
            if segment.end <= begin or segment.begin >= end:
                continue
            try:
                yield from self._parts_of(segment, begin, end)
            except OSError as error:
                problem = f"{segment.path}: {error.strerror}"
                yield self._absent(max(begin, segment.begin), min(end, segment.end), problem)

    def _absent(self, begin: int, end: int, problem: str) -> Gap:
        """Return a gap for what was not found: the collector may have deleted it, even while we read."""
        dropped = [upto for upto, _ in dropped_of(self.folder)]  # before the marker: they go when that says so, too
        if end > max([read_marker(self.folder).begin, *dropped]):
            return Gap(begin, end, problem)
        text = f"{self.folder}: positions {begin} to {end} are gone: they were older than what is kept"
        return Gap(begin, end, text, is_gone=True)

    def _parts_of(self, segment: Segment, begin: int, end: int) -> Iterator[Part]:
        for at, part in read_parts(segment, *self._frame_at(segment, begin)):
            if part[0] >= end:
                break
            if isinstance(part, Gap):
                if part.end > begin:
                    yield self._absent(max(part.begin, begin), min(part.end, end), part.problem)
            else:
                self._note(segment, part.position, at)
                if part.position >= begin:
                    yield part

    def boundary(self, begin: int, records: int) -> int:
        """Return where a range from `begin` of about so many records ends: at most so many, but one frame at least.

        Only the headers of frames are read.
        """
        end = begin
        for segment in self._segments(read_marker(self.folder)):
            if segment.end <= begin:
                continue
            try:
                for at, count in scan(segment, *self._frame_at(segment, begin)):
                    if at + count <= begin:
                        continue
                    if end > begin and at + count - begin > records:
                        return end
                    end = at + count
                    if end - begin >= records:
                        return end
            except OSError:
                end = segment.end  # whoever reads it is told
        return end

    def _segments(self, marker: Marker) -> list[Segment]:
        found = segments_of(self.folder)
        ends = [*(position for position, _ in found[1:]), marker.end][: len(found)]
        for name in self._index.keys() - {path.name for _, path in found}:  # deleted: who reads for months forgets it
            del self._index[name]
        return [
            Segment(path, position, min(following, marker.end), marker.size if path.name == marker.segment else None)
            for (position, path), following in zip(found, ends, strict=True)
            if marker.begin <= position < marker.end
        ]

    def _frame_at(self, segment: Segment, begin: int) -> tuple[int, int]:
        index = self._index.get(segment.path.name)
        if not index or begin <= segment.begin:
            return segment.begin, 0
        at = bisect_right(index, (begin, 1 << 62)) - 1
        return index[at] if at >= 0 else (segment.begin, 0)

    def _note(self, segment: Segment, position: int, offset: int) -> None:
        index = self._index.setdefault(segment.path.name, [])
        if not index or position >= index[-1][0] + 10_000:  # every ten thousandth record is enough
            index.append((position, offset))


def sync_folder(folder: Path) -> None:
    """Have the disk take which files a folder has: what was renamed into it could go in a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
