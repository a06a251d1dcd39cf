import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.gateway.interfaces import Attributes
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import user_properties_codec
from mqloom.plugins.user_properties_codec import mqloom_check, mqloom_codec

TYPES: dict[str, object] = {"types": {"volume": "int", "price": "float", "open": "bool", "note": "text"}}


def read(*properties: tuple[str, str], settings: dict[str, object] | None = None) -> Attributes:
    plugin = LoadedPlugin("it", "test", user_properties_codec)
    codec = Manager([plugin], {"it": {} if settings is None else settings}).codecs()["user_properties"]
    return codec.decode(publication(*properties))


def publication(*properties: tuple[str, str]) -> Publication:
    return Publication(GatewayId("north"), 1, 1, 1, 0, "stocks/YHOO", b"\xffno matter what", user_properties=properties)


def test_properties_are_attributes_and_text() -> None:
    attributes = read(("symbol", "YHOO"), ("volume", "400000"))
    assert attributes == {"symbol": "YHOO", "volume": "400000"}
    assert not Filter.parse("volume > 300000").matches(attributes)


def test_a_publication_without_properties_has_no_attributes_but_is_no_mistake() -> None:
    assert read() == {}
    assert read(settings=TYPES) == {}


def test_properties_have_the_types_of_the_settings() -> None:
    given_types = (("volume", "400000"), ("price", "31.5"), ("open", "true"), ("note", "7"), ("other", "8"))
    attributes = read(*given_types, settings=TYPES)
    assert attributes == {"volume": 400000, "price": 31.5, "open": True, "note": "7", "other": "8"}
    assert Filter.parse("volume > 300000 AND price < 32 AND open = TRUE").matches(attributes)


def test_text_may_be_any_text() -> None:
    assert read(("note", "a/b\n"), settings=TYPES) == {"note": "a/b\n"}


def test_of_several_properties_of_one_name_the_last_counts() -> None:
    assert read(("volume", "x"), ("volume", "2"), settings=TYPES) == {"volume": 2}


def test_a_name_with_dots_is_reached_by_its_path() -> None:
    assert Filter.parse("plant.line = '7'").matches(read(("plant.line", "7")))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("volume", ""),
        ("volume", "4.0"),
        ("volume", "1_000"),
        ("volume", " 7"),
        ("volume", "7\n"),
        ("volume", "\u0667"),
        ("volume", "9" * 641),
        ("volume", "0x10"),
        ("price", "nan"),
        ("price", "inf"),
        ("price", "1e999"),
        ("price", "1,5"),
        ("price", "."),
        ("open", "True"),
        ("open", "1"),
    ],
)
def test_a_property_that_is_not_of_its_type_is_a_value_error(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"the user property '{name}' is no "):
        read(("symbol", "YHOO"), (name, text), settings=TYPES)


def test_a_mistake_in_the_settings_is_explained_and_the_codec_is_still_offered() -> None:
    assert mqloom_check({"type": {}}) == ["unknown key 'type'; did you mean 'types'?"]
    assert mqloom_check({"types": {"a": "integer"}}) == [
        "types.*: there is no 'integer'; it is one of 'text', 'int', 'float', 'bool'"
    ]
    assert mqloom_check(TYPES) == []
    assert mqloom_codec({"types": 3}).decode(publication(("a", "1"))) == {"a": "1"}


@given(st.integers(-(10**640) + 1, 10**640 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_what_python_writes_is_read_back(volume: int, price: float, is_open: bool) -> None:
    properties = (("volume", str(volume)), ("price", repr(price)), ("open", str(is_open).lower()))
    assert read(*properties, settings=TYPES) == {"volume": volume, "price": price, "open": is_open}


@given(st.lists(st.tuples(st.sampled_from(["volume", "price", "open", "a"]), st.text())))
def test_random_properties_give_attributes_or_a_value_error(properties: list[tuple[str, str]]) -> None:
    try:
        attributes = read(*properties, settings=TYPES)
    except ValueError:
        return
    assert set(attributes) == dict(properties).keys()
