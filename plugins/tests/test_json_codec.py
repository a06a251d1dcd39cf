import pytest

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.interfaces import Codec
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import json_codec


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


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1])
def test_large_integers_stay_exact(codec: Codec, number: int) -> None:
    (value,) = codec.decode(publication(b'{"n": %d}' % number)).values()
    assert value == number
    assert type(value) is int


@pytest.mark.parametrize(
    "payload",
    [b"", b"YHOO,31.5", b"3", b"[1]", b"null", b'"x"', b'{"a": 1', b'{"a": 1} x', b"\xff", b'{"a": "\xff"}', b"{1: 2}"],
)
def test_what_is_no_object_is_a_value_error(codec: Codec, payload: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        codec.decode(publication(payload))


def test_an_object_nested_without_end_is_a_value_error(codec: Codec) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        codec.decode(publication(b'{"a":' * 100_000))
