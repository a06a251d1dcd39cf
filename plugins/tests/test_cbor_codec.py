import math

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import cbor_codec
from mqloom.plugins.cbor_codec import INTEGER_BYTES_MAX, NESTING_MAX, decode


def publication(payload: bytes) -> Publication:
    return Publication(GatewayId("north"), 1, 1, 1, 0, "stocks/YHOO", payload)


def test_the_codec_is_offered_as_cbor() -> None:
    assert Manager([LoadedPlugin("cbor_codec", "test", cbor_codec)], {}).codecs()["cbor"].decode is decode


def test_the_members_of_a_map_are_its_attributes() -> None:
    members = {"symbol": "YHOO", "volume": 400000, "price": 31.5, "open": True, "note": None, "raw": b"\xff"}
    assert decode(publication(cbor2.dumps(members))) == members


def test_nested_members_are_reached_by_dotted_path() -> None:
    attributes = decode(publication(cbor2.dumps({"quote": {"symbol": "YHOO", "at": {"volume": 5}}})))
    assert Filter.parse("quote.symbol = 'YHOO' AND quote.at.volume > 4").matches(attributes)


def test_nan_and_infinities_are_values_that_filters_know() -> None:
    attributes = decode(publication(cbor2.dumps({"a": math.nan, "b": math.inf})))
    assert Filter.parse("b > 1 AND a IS NOT NULL").matches(attributes)
    assert not Filter.parse("a > 1 OR a <= 1").matches(attributes)


def test_maps_and_texts_of_unsaid_length_are_read() -> None:
    assert decode(publication(b"\xbf\x61a\x7f\x61x\x61y\xff\xff")) == {"a": "xy"}


@pytest.mark.parametrize("number", [2**53 + 1, 2**64 - 1, 2**64, -(2**64) - 1, 2 ** (8 * INTEGER_BYTES_MAX) - 1])
def test_large_integers_stay_exact(number: int) -> None:
    assert decode(publication(cbor2.dumps({"n": number}))) == {"n": number}


@pytest.mark.parametrize("size_bytes", [INTEGER_BYTES_MAX, 1_000_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_past_the_bound_is_missing_and_the_rest_is_read(size_bytes: int, sign: int) -> None:
    number = sign * 2 ** (8 * size_bytes + 1)
    assert decode(publication(cbor2.dumps({"n": number, "a": 1}))) == {"n": None, "a": 1}


TAGGED = {
    "a time as text": (cbor2.CBORTag(0, "2013-03-21T20:04:00Z"), "2013-03-21T20:04:00Z"),
    "a time in seconds": (cbor2.CBORTag(1, 1363896240), 1363896240),
    "a time that is none": (cbor2.CBORTag(0, "soon"), "soon"),
    "a decimal fraction": (cbor2.CBORTag(4, [-2, 27315]), [-2, 27315]),
    "a power that fills the memory": (cbor2.CBORTag(5, [2**62, 3]), [2**62, 3]),
    "a fraction to be reduced": (cbor2.CBORTag(30, [6, 4]), [6, 4]),
    "a division by zero": (cbor2.CBORTag(30, [1, 0]), [1, 0]),
    "a regular expression": (cbor2.CBORTag(35, "(a*)*b"), "(a*)*b"),
    "a shared value": (cbor2.CBORTag(28, [1]), [1]),
    "a reference to nothing": (cbor2.CBORTag(29, 7), 7),
    "a text by number": (cbor2.CBORTag(25, 7), 7),
    "a set": (cbor2.CBORTag(258, [1, 1]), [1, 1]),
    "a tag of nobody's": (cbor2.CBORTag(2**64 - 1, {"b": 1}), {"b": 1}),
    "a tag in a tag": (cbor2.CBORTag(1, cbor2.CBORTag(99, 5)), 5),
}


@pytest.mark.parametrize("kind", TAGGED)
def test_a_tag_is_dropped_and_what_it_marks_is_kept(kind: str) -> None:
    tagged, value = TAGGED[kind]
    assert decode(publication(cbor2.dumps({"a": tagged}))) == {"a": value}


def test_a_payload_may_say_that_it_is_cbor() -> None:
    assert decode(publication(cbor2.dumps(cbor2.CBORTag(55799, {"a": 1})))) == {"a": 1}


@pytest.mark.parametrize("wrong", [[1, 2], "x", {"b": 1}])
def test_a_large_integer_that_is_not_made_of_bytes_is_missing(wrong: object) -> None:
    assert decode(publication(cbor2.dumps({"a": cbor2.CBORTag(2, wrong), "b": cbor2.CBORTag(3, wrong)}))) == {
        "a": None,
        "b": None,
    }


def test_no_value_refers_back_to_what_it_is_in() -> None:
    circle: list[object] = []
    circle.append(circle)
    payload = cbor2.dumps({"a": circle}, value_sharing=True)
    assert decode(publication(payload)) == {"a": [1]}  # the number of the reference


def test_of_two_members_of_one_name_the_last_counts() -> None:
    assert decode(publication(b"\xa2\x61a\x01\x61a\x02")) == {"a": 2}


HOSTILE = {
    "nothing": b"",
    "json": b'{"a": 1}',
    "a number": b"\x01",
    "a list": b"\x81\x01",
    "a map cut off": b"\xa2\x61a\x01",
    "more after the map": b"\xa1\x61a\x01\x01",
    "a break": b"\xff",
    "a key that is a number": b"\xa1\x01\x01",
    "a key that is bytes": b"\xa1\x41a\x01",
    "a key that is a list": b"\xa1\x81\x01\x01",
    "a nested key that is a number": b"\xa1\x61a\xa1\x01\x01",
    "a nested key that is a large number": b"\xa1\x61a\xa1\xc2\x41\x01\x01",
    "a nested key that is a list": b"\xa1\x61a\xa1\x81\x01\x01",
    "text that is no UTF-8": b"\xa1\x61a\x61\xff",
    "a map said to be huge": b"\xbb" + b"\xff" * 8,
    "a list said to be huge": b"\xa1\x61a\x9b\x7f" + b"\xff" * 7,
    "bytes said to be many": b"\xa1\x61a\x5b\x7f" + b"\xff" * 7,
    "lists nested without end": b"\xa1\x61a" + b"\x81" * 1_000_000 + b"\x01",
    "maps nested without end": b"\xa1\x61a" * 1_000_000 + b"\x01",
    "tags nested without end": b"\xa1\x61a" + b"\xc1" * 1_000_000 + b"\x01",
    "one level too many": b"\xa1\x61a" + b"\x81" * NESTING_MAX + b"\x01",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_map_with_text_for_keys_is_a_value_error(kind: str) -> None:
    with pytest.raises(ValueError, match="not a CBOR map"):
        decode(publication(HOSTILE[kind]))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), values))
def test_what_cbor2_writes_is_read_back(members: dict[str, object]) -> None:
    assert decode(publication(cbor2.dumps(members))) == members
    assert decode(publication(cbor2.dumps(members, canonical=True))) == members


@given(st.binary() | st.binary().map(lambda data: b"\xa1\x61a" + data) | st.binary().map(lambda data: b"\xa1" + data))
def test_random_bytes_give_attributes_or_a_value_error(payload: bytes) -> None:
    try:
        attributes = decode(publication(payload))
    except ValueError:
        return
    assert all(isinstance(name, str) for name in attributes)
