"""What is in a client's memory file: which publications its program has taken, so that its next life drops them.

    MAGIC      one line of text, with the version
    frame      the client's name
    frame      all that was remembered when the file was written
    frame ...  each publication that was taken since, in their order

A frame is its length, a checksum, and so many bytes of MessagePack. A file is written under another name, and takes the
place of the one before when all of it is on the disk; then it is only appended to. So a process that is killed leaves
at most its last frame torn, and a machine that fails some more of the last: whatever does not fit its checksum ends the
file. What is missing then may come once more; nothing is lost by it.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from mqloom.client.limits import MEMORY_SEQUENCES_MAX
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Publication
from mqloom.core.seen import Print, Seen, SeenOrigin, lasting_print_of

FORMAT: Final = b"mqloom client memory, version "
MAGIC: Final = FORMAT + b"1\n"
HEADER_BYTES: Final = 8


class Taken(Struct, frozen=True, array_like=True, gc=False):
    """One publication that was taken; `low_water` is None while its origin's mark does not count."""

    origin: GatewayId
    epoch: int
    sequence: int
    low_water: int | None
    print_: Print | None
    repeat: bool = False


_encoder = msgspec.msgpack.Encoder()
_name_decoder = msgspec.msgpack.Decoder(str)
_dump_decoder = msgspec.msgpack.Decoder(list[SeenOrigin])
_taken_decoder = msgspec.msgpack.Decoder(Taken)


class UnreadableError(Exception):
    """A file that is ours, but damaged before anything in it can be used."""


def new_seen() -> Seen:
    """Return an empty memory that can be written down."""
    return Seen(printing=lasting_print_of)


def taken_of(publication: Publication, *, low_water: int | None) -> Taken:
    """Return what is remembered of a publication."""
    print_ = None
    if publication.packet:
        print_ = lasting_print_of(publication.packet, publication.topic, publication.payload)
    return Taken(publication.origin, publication.epoch, publication.sequence, low_water, print_, publication.repeat)


def remember(seen: Seen, taken: Taken) -> None:
    """Let a memory have one more."""
    seen.note(taken.origin, taken.epoch, taken.sequence, taken.print_, low_water=taken.low_water)
    if taken.repeat and taken.print_ is not None:
        seen.note_repeat(taken.origin, taken.epoch, taken.sequence, taken.print_)


def frame(content: object) -> bytes:
    """Return something as it is written."""
    data = _encoder.encode(content)
    return len(data).to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big") + data


def beginning(client: ClientId, seen: Seen) -> bytes:
    """Return a new file."""
    return MAGIC + frame(client) + frame(seen.dump(MEMORY_SEQUENCES_MAX))


def read(data: bytes, client: ClientId, *memories: Seen) -> int:
    """Let memories have what is in a file; return how many bytes at its end cannot be read.

    Raises ValueError for a file that is not one of this client, in this version, and UnreadableError for one that may
    be, but is damaged from its beginning on.
    """
    if not data.startswith(MAGIC):
        if data.startswith(FORMAT):
            raise ValueError(f"is of another version than {MAGIC.decode().strip()!r}")
        raise ValueError("is not a memory of a client of mqloom")
    frames = _frames(data)
    try:
        name = _name_decoder.decode(next(frames)[0])
        if name != client:
            raise ValueError(f"is the memory of client {name!r}, and not of {client!r}")
        dumped, end = next(frames)
        origins = _dump_decoder.decode(dumped)
    except (StopIteration, msgspec.DecodeError) as error:
        raise UnreadableError("its first part is damaged") from error
    for seen in memories:
        seen.load(origins)
    for content, position in frames:
        try:
            taken = _taken_decoder.decode(content)
        except msgspec.DecodeError:
            break
        for seen in memories:
            remember(seen, taken)
        end = position
    return len(data) - end


def _frames(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield frames and where each ends, up to the first that is torn or damaged."""
    position = len(MAGIC)
    while position + HEADER_BYTES <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        checksum = int.from_bytes(data[position + 4 : position + HEADER_BYTES], "big")
        content = data[position + HEADER_BYTES : position + HEADER_BYTES + length]
        if len(content) < length or zlib.crc32(content) != checksum:
            return
        position += HEADER_BYTES + length
        yield content, position
