"""Frames of a segment: written with a checksum, read one after the other, with gaps told for what is damaged.

What the header of a damaged frame says is believed only if the frames behind it then end exactly where the segment does
and have as many records as there should be up to the next segment; else all up to there is one gap.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mqloom.core.errors import LocalError

FRAME_HEADER: Final = 12
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
MAGIC: Final = b"MQLSPOOL1\n"


class SpoolError(LocalError):
    """A spool, or a part of it, cannot be read or written: which file, where in it, and what to do."""


class Frame(NamedTuple):
    """One batch in the spool."""

    position: int
    records: int
    data: bytes


class Gap(NamedTuple):
    """A range of positions that cannot be read: it is gone because it was old enough, or damaged."""

    begin: int
    end: int
    problem: str
    is_gone: bool = False


class Segment(NamedTuple):
    """A file of frames, from the position of its first record to that of the next segment's first."""

    path: Path
    begin: int
    end: int
    size: int | None = None
    """How many bytes of it count; without it, all."""


def encode_frame(count: int, data: bytes) -> bytes:
    """Return a frame with its header; the checksum is of the data and of the number of records."""
    assert len(data) <= FRAME_BYTES_MAX
    checksum = zlib.crc32(data, count)
    return len(data).to_bytes(4, "big") + count.to_bytes(4, "big") + checksum.to_bytes(4, "big") + data


Part = Frame | Gap


def read_parts(segment: Segment, position: int = 0, offset: int = 0) -> Iterator[tuple[int, Part]]:
    """Yield the frames of a segment with their offsets, and gaps where it is damaged.

    With `offset`, that of a frame, it begins there, and `position` is the frame's. Raises OSError if the file cannot be
    read.
    """
    with segment.path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if segment.size is None else segment.size
        if not offset:
            if file.read(len(MAGIC)) != MAGIC:
                text = f"{segment.path}: no segment of a spool: it does not begin with {MAGIC!r}"
                yield 0, Gap(segment.begin, segment.end, text)
                return
            position, offset = segment.begin, len(MAGIC)
        handle, are_headers_right = file.fileno(), False
        while offset < size:
            length, count, checksum = _header(handle, offset)
            following = offset + FRAME_HEADER + length
            if length > FRAME_BYTES_MAX or following > size:
                text = f"{segment.path}: at byte {offset} there should be a frame, and there is none"
                yield offset, Gap(position, segment.end, text)
                return
            data = os.pread(handle, length, offset + FRAME_HEADER)
            if count and zlib.crc32(data, count) == checksum:
                yield offset, Frame(position, count, data)
                position, offset = position + count, following
                continue
            text = f"{segment.path}: the frame at byte {offset} is damaged"
            are_headers_right = are_headers_right or _lead_to_the_end(handle, offset, size, segment.end - position)
            if not are_headers_right:
                yield offset, Gap(position, segment.end, text)
                return
            yield offset, Gap(position, position + count, text)
            position, offset = position + count, following
        if position < segment.end:
            text = f"{segment.path}: it ends at byte {size}, and records up to position {segment.end} are missing"
            yield offset, Gap(position, segment.end, text)


def scan(segment: Segment, position: int = 0, offset: int = 0) -> Iterator[tuple[int, int]]:
    """Yield position and number of records of each frame; only headers are read, and the rest after damage is one.

    Raises OSError if the file cannot be read.
    """
    position, offset = (position, offset) if offset else (segment.begin, len(MAGIC))
    with segment.path.open("rb", buffering=0) as file:
        handle = file.fileno()
        size = os.fstat(handle).st_size if segment.size is None else segment.size
        while offset < size:
            length, count, _ = _header(handle, offset)
            offset += FRAME_HEADER + length
            if offset > size or position + count > segment.end:
                break
            yield position, count
            position += count
    if position < segment.end:
        yield position, segment.end - position


def _header(handle: int, offset: int) -> tuple[int, int, int]:
    """Return length, number of records and checksum; a length that no frame has if the file ends before."""
    header = os.pread(handle, FRAME_HEADER, offset)
    if len(header) < FRAME_HEADER:
        return FRAME_BYTES_MAX + 1, 0, 0
    return int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big"), int.from_bytes(header[8:], "big")


def _lead_to_the_end(handle: int, offset: int, size: int, records: int) -> bool:
    """Say whether the headers from `offset` on lead to the end exactly, and have as many records as there should be."""
    while offset < size and records > 0:
        length, count, _ = _header(handle, offset)
        offset, records = offset + FRAME_HEADER + length, records - count
        if not count:  # of no frame
            return False
    return offset == size and not records
