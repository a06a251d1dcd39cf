import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId
from mqloom.core.publication import Publication
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Attributes
from mqloom.gateway.manager import LoadedPlugin, Manager
from mqloom.plugins import topic_template_codec
from mqloom.plugins.topic_template_codec import Template, mqloom_check, mqloom_codec


def read(topic: str, *templates: str) -> Attributes:
    settings = {"it": {"templates": list(templates)}}
    codec = Manager([LoadedPlugin("it", "test", topic_template_codec)], settings).codecs()["topic_template"]
    return codec.decode(Publication(GatewayId("north"), 1, 1, 1, 0, topic, b"\xffno matter what"))


def test_named_levels_are_attributes() -> None:
    assert read("stocks/YHOO", "stocks/{symbol}") == {"symbol": "YHOO"}


def test_levels_have_the_types_of_the_template() -> None:
    template = "plants/{plant}/lines/{line:int}/{part:text}/{load:float}/{on:bool}/+"
    assert read("plants/7/lines/-12/3/0.5/true/x", template) == {
        "plant": "7",
        "line": -12,
        "part": "3",
        "load": 0.5,
        "on": True,
    }


def test_a_false_level_is_a_value_like_others() -> None:
    assert read("a/false/0", "a/{on:bool}/{n:int}") == {"on": False, "n": 0}


def test_the_first_template_that_matches_counts() -> None:
    templates = ("a/{n:int}", "a/{text}", "{all}/+")
    assert read("a/5", *templates) == {"n": 5}
    assert read("a/x", *templates) == {"text": "x"}
    assert read("b/x", *templates) == {"all": "b"}


def test_a_number_out_of_range_does_not_match() -> None:
    assert read("a/1e999", "a/{x:float}", "a/{text}") == {"text": "1e999"}
    assert read(f"a/{'9' * 641}", "a/{x:int}", "a/#") == {}


def test_a_template_without_names_says_that_a_topic_is_known() -> None:
    assert read("a/b", "a/+") == {}


def test_wildcards_stand_for_what_they_do_in_a_topic_filter() -> None:
    assert read("a/b/c/d", "{x}/+/#") == {"x": "a"}
    assert read("a/b", "{x}/+/#") == {"x": "a"}
    assert read("a//\nc", "a/{x}/{y}") == {"x": "", "y": "\nc"}


@pytest.mark.parametrize("template", ["{x}/y", "+/{x}", "#"])
def test_no_wildcard_on_the_first_level_stands_for_a_dollar(template: str) -> None:
    with pytest.raises(ValueError, match="no template matches"):
        read("$SYS/y", template)
    assert read("$SYS/y", "$SYS/{x}") == {"x": "y"}


@pytest.mark.parametrize(
    "topic", ["stock/YHOO", "stocks", "stocks/YHOO/x", "stocks/YHOO\n/", "xstocks/YHOO", "STOCKS/a"]
)
def test_a_topic_that_no_template_matches_is_a_value_error(topic: str) -> None:
    with pytest.raises(ValueError, match="no template matches the topic"):
        read(topic, "stocks/{symbol}")


def test_characters_of_a_template_are_meant_as_they_are() -> None:
    assert read("a.b(c)*/x", "a.b(c)*/{y}") == {"y": "x"}
    with pytest.raises(ValueError, match="no template"):
        read("aXb(c)*/x", "a.b(c)*/{y}")


MISTAKES = {
    "{a}/{a}": "'a' stands for two levels: give each its own name",
    "x{a}": "write {name} or {name:type} for a whole level, not 'x{a}'",
    "{}": "write {name} or {name:type} for a whole level, not '{}'",
    "{a": "write {name} or {name:type} for a whole level, not '{a'",
    "{a:int:int}": "write {name} or {name:type} for a whole level, not '{a:int:int}'",
    "{a:in}": "there is no type 'in'; did you mean 'int'?",
    "{a:}": "there is no type ''; known are 'bool', 'float', 'int', 'text'",
    "#/{a}": "# is the last level of a topic filter or none",
    "x+/{a}": "+ and # are a level by themselves, not part of one as in 'x+'",
    "": "a topic has at least one character",
}


@pytest.mark.parametrize("template", MISTAKES)
def test_a_mistake_in_a_template_is_explained(template: str) -> None:
    problem = f"templates#2: {template!r}: {MISTAKES[template]}"
    assert mqloom_check({"templates": ["a/{b}", template]}) == [problem]
    assert mqloom_codec({"templates": [template]}) is not None  # one complaint is enough


def test_a_mistake_in_the_settings_is_explained() -> None:
    assert mqloom_check({"template": []}) == ["unknown key 'template'; did you mean 'templates'?"]
    assert mqloom_check({"templates": "a/{b}"}) == ["templates: expected a list, got text"]


def test_without_templates_nothing_is_offered() -> None:
    assert mqloom_codec({}) is None
    assert mqloom_check({}) == []


levels = st.text(st.sampled_from("ab1.-/\n$"), max_size=6)
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
template_levels = st.sampled_from(["a", "b", "", "+", "{x}", "{y}", "$"])


@given(st.lists(template_levels, min_size=1, max_size=4, unique=True), st.booleans(), topics)
@example(["{x}"], True, "/")
def test_a_template_matches_what_its_topic_filter_matches(parts: list[str], rest: bool, topic: str) -> None:
    text = "/".join([*parts, "#"] if rest else parts)
    if not text:
        return
    plain = re.sub(r"\{.\}", "+", text)
    assert (Template.parse(text).read(topic) is not None) == topic_matches(plain, topic)


@given(st.text(min_size=1))
def test_any_topic_gives_attributes_or_a_value_error(topic: str) -> None:
    try:
        attributes = read(topic, "{a:int}", "{a:float}/{b:bool}", "{a}/{b}/#")
    except ValueError:
        return
    assert attributes.keys() <= {"a", "b"}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("topic", ["1" * 15_000, "a" * 15_000, "/" * 15_000, "1." * 7_500, "1e" * 7_500])
def test_the_longest_topic_takes_no_time(topic: str) -> None:
    for _ in range(100):
        with pytest.raises(ValueError, match="no template"):
            read(topic, "{a:int}", "{a:float}", "{a:float}/{b:float}/{c:float}", "a/{b}/{c}/{d}")
