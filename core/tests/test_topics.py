"""Topics against brute force over all small topics."""

import tracemalloc
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.errors import TopicError
from mqloom.core.topics import (
    TOPIC_BYTES_MAX,
    check_topic,
    check_topic_filter,
    decode_id,
    encode_id,
    topic_filter_covers,
    topic_filters_intersect,
    topic_matches,
)


@pytest.mark.parametrize(
    "topic", ["a", "/", "a//b", "$SYS/x", "stocks/YHOO", " ", "é/\U0001f600", "a" * TOPIC_BYTES_MAX]
)
def test_a_topic_can_be_published_to(topic: str) -> None:
    check_topic(topic)
    check_topic_filter(topic)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("", "at least one character"),
        ("a/+", "no wildcards"),
        ("a/#", "no wildcards"),
        ("a+b", "no wildcards"),
        ("a\0", "no NUL"),
        ("a\ud800", "lone surrogates"),
        ("é" * (TOPIC_BYTES_MAX // 2 + 1), "at most 65535 bytes, this one has 65536"),
    ],
)
def test_a_broken_topic_is_refused(topic: str, words: str) -> None:
    with pytest.raises(TopicError, match=words):
        check_topic(topic)


@pytest.mark.parametrize("text", ["#", "+", "+/+/#", "/#", "a/+/b", "$SYS/#", "a/#", "//", "$shared/a"])
def test_a_topic_filter_can_be_subscribed_to(text: str) -> None:
    check_topic_filter(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at least one character"),
        ("#/a", "the last level"),
        ("a/#/b", "the last level"),
        ("a#", "a level by themselves"),
        ("a/b+", "a level by themselves, not part of one as in 'b\\+'"),
        ("++", "a level by themselves"),
        ("##", "a level by themselves"),
        ("$share/group/a", r"subscribe without \$share"),
        ("$share", r"subscribe without \$share"),
        ("a\0/#", "no NUL"),
        ("\udfff", "lone surrogates"),
    ],
)
def test_a_broken_topic_filter_is_refused(text: str, words: str) -> None:
    with pytest.raises(TopicError, match=words):
        check_topic_filter(text)


@pytest.mark.parametrize(
    ("text", "topic", "answer"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+", "a/b/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/a", False),
        ("+/a", "$SYS/a", False),
        ("$SYS/#", "$SYS/a", True),
        ("$SYS/+", "$SYS/a", True),
        ("+", "/", False),
        ("+/+", "/", True),
        ("/+", "/a", True),
        ("/#", "/", True),
        ("+/a/#", "x/a", True),
        ("a/b/#", "a", False),
        ("a/+", "a/$b", True),
    ],
)
def test_a_topic_filter_matches_as_mqtt_says(text: str, topic: str, answer: bool) -> None:
    assert topic_matches(text, topic) is answer


@pytest.mark.parametrize(
    "ask",
    [
        check_topic,
        encode_id,
        lambda topic: topic_matches("a/+", topic),
        lambda topic: topic_matches(topic, "a/b"),
    ],
)
def test_however_many_long_topics_there_are_few_stay_in_memory(ask: Callable[[str], object]) -> None:
    tracemalloc.start()
    try:
        for number in range(1_000):
            ask(f"a/{number}/" + "x" * 60_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000_000


LEVELS = ["", "a", "$b"]
TOPICS = ["/".join(levels) for depth in range(1, 6) for levels in product(["", "a", "c", "$b"], repeat=depth)][1:]


def all_filters() -> list[str]:
    texts = ["/".join(levels) for depth in (1, 2, 3) for levels in product([*LEVELS, "+"], repeat=depth)]
    return [*(text for text in texts if text), "#", *(f"{text}/#" for text in texts)]


def plainly_matches(wanted: list[str], levels: list[str], first: bool = True) -> bool:
    if wanted and wanted[0] in "+#" and wanted[0] and first and levels[0].startswith("$"):
        return False
    if wanted == ["#"]:
        return True
    if not wanted or not levels:
        return not wanted and not levels
    return wanted[0] in ("+", levels[0]) and plainly_matches(wanted[1:], levels[1:], first=False)


FILTERS = all_filters()
MATCHED = {
    text: frozenset(topic for topic in TOPICS if plainly_matches(text.split("/"), topic.split("/"))) for text in FILTERS
}


def test_all_small_filters_match_what_the_plain_version_matches() -> None:
    for text in FILTERS:
        check_topic_filter(text)
        assert {topic for topic in TOPICS if topic_matches(text, topic)} == MATCHED[text], text


def test_covering_is_exact_for_all_small_filters() -> None:
    for wide, narrow in product(FILTERS, FILTERS):
        assert topic_filter_covers(wide, narrow) is (MATCHED[narrow] <= MATCHED[wide]), (wide, narrow)


def test_intersecting_is_exact_for_all_small_filters() -> None:
    for one, other in product(FILTERS, FILTERS):
        assert topic_filters_intersect(one, other) is bool(MATCHED[one] & MATCHED[other]), (one, other)


@given(st.text())
@settings(deadline=None)
def test_any_id_is_one_level_and_comes_back(text: str) -> None:
    level = encode_id(text)
    check_topic(level)
    assert "/" not in level
    assert not level.startswith("$")
    assert level.isascii()
    assert level.isprintable()
    assert decode_id(level) == text


def test_ids_stay_readable() -> None:
    assert encode_id("broker-1:1883,a=b@c~d_e") == "broker-1:1883,a=b@c~d_e"
    assert encode_id("broker-1.example") == "broker-1%2Eexample"
    assert encode_id("a/b+c#d%e$f g") == "a%2Fb%2Bc%23d%25e%24f%20g"
    assert encode_id("$x") == "%24x"
    assert encode_id("é\0") == "%C3%A9%00"
    assert encode_id("") == "%"


@pytest.mark.parametrize(
    "text", ["", "a%", "a%2", "a.b", "%zz", "%2f", "%41", "a/b", "a b", "%FF", "é", "\ud800", "%ED%A0%80", "+"]
)
def test_what_encode_id_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(TopicError, match="percent-encoding"):
        decode_id(text)


def test_a_lone_surrogate_is_no_id() -> None:
    with pytest.raises(TopicError, match="lone surrogates"):
        encode_id("\ud800")


@given(st.text(alphabet="ab%02F/+", max_size=8))
@settings(deadline=None)
def test_no_two_levels_are_one_id(text: str) -> None:
    try:
        decoded = decode_id(text)
    except TopicError:
        return
    assert encode_id(decoded) == text
