"""The mirror of clients' records that a gateway keeps on its broker: some replay no retained message to a wildcard.

It is in MIRROR_CHUNKS retained messages, each with the records of some clients, so that a change rewrites little.
"""

import zlib
from collections.abc import Mapping

import msgspec

from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId
from mqloom.core.limits import MIRROR_CHUNK_BYTES_MAX, MIRROR_CHUNKS

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(dict[str, bytes])


def chunk_of(client: ClientId) -> int:
    """Return in which chunk a client's record is."""
    return zlib.crc32(client.encode("utf-8", "surrogatepass")) % MIRROR_CHUNKS


def encode_chunk(records: Mapping[ClientId, bytes]) -> bytes:
    """Return a chunk as it is kept on the broker; of none, no bytes: that deletes it there."""
    return _encoder.encode(records) if records else b""


def decode_chunk(data: bytes) -> dict[ClientId, bytes]:
    """Return the records of a chunk; raises RecordError."""
    if not data:
        return {}
    if len(data) > 2 * MIRROR_CHUNK_BYTES_MAX:
        raise RecordError(f"a chunk of the mirror of {len(data)} bytes")
    try:
        return {ClientId(client): record for client, record in _decoder.decode(data).items()}
    except msgspec.DecodeError as error:
        raise RecordError(f"no chunk of a mirror: {error}") from None
