"""Codec `msgpack`: a payload that is a MessagePack map becomes its members; nested ones are reached by dotted path.

Why ormsgpack: in nested maps msgspec takes arrays as keys, and tuples with one and the same hash are easily made up, so
that a payload of 100 KB keeps it busy for a second, and one of 4 MB for half an hour. ormsgpack takes text alone for
keys, and is as fast. It does not mind what comes after the map; msgspec, which only has to skip, does.
"""

from typing import Final

import msgspec
import ormsgpack

from mqloom.core.publication import Publication
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec

_nothing: Final = msgspec.msgpack.Decoder(msgspec.defstruct("Nothing", []))


def decode(publication: Publication) -> Attributes:
    """Return the map's members, None for extension types; raises ValueError for anything else."""
    payload = publication.payload
    try:
        _nothing.decode(payload)  # one map with text for keys, and nothing after it
        members: dict[str, object] = ormsgpack.unpackb(payload, ext_hook=_missing)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"not a MessagePack map: {error}") from None
    return members


def _missing(kind: int, data: bytes) -> None:
    """No filter compares with an extension type, a timestamp included."""


@hookimpl
def mqloom_codec() -> Codec:
    """Offer the codec."""
    return Codec(name="msgpack", decode=decode)
