"""Topics of our own: built, read back, and told from others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core import layout
from mqloom.core.errors import TopicError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX, TOPIC_LENGTH_MAX
from mqloom.core.topics import TOPIC_BYTES_MAX, check_topic, check_topic_filter, topic_matches

EDGE = GatewayId("EDGE")
ODD = ["a b", "a/b", "a+b", "#", "+", "%", "%2F", "", "$SYS", "é", "\U0001f9f5", "\0", "link", "urgent", "..", "\n"]
odd_ids = st.sampled_from(ODD) | st.text(max_size=20)


@given(odd_ids, odd_ids)
def test_whatever_the_ids_every_topic_is_one_and_is_read_back(one: str, other: str) -> None:
    gateway, client = GatewayId(one), ClientId(other)
    record = layout.record(gateway, client)
    assert layout.record_client(gateway, record) == client
    question = layout.question(gateway, client)
    assert layout.question_client(gateway, question) == client
    assert topic_matches(layout.questions(gateway), question)
    check_topic(question)
    answer = layout.client_answer(gateway, client)
    assert layout.answering_client(gateway, answer) == client
    assert topic_matches(layout.client_answers(gateway), answer)
    assert layout.roster() not in (answer, layout.status(gateway), layout.here())
    assert layout.status_gateway(layout.status(gateway)) == gateway
    for urgent in (False, True):
        link = layout.link(gateway, GatewayId(other), urgent=urgent)
        assert layout.link_sender(gateway, link) == (other, urgent)
        check_topic(link)
    own = (layout.status(gateway), layout.portrait(gateway))
    for topic in (record, layout.out(gateway, client), layout.control(gateway, client), *own):
        check_topic(topic)
        assert topic.startswith(f"{layout.RESERVED}/")


@given(odd_ids, odd_ids)
def test_filters_match_the_topics_they_are_for_and_no_others(one: str, other: str) -> None:
    gateway, peer = GatewayId(one), GatewayId(other)
    ordinary, urgent = layout.links(gateway)
    for text in (layout.records(gateway), ordinary, urgent, layout.all_status()):
        check_topic_filter(text)
    assert topic_matches(layout.records(gateway), layout.record(gateway, ClientId(other)))
    assert topic_matches(ordinary, layout.link(gateway, peer))
    assert topic_matches(urgent, layout.link(gateway, peer, urgent=True))
    assert not topic_matches(ordinary, layout.link(gateway, peer, urgent=True))
    assert topic_matches(layout.all_status(), layout.status(gateway))
    if gateway != peer:
        assert not topic_matches(ordinary, layout.link(peer, gateway))


@given(odd_ids, odd_ids)
def test_different_ids_have_different_topics(one: str, other: str) -> None:
    if one != other:
        assert layout.record(EDGE, ClientId(one)) != layout.record(EDGE, ClientId(other))
        assert layout.status(GatewayId(one)) != layout.status(GatewayId(other))


def test_the_topics_are_those_of_the_architecture() -> None:
    client, peer = ClientId("c/1"), GatewayId("CORE")
    assert layout.records(EDGE) == "mqloom/v1/EDGE/sub/+"
    assert layout.record(EDGE, client) == "mqloom/v1/EDGE/sub/c%2F1"
    assert layout.out(EDGE, client) == "mqloom/v1/EDGE/out/c%2F1"
    assert layout.portrait(EDGE) == "mqloom/v1/EDGE/overlay"
    assert layout.control(EDGE, client) == "mqloom/v1/EDGE/ctl/c%2F1"
    assert layout.link(EDGE, peer) == "mqloom/v1/EDGE/link/CORE"
    assert layout.link(EDGE, peer, urgent=True) == "mqloom/v1/EDGE/link/CORE/urgent"
    assert layout.links(EDGE) == ("mqloom/v1/EDGE/link/+", "mqloom/v1/EDGE/link/+/urgent")
    assert layout.status(EDGE) == "mqloom/v1/EDGE/status"
    assert layout.all_status() == "mqloom/v1/+/status"
    assert layout.dead(EDGE, "stocks/a") == "mqloom/v1/EDGE/dead/stocks/a"


@pytest.mark.parametrize(
    "topic",
    [
        "mqloom/v1/EDGE/sub/a/b",
        "mqloom/v1/EDGE/sub/",
        "mqloom/v1/EDGE/sub/%zz",
        "mqloom/v1/EDGE/sub/a b",
        "mqloom/v1/EDGE/sub/%C3",
        "mqloom/v1/OTHER/sub/a",
    ],
)
def test_a_topic_that_is_no_record_of_ours_is_refused(topic: str) -> None:
    with pytest.raises(TopicError):
        layout.record_client(EDGE, topic)


@pytest.mark.parametrize("topic", ["mqloom/v1/EDGE/link/", "mqloom/v1/EDGE/link/%zz", "mqloom/v1/EDGE/link//urgent"])
def test_a_link_topic_without_a_sender_is_refused(topic: str) -> None:
    with pytest.raises(TopicError):
        layout.link_sender(EDGE, topic)


@pytest.mark.parametrize(
    "topic", ["mqloom/v1/EDGE/link/A/ack", "mqloom/v1/OTHER/link/A", "stocks/urgent", "mqloom/v1/EDGE/link/A/urgent/x"]
)
def test_a_strangers_topic_is_no_link(topic: str) -> None:
    with pytest.raises(TopicError):
        layout.link_sender(EDGE, topic)


@pytest.mark.parametrize(
    "topic", ["mqloom/v1/EDGE", "mqloom/v1/EDGE/state", "EDGE/status", "mqloom/v1/%zz/status", "mqloom/v1//status"]
)
def test_a_topic_that_is_no_status_is_refused(topic: str) -> None:
    with pytest.raises(TopicError):
        layout.status_gateway(topic)


def test_the_longest_names_and_topic_fit_into_a_topic_of_mqtt() -> None:
    wide = "\U0001f9f5"
    out = layout.out(GatewayId(wide * ID_LENGTH_MAX), ClientId(wide * ID_LENGTH_MAX))
    assert len(f"{out}/{wide * TOPIC_LENGTH_MAX}".encode()) <= TOPIC_BYTES_MAX
    assert len(layout.dead(GatewayId(wide * ID_LENGTH_MAX), wide * TOPIC_LENGTH_MAX).encode()) <= TOPIC_BYTES_MAX
