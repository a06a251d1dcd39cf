"""MQTT's packets: cut however the network likes, read as they were written, and refused when they are none."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mqloom.core.errors import TopicError
from mqloom.core.limits import (
    FRAME_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PLACE_BYTES_MAX,
    PORTRAIT_BYTES_MAX,
    QUESTION_BYTES_MAX,
    READ_BYTES_MAX,
    RECORD_BYTES_MAX,
    REPORT_BYTES_MAX,
)
from mqloom.core.seals import PACKET_BYTES
from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, RetainedMessages, TopicSubscription
from mqloom.gateway.drivers.packets import PacketError, Splitter
from mqloom.gateway.drivers.protocols import MQTT_3, MQTT_5, BrokerLimits
from mqloom.gateway.interfaces import BrokerAddress

letters = some.characters(codec="utf-8", exclude_characters="+#\0")
texts = some.text(letters, max_size=20)
messages = some.builds(
    Received,
    some.text(letters, min_size=1, max_size=30),
    some.binary(max_size=300),
    some.integers(0, 1),
    some.booleans(),
    some.tuples(some.just(7), some.integers(1, 65_535)),
    some.booleans(),
    texts,
    some.lists(some.tuples(texts, texts), max_size=3).map(tuple),
)


def written(message: Received, version: int) -> bytes:
    first = packets.PUBLISH | message.again << 3 | message.qos << 1 | message.retain
    properties = packets.publish_properties(version, message.content_type, message.user_properties)
    packet = message.token[1] if message.qos else 0
    return packets.publish(first, packets.topic_bytes(message.topic), packet, properties, message.payload)


def expected(message: Received, version: int) -> Received:
    content = (message.content_type, message.user_properties) if version == MQTT_5 else ("", ())
    token = (7, message.token[1] if message.qos else 0)
    return Received(message.topic, message.payload, message.qos, message.retain, token, message.again, *content)


@given(some.lists(messages, max_size=5), some.sampled_from([MQTT_3, MQTT_5]), some.lists(some.integers(1, 40)))
def test_what_is_written_is_read_however_it_is_cut(sent: list[Received], version: int, cuts: list[int]) -> None:
    stream = b"".join(written(message, version) for message in sent)
    splitter, read = Splitter(), []
    for size in [*cuts, len(stream)]:
        piece, stream = stream[:size], stream[size:]
        read += [packets.read_publish(first, body, version, 7) for first, body in splitter.feed(piece)]
    assert read == [expected(message, version) for message in sent]


@given(some.binary(max_size=60), some.sampled_from([MQTT_3, MQTT_5]))
def test_junk_is_refused_and_never_worse(junk: bytes, version: int) -> None:
    for read in (
        lambda: list(Splitter().feed(junk)),
        lambda: packets.read_publish(0x32, junk, version, 1),
        lambda: packets.read_connack(junk, version),
        lambda: packets.read_suback(junk, version),
        lambda: packets.read_puback(junk),
        lambda: packets.read_unsuback(junk, version),
    ):
        with contextlib.suppress(PacketError):
            read()


def test_however_many_long_topics_are_published_to_few_stay_in_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(1_000):
            packets.topic_bytes(f"a/{number}/" + "x" * 60_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10_000_000


def test_a_large_packet_comes_in_one_piece() -> None:
    payload = bytes(1_000_000)
    stream = packets.publish(packets.PUBLISH, packets.topic_bytes("a"), 0, b"", payload)
    splitter = Splitter()
    pieces = [stream[begin : begin + 65_536] for begin in range(0, len(stream), 65_536)]
    read = [packet for piece in pieces for packet in splitter.feed(piece)]
    assert [packets.read_publish(*packet, MQTT_3, 1).payload for packet in read] == [payload]


@given(
    some.lists(messages, max_size=6),
    some.sampled_from([MQTT_3, MQTT_5]),
    some.lists(some.integers(0, 400), max_size=12),
    some.integers(130, 400),
)
def test_the_end_of_a_packet_that_is_too_large_is_forgotten_and_the_others_are_whole(
    sent: list[Received], version: int, cuts: list[int], bytes_max: int
) -> None:
    stream = b"".join(written(message, version) for message in sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "READ_BYTES_MAX", bytes_max)
        splitter, read = Splitter(), []
        for size in [*cuts, len(stream)]:
            piece, stream = stream[:size], stream[size:]
            for first, body in splitter.feed(piece):
                assert len(body) <= bytes_max
                read.append((len(body), packets.read_publish(first, body, version, 7)))
    for message, (size, got) in zip(sent, read, strict=True):
        if size < bytes_max:
            assert got == expected(message, version)
        else:
            whole = expected(message, version)
            assert (got.topic, got.qos, got.token, got.again) == (whole.topic, whole.qos, whole.token, whole.again)
            assert len(got.payload) == bytes_max - 2 - len(got.topic.encode()) - 2 * (got.qos > 0)


def test_a_packet_of_100_mb_costs_no_more_memory_than_one_that_is_just_too_large() -> None:
    topic, piece = packets.topic_bytes("a"), bytes(65_536)
    head = bytes((packets.PUBLISH | 2,)) + packets.length(len(topic) + 2 + 1_600 * len(piece)) + topic + b"\0\7"
    splitter = Splitter()
    tracemalloc.start()
    try:
        read = [packet for data in (head, *([piece] * 1_600)) for packet in splitter.feed(data)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [cut] = [packets.read_publish(*packet, MQTT_5, 1) for packet in read]
    assert (cut.topic, cut.token) == ("a", (1, 7))
    assert peak < 3 * READ_BYTES_MAX
    assert list(splitter.feed(packets.PING)) == [(0xC0, b"")]


def test_what_is_left_of_a_packet_is_too_large_for_everything() -> None:
    left = READ_BYTES_MAX - 2 - 65_535 - 2
    assert left > max(FRAME_BYTES_MAX + PACKET_BYTES, PAYLOAD_BYTES_MAX, RECORD_BYTES_MAX)
    assert left > max(PLACE_BYTES_MAX, QUESTION_BYTES_MAX, PORTRAIT_BYTES_MAX, REPORT_BYTES_MAX)


def test_connect_and_subscribe_are_as_the_specification_draws_them() -> None:
    plan = ConnectionPlan(
        address=BrokerAddress("x", 1, "us", "pw"),
        client_id="ü",
        clean_session=False,
        subscriptions=[],
        on_messages=lambda batch: None,
        on_up=lambda: None,
        on_down=lambda problem: None,
        will=("w", b"gone"),
    )
    rest = b"\0\1w\0\4gone\0\2us\0\2pw"
    assert packets.connect(plan, MQTT_3, 30, 9) == b"\x10\x1f\0\4MQTT\x04\xec\0\x1e\0\2\xc3\xbc" + rest
    assert (
        packets.connect(plan, MQTT_5, 30, 9) == b"\x10\x26\0\4MQTT\x05\xec\0\x1e\5\x11\0\0\0\x09\0\2\xc3\xbc\0" + rest
    )
    wish = TopicSubscription("a", 1, no_local=True, retain_as_published=True, retained=RetainedMessages.NEVER)
    assert packets.subscribe(5, [wish], MQTT_3) == b"\x82\x06\0\5\0\1a\x01"
    assert packets.subscribe(5, [wish], MQTT_5) == b"\x82\x07\0\5\0\0\1a\x2d"


def test_the_limits_of_a_broker_are_read_from_its_answer() -> None:
    body = b"\0\0\x0f\x21\0\x14\x27\0\0\x10\0\x25\0\x13\0\x3c\x29\1"
    assert packets.read_connack(body, MQTT_5) == packets.Answer(0, BrokerLimits(20, 4096, has_retained=False), 60)
    assert packets.read_connack(b"\0\0", MQTT_3) == packets.Answer(0, BrokerLimits(), None)
    assert packets.read_connack(b"\0\1", MQTT_5).code == 1
    assert [packets.read_connack(b"\1\0", version).is_resumed for version in (MQTT_3, MQTT_5)] == [True, True]


@pytest.mark.parametrize("topic", ["a/#", "+", "", "a\0b", "x" * 70_000])
def test_a_topic_that_mqtt_does_not_allow_is_not_written(topic: str) -> None:
    with pytest.raises((TopicError, PacketError)):
        packets.topic_bytes(topic)


def test_a_reason_is_told_in_words_if_it_is_known() -> None:
    assert packets.reason_text(0x87) == "not authorized"
    assert packets.reason_text(0xF0) == "reason 0xf0"


def test_a_topic_is_written_once_and_then_its_number_while_there_are_numbers() -> None:
    numbers = packets.TopicNumbers(2)
    first, second, third = (packets.topic_bytes(topic) for topic in ("link/one", "link/two", "link/three"))
    written = [numbers.publish(packets.PUBLISH, topic, b"x") for topic in (first, first, second, third, third, second)]
    assert [b"link/" in each for each in written] == [True, False, True, True, True, False]
    assert written[1] == b"\x30\x07\x00\x00\x03\x23\x00\x01x"
    assert written[5].endswith(b"\x00\x02x")


def test_a_connack_says_how_many_topics_may_have_numbers() -> None:
    assert packets.read_connack(b"\0\0\x03\x22\x00\x0a", MQTT_5).limits.topic_aliases == 10
    assert packets.read_connack(b"\0\0\x00", MQTT_5).limits.topic_aliases == 0
