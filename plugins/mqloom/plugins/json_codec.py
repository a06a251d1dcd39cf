"""Codec `json`: a payload that is a JSON object becomes its members; nested ones are reached by dotted path."""

import msgspec

from mqloom.core.publication import Publication
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec

_decoder = msgspec.json.Decoder(dict[str, object])


def decode(publication: Publication) -> Attributes:
    """Return the object's members; raises ValueError for anything else."""
    try:
        return _decoder.decode(publication.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from None


@hookimpl
def mqloom_codec() -> Codec:
    """Offer the codec."""
    return Codec(name="json", decode=decode)
