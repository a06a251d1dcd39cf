"""Codec `json`: a payload that is a JSON object becomes its members; nested ones are reached by dotted path.

Why msgspec and not orjson: orjson makes a float of an integer past 64 bits, and numbers have to stay exact. It is up
to 20% faster at decoding everything, but cannot leave out what nobody asks for. docs/codecs.md has the figures.

A number out of range (1e999, or an integer of more than 4,300 digits) is missing, and the rest is read. It has to be
so: what is left out is not converted, so whether it is in range must not decide over the others.
"""

import json
from collections.abc import Callable, Collection
from typing import Final

import msgspec
from msgspec import UNSET

from mqloom.core.publication import Publication
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec

PARTIAL_BYTES_MIN: Final = 512
"""A smaller payload is decoded in full: to leave something out would take as long."""

DIGITS_MAX: Final = 4_300
"""Digits of an integer, msgspec's bound; one with more is missing."""

_everything: Final = msgspec.json.Decoder(dict[str, object])
_nothing: Final = msgspec.json.Decoder(msgspec.defstruct("Nothing", []))


def decode(publication: Publication) -> Attributes:
    """Return the object's members; raises ValueError for anything else."""
    return _members(publication.payload)


def decode_only(names: Collection[str]) -> Callable[[Publication], Attributes]:
    """Return a `decode` that may leave out members of other names."""
    kept = sorted(names)
    fields = {f"member_{number}": name for number, name in enumerate(kept)}
    try:
        only = msgspec.defstruct("Only", [(field, object, UNSET) for field in fields], rename=fields, gc=False)
    except ValueError:  # a name with a quote, a backslash or a control character
        return decode
    decoder = msgspec.json.Decoder(only)
    values_of = msgspec.structs.astuple

    def decode_kept(publication: Publication) -> Attributes:
        payload = publication.payload
        try:
            if len(payload) < PARTIAL_BYTES_MIN:
                return _everything.decode(payload)
            if not payload.isascii():
                payload.decode()  # texts that are left out are not looked into
            values = values_of(decoder.decode(payload))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _members(payload)
        return {name: value for name, value in zip(kept, values, strict=True) if value is not UNSET}

    return decode_kept


def _members(payload: bytes) -> dict[str, object]:
    try:
        try:
            return _everything.decode(payload)
        except msgspec.ValidationError:  # no object, or a number out of range in it
            return _members_in_range(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON object: {error}") from None


def _members_in_range(payload: bytes) -> dict[str, object]:
    """Return the members, None for each number out of range; the rare and slow way."""
    _nothing.decode(payload)  # the module json is laxer, so see first that it is an object, and well formed
    members: dict[str, object] = json.loads(payload.decode(), parse_int=_integer, parse_float=_float)
    return members


def _integer(text: str) -> int | None:
    return int(text) if len(text.lstrip("-")) <= DIGITS_MAX else None


def _float(text: str) -> float | None:
    number = float(text)
    return None if number in (float("inf"), float("-inf")) else number


@hookimpl
def mqloom_codec() -> Codec:
    """Offer the codec."""
    return Codec(name="json", decode=decode, decode_only=decode_only)
