import json
import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.core.filter.evaluate import lookup
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.interfaces import Codec
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.gateway.mentions import reached
from mqloom.plugins import json_codec
from mqloom.plugins.json_codec import DIGITS_MAX, PARTIAL_BYTES_MIN, decode, decode_only


@pytest.fixture
def codec() -> Codec:
    return Manager([LoadedPlugin("json_codec", "test", json_codec)], {}).codecs()["json"]


def publication(payload: bytes) -> Publication:
    return Publication(GatewayId("north"), 1, 1, 1, 0, "stocks/YHOO", payload)


def test_the_members_of_an_object_are_its_attributes(codec: Codec) -> None:
    payload = b'{"symbol": "YHOO", "volume": 400000, "price": 31.5, "open": true, "note": null}'
    assert codec.decode(publication(payload)) == {
        "symbol": "YHOO",
        "volume": 400000,
        "price": 31.5,
        "open": True,
        "note": None,
    }


def test_nested_members_are_reached_by_dotted_path(codec: Codec) -> None:
    attributes = codec.decode(publication(b'{"quote": {"symbol": "YHOO", "at": {"volume": 5}}}'))
    assert Filter.parse("quote.symbol = 'YHOO' AND quote.at.volume > 4").matches(attributes)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, -(10 ** (DIGITS_MAX - 1))])
def test_large_integers_stay_exact(codec: Codec, number: int) -> None:
    (value,) = codec.decode(publication(b'{"n": %d}' % number)).values()
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"YHOO,31.5",
        b"3",
        b"1e999",
        b"[1]",
        b"null",
        b'"x"',
        b'{"a": 1',
        b'{"a": 1} x',
        b"\xff",
        b'{"a": "\xff"}',
        b"{1: 2}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999, "b": NaN}',
        b'{"a": 1e999, "b": "\\ud800 alone"}',
        b'{"a": 1e999, "b": "\xff"}',
        b'{"a": 1e999} x',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_what_is_no_object_is_a_value_error(codec: Codec, payload: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        codec.decode(publication(payload))


@pytest.mark.parametrize("nested", [b'{"a":' * 100_000, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_an_object_nested_without_end_is_a_value_error(codec: Codec, nested: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        codec.decode(publication(nested))
    with pytest.raises(ValueError, match="not a JSON object"):
        decode_only(["b"])(publication(nested))


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * (DIGITS_MAX + 1), "-" + "9" * 1_000_000, "9" * 400 + ".0"])
def test_a_number_out_of_range_is_missing_and_the_rest_is_read(codec: Codec, number: str) -> None:
    payload = f'{{"a": 1, "b": {number}, "c": [{number}, 2.5], "d": {10**30}}}'.encode()
    assert codec.decode(publication(payload)) == {"a": 1, "b": None, "c": [None, 2.5], "d": 10**30}


def test_of_two_members_of_one_name_the_last_counts(codec: Codec) -> None:
    assert codec.decode(publication(b'{"a": 1, "a": {"b": 2}}')) == {"a": {"b": 2}}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), values))
def test_what_json_writes_is_read_back(members: dict[str, object]) -> None:
    assert decode(publication(json.dumps(members).encode())) == members


@given(st.binary() | st.text().map(str.encode))
def test_random_bytes_give_attributes_or_a_value_error(payload: bytes) -> None:
    try:
        attributes = decode(publication(payload))
    except ValueError:
        return
    assert all(isinstance(name, str) for name in attributes)


# ---- leaving out what nobody mentions ----------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "é", 'a"b', "a\\b", ""])
scalars = st.sampled_from(["null", "true", "1", "-0", "2.5", "1e999", "9" * 4301, "1e-999", '"x"', '"\\u00e9"', '"é"'])
broken = st.sampled_from(["NaN", "01", "1.", '"\\ud800 alone"', '"\\q"', "[1,]", "{1:2}", "tru", '"\x01"', ""])


def objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(names.map(json.dumps), inner).map(":".join)
    return st.lists(members, max_size=6).map(lambda parts: "{" + ", ".join(parts) + "}")


def lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")


well_formed = st.recursive(scalars, lambda inner: objects(inner) | lists(inner), max_leaves=12)
texts = objects(well_formed) | objects(st.one_of(well_formed, well_formed, broken)) | well_formed
payloads = st.tuples(texts.map(str.encode), st.sampled_from([b"", b"", b"", b"\xff", b"\xed\xa0\x80"])).map(
    lambda parts: parts[0].replace(b"x", parts[1] or b"x") + b" " * PARTIAL_BYTES_MIN
)
paths = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "b.a", '"é"', '"a""b"', '"a\\b"', "gone", "gone.b"])
predicates = st.builds("{} {}".format, paths, st.sampled_from(["IS NULL", "IS NOT NULL", "= 1", "> 0", "<> 'x'"]))
filters = st.lists(predicates, min_size=1, max_size=4).map(" OR ".join).map(Filter.parse)


@given(payloads, st.lists(filters, max_size=3))
@example(b'{"a.b": null, "a": {"b": 1}}'.ljust(PARTIAL_BYTES_MIN), [Filter.parse("a.b = 1")])
@example(b'{"a": {"b": 1}, "a": 2}'.ljust(PARTIAL_BYTES_MIN), [Filter.parse("a.b = 1")])
@example(b'{"c": 1e999, "a": 1}'.ljust(PARTIAL_BYTES_MIN), [Filter.parse("a = 1")])
@example(b'{"c": "\xff", "a": 1}'.ljust(PARTIAL_BYTES_MIN), [Filter.parse("a = 1")])
@example(b'[{"a": 1}]'.ljust(PARTIAL_BYTES_MIN), [])
def test_what_is_mentioned_is_the_same_whether_or_not_the_rest_is_decoded(
    payload: bytes, standing: list[Filter]
) -> None:
    mentioned = {name for where in standing for name in reached(where)}
    decode_mentioned = decode_only(mentioned)
    try:
        full = decode(publication(payload))
    except ValueError:
        with pytest.raises(ValueError, match="not a JSON object"):
            decode_mentioned(publication(payload))
        return
    partial = decode_mentioned(publication(payload))
    for where in standing:
        assert where.evaluate(partial) is where.evaluate(full)
        assert where.matches(partial) is where.matches(full)
        for path in where.attributes:
            assert repr(lookup(partial, path)) == repr(lookup(full, path))


def test_members_that_nobody_mentions_are_left_out() -> None:
    payload = json.dumps({"a": 1, "b": 2, "c": "x" * PARTIAL_BYTES_MIN}).encode()
    assert decode_only({"a", "gone"})(publication(payload)) == {"a": 1}
    assert decode_only(())(publication(payload)) == {}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "", "class", "__init__", "a b", "é", "\U0001f600"])
def test_a_member_may_have_any_name(name: str) -> None:
    payload = json.dumps({name: math.pi, "c": "x" * PARTIAL_BYTES_MIN}).encode()
    assert decode_only({name})(publication(payload))[name] == math.pi


def test_a_small_payload_is_decoded_in_full() -> None:
    payload = msgspec.json.encode({"a": 1, "b": 2})
    assert decode_only({"a"})(publication(payload)) == {"a": 1, "b": 2}
