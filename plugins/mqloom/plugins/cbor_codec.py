"""Codec `cbor`: a payload that is a CBOR map becomes its members; nested ones are reached by dotted path.

Why cbor2: it is the library that is kept up, it bounds nesting, and it can be told to take only text and bytes for
keys, so that nobody makes up keys of one hash. What it would do with tags is not for strangers' payloads: it compiles
regular expressions, computes fractions and powers of any size, and follows references in circles. So we drop the tags
and keep what they mark, except that large integers (tags 2 and 3) are integers.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Final

import cbor2

from mqloom.core.publication import Publication
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec

NESTING_MAX: Final = 400
"""Maps, arrays and tags within each other; a payload with more is not decoded."""

INTEGER_BYTES_MAX: Final = 1_785
"""Bytes of an integer, about 4,300 digits as in the codec `json`; one with more is missing."""


def decode(publication: Publication) -> Attributes:
    """Return the map's members; raises ValueError for anything else."""
    stream = BytesIO(publication.payload)
    try:
        members = cbor2.CBORDecoder(
            stream, semantic_decoders=_TAGS, max_depth=NESTING_MAX, strict_hashable_types=True
        ).decode()
    except cbor2.CBORDecodeError as error:
        raise ValueError(f"not a CBOR map: {error}") from None
    if not isinstance(members, dict) or not all(isinstance(name, str) for name in members):
        raise ValueError("not a CBOR map with text for keys")
    if stream.read(1):
        raise ValueError("not a CBOR map: there is more after it")
    return members


def _as_it_is(value: object, immutable: bool) -> object:
    return value


def _positive(value: object, immutable: bool) -> object:
    return int.from_bytes(value) if isinstance(value, bytes) and len(value) <= INTEGER_BYTES_MAX else None


def _negative(value: object, immutable: bool) -> object:
    number = _positive(value, immutable)
    return -1 - number if isinstance(number, int) else None


class _Tags(dict[int, Callable[[object, bool], object]]):
    """What becomes of a tag; those that are not in it, all 2^64 of them, are dropped."""

    def __missing__(self, tag: int) -> Callable[[object, bool], object]:
        return _as_it_is


_TAGS: Final = _Tags({2: _positive, 3: _negative})


@hookimpl
def mqloom_codec() -> Codec:
    """Offer the codec."""
    return Codec(name="cbor", decode=decode)
