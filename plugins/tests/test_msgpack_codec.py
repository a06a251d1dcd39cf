import math

import msgspec
import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import msgpack_codec
from mqloom.plugins.msgpack_codec import decode


def publication(payload: bytes) -> Publication:
    return Publication(GatewayId("north"), 1, 1, 1, 0, "stocks/YHOO", payload)


def test_the_codec_is_offered_as_msgpack() -> None:
    assert Manager([LoadedPlugin("msgpack_codec", "test", msgpack_codec)], {}).codecs()["msgpack"].decode is decode


def test_the_members_of_a_map_are_its_attributes() -> None:
    members = {"symbol": "YHOO", "volume": 400000, "price": 31.5, "open": True, "note": None, "raw": b"\xff"}
    assert decode(publication(msgspec.msgpack.encode(members))) == members


def test_nested_members_are_reached_by_dotted_path() -> None:
    attributes = decode(publication(msgspec.msgpack.encode({"quote": {"symbol": "YHOO", "at": {"volume": 5}}})))
    assert Filter.parse("quote.symbol = 'YHOO' AND quote.at.volume > 4").matches(attributes)


def test_nan_and_infinities_are_values_that_filters_know() -> None:
    attributes = decode(publication(msgspec.msgpack.encode({"a": math.nan, "b": math.inf})))
    assert Filter.parse("b > 1 AND a IS NOT NULL").matches(attributes)
    assert not Filter.parse("a > 1 OR a <= 1").matches(attributes)


@pytest.mark.parametrize("extension", [b"\xd4\x05x", b"\xd6\xff\x00\x00\x00\x01", b"\xc7\x00\x07"])
def test_extension_types_are_missing_and_the_rest_is_read(extension: bytes) -> None:
    assert decode(publication(b"\x82\xa1a" + extension + b"\xa1b\x01")) == {"a": None, "b": 1}


def test_of_two_members_of_one_name_the_last_counts() -> None:
    assert decode(publication(b"\x82\xa1a\x01\xa1a\x02")) == {"a": 2}


HOSTILE = {
    "nothing": b"",
    "json": b'{"a": 1}',
    "a number": b"\x01",
    "a list": b"\x91\x01",
    "a map cut off": b"\x82\xa1a\x01",
    "more after the map": b"\x81\xa1a\x01\x01",
    "a reserved byte": b"\x81\xa1a\xc1",
    "a key that is a number": b"\x81\x01\x01",
    "a key that is bytes": b"\x81\xc4\x01a\x01",
    "a nested key that is a number": b"\x81\xa1a\x81\x01\x01",
    "a nested key that is a list": b"\x81\xa1a\x81\x92\x01\x02\x01",
    "text that is no UTF-8": b"\x81\xa1a\xa1\xff",
    "a name that is no UTF-8": b"\x81\xa1\xff\x01",
    "a map said to be huge": b"\xdf\xff\xff\xff\xff",
    "a list said to be huge": b"\x81\xa1a\xdd\xff\xff\xff\xff",
    "bytes said to be many": b"\x81\xa1a\xc6\xff\xff\xff\xff",
    "lists nested without end": b"\x81\xa1a" + b"\x91" * 1_000_000 + b"\x01",
    "maps nested without end": b"\x81\xa1a" * 1_000_000 + b"\x01",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_map_with_text_for_keys_is_a_value_error(kind: str) -> None:
    with pytest.raises(ValueError, match="not a MessagePack map"):
        decode(publication(HOSTILE[kind]))


def colliding(count: int) -> list[tuple[int, int]]:
    """Return pairs of numbers that all have one hash: the last step of CPython's hash of a tuple, turned around."""
    mask, prime_1, prime_2, prime_5 = (1 << 64) - 1, 11400714785074694791, 14029467366897019727, 2870177450012600261

    def turn(number: int, bits: int) -> int:
        return (number << bits | number >> (64 - bits)) & mask

    inverse_1, inverse_2 = (pow(prime, -1, 1 << 64) for prime in (prime_1, prime_2))
    wanted = turn(0x123456789 * inverse_1 & mask, 33)
    pairs: list[tuple[int, int]] = []
    first = 0
    while len(pairs) < count:
        first += 1
        state = turn(prime_5 + first * prime_2 & mask, 31) * prime_1 & mask
        second = (wanted - state) * inverse_2 & mask
        if second < (1 << 61) - 1:
            pairs.append((first, second))
    return pairs


def test_keys_made_up_to_have_one_hash_take_no_time() -> None:
    pairs = colliding(40_000)
    assert len(set(map(hash, pairs))) == 1
    keys = b"".join(msgspec.msgpack.encode(pair) + b"\x01" for pair in pairs)
    with pytest.raises(ValueError, match="not a MessagePack map"):
        decode(publication(b"\x81\xa1a\xdf" + len(pairs).to_bytes(4) + keys))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), values))
def test_what_two_libraries_write_is_read_back(members: dict[str, object]) -> None:
    assert decode(publication(msgspec.msgpack.encode(members))) == members
    assert decode(publication(ormsgpack.packb(members))) == members


@given(st.binary() | st.binary().map(lambda data: b"\x81\xa1a" + data) | st.binary().map(lambda data: b"\x81" + data))
def test_random_bytes_give_attributes_or_a_value_error(payload: bytes) -> None:
    try:
        attributes = decode(publication(payload))
    except ValueError:
        return
    assert all(isinstance(name, str) for name in attributes)
