"""Frames: packed, unpacked, refused, and cut to size."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.errors import FrameError
from mqloom.core.ids import Conversation, GatewayId, SubscriptionKey
from mqloom.core.limits import (
    ACK_PLACES_MAX,
    CONTROL_BYTES_MAX,
    CONTROL_HOPS_MAX,
    CONTROL_WHERE_TEXT_MAX,
    CONTROL_WHERES_MAX,
    FILTER_TEXT_MAX,
    FRAME_BYTES_MAX,
    FRAME_BYTES_TARGET,
    FRAME_MESSAGES_MAX,
    HOPS_MAX,
    ID_LENGTH_MAX,
    PAYLOAD_BYTES_MAX,
    PROPERTY_LENGTH_MAX,
    SUBJECT_TEXT_MAX,
    SUBJECT_VALUES_MAX,
    TOPIC_LENGTH_MAX,
    USER_PROPERTIES_MAX,
)
from mqloom.core.messages import (
    Announce,
    Control,
    Established,
    Flush,
    Flushed,
    Hello,
    Message,
    Synced,
    Want,
    Withdraw,
)
from mqloom.core.publication import Publication
from mqloom.core.wire import REFUSALS, SEALED, VERSION, Ack, Frame, batches, decode, decode_ack, encode, encode_ack

A = GatewayId("A")
KEY = SubscriptionKey(A, 1, 7)
LAST = 2**63 - 1
WIDE = "\U0001f9f5"  # four bytes in UTF-8

EVERY_KIND: tuple[Message, ...] = (
    Hello(None, True),
    Hello(Conversation(3, 4), False),
    Announce(KEY, "stocks/#", "volume > 10", A, 3),
    Synced(),
    Withdraw(KEY),
    Established(KEY),
    Established(KEY, False),
    Publication(A, 1, 2, 0, 3, "stocks/a", b"\x00payload", 1, True, "text/plain", (("k", "v"),)),
    Publication(A, 1, 2, 0, 3, "stocks/a", b"", 1, packet=65_535, repeat=True),
    Flush(A, 1, 2),
    Flushed(A, 1, 2),
    Control(A, 1, 2, 3, "pie", b"body"),
    Control(A, 1, 2, 3, "pie", b"body", {"class": "PIE", "delay": 0.5, "number": 3, "fresh": True}, 2),
    Want(A, 1, 2, "pie", ("class = 'PIE'", ""), 1, 2),
    Want(A, 1, 3, "pie", ()),
)

numbers = st.integers(0, LAST)
names = st.text(min_size=1, max_size=20)
keys = st.builds(SubscriptionKey, names.map(GatewayId), numbers, numbers)
topics = st.text(st.characters(exclude_characters="+#\0", codec="utf-8"), min_size=1, max_size=20)
publications = st.builds(
    Publication,
    names.map(GatewayId),
    numbers,
    numbers,
    numbers,
    st.integers(0, HOPS_MAX),
    topics,
    st.binary(max_size=40),
    st.integers(0, 2),
    st.booleans(),
    st.text(max_size=10),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3).map(tuple),
    st.integers(0, 65_535),
    st.booleans(),
)
messages = st.one_of(
    publications,
    st.builds(Hello, st.none() | st.builds(Conversation, numbers, numbers), st.booleans()),
    st.builds(Announce, keys, topics, st.text(max_size=20)),
    st.builds(Synced),
    st.builds(Withdraw, keys),
    st.builds(Established, keys, st.booleans()),
    st.builds(Flush, names.map(GatewayId), numbers, numbers),
    st.builds(Flushed, names.map(GatewayId), numbers, numbers),
    st.builds(
        Control,
        names.map(GatewayId),
        numbers,
        numbers,
        st.integers(0, CONTROL_HOPS_MAX),
        st.text(min_size=1, max_size=64),
        st.binary(max_size=40),
        st.sampled_from([{}, {"x": True, "y": -1.5}, {"z": LAST, WIDE: WIDE}]),
        st.integers(0, CONTROL_HOPS_MAX),
    ),
    st.builds(Want, names.map(GatewayId), numbers, numbers, names, st.sampled_from([(), ("", WIDE)])),
)
frames = st.builds(
    Frame,
    names.map(GatewayId),
    st.builds(Conversation, numbers, numbers),
    numbers,
    st.lists(messages, max_size=5).map(tuple),
)


def frame_of(*messages: Message) -> Frame:
    return Frame(A, Conversation(1, 0), 0, messages)


def reason_of(data: bytes) -> str:
    with pytest.raises(FrameError) as caught:
        decode(data)
    return caught.value.reason


def outcome(data: bytes) -> Frame | str:
    try:
        return decode(data)
    except FrameError as error:
        return error.reason


def largest_publication() -> Publication:
    wide = WIDE * PROPERTY_LENGTH_MAX
    return Publication(
        GatewayId(WIDE * ID_LENGTH_MAX),
        LAST,
        LAST,
        LAST,
        HOPS_MAX,
        WIDE * TOPIC_LENGTH_MAX,
        bytes(PAYLOAD_BYTES_MAX),
        2,
        True,
        wide,
        ((wide, wide),) * USER_PROPERTIES_MAX,
    )


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: type(message).__name__)
def test_every_kind_of_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(frame_of(message))) == frame_of(message)


class AnnounceOfBefore(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """As it was when nobody counted links."""

    key: SubscriptionKey
    topics: str
    where: str
    anchor: str | None = None


def test_gateways_of_before_and_of_now_read_each_others_announcements() -> None:
    before, now = AnnounceOfBefore(KEY, "a/#", "x > 1", A), Announce(KEY, "a/#", "x > 1", A, 7)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(before), type=Announce) == Announce(KEY, "a/#", "x > 1", A)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=AnnounceOfBefore) == before


def test_all_kinds_share_a_frame_in_order() -> None:
    assert decode(encode(frame_of(*EVERY_KIND))).messages == EVERY_KIND


@given(frames)
def test_any_frame_comes_back_as_it_was(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


def test_ids_come_back_as_named_tuples() -> None:
    frame = decode(encode(frame_of(Withdraw(KEY))))
    (message,) = frame.messages
    assert isinstance(frame.conversation, Conversation)
    assert isinstance(message, Withdraw)
    assert isinstance(message.key, SubscriptionKey)


def test_the_largest_publication_fits_into_a_frame() -> None:
    data = encode(frame_of(largest_publication()))
    assert len(data) <= FRAME_BYTES_MAX
    assert decode(data).messages == (largest_publication(),)


def test_nothing_is_refused_as_empty() -> None:
    assert reason_of(b"") == "empty"


def test_a_frame_past_the_bound_is_refused_as_oversized() -> None:
    assert reason_of(bytes(FRAME_BYTES_MAX + 1)) == "oversized"


@pytest.mark.parametrize("version", [0, VERSION + 1, 255])
def test_another_format_is_refused_and_says_which(version: int) -> None:
    data = bytes([version]) + encode(frame_of())[1:]
    assert reason_of(data) == "version"
    with pytest.raises(FrameError, match=f"format {version}, this gateway reads format {VERSION}"):
        decode(data)


def packed(*fields: object) -> bytes:
    return bytes([VERSION]) + msgspec.msgpack.encode(list(fields))


def with_message(*fields: object) -> bytes:
    return packed("A", [1, 0], 0, [list(fields)])


MALFORMED = {
    "only a version": bytes([VERSION]),
    "cut short": encode(frame_of(*EVERY_KIND))[:-3],
    "more behind it": encode(frame_of()) + b"\x00",
    "no array": bytes([VERSION]) + msgspec.msgpack.encode({"sender": "A"}),
    "too few fields": packed("A", [1, 0], 0),
    "an empty sender": packed("", [1, 0], 0, []),
    "a long sender": packed("A" * (ID_LENGTH_MAX + 1), [1, 0], 0, []),
    "a sender that is no text": packed(b"\xff", [1, 0], 0, []),
    "a sender that is no UTF-8": bytes([VERSION]) + b"\x94\xa1\xff\x92\x01\x00\x00\x90",
    "a negative sequence": packed("A", [1, 0], -1, []),
    "a sequence past 63 bits": packed("A", [1, 0], 2**63, []),
    "a conversation of one number": packed("A", [1], 0, []),
    "a negative epoch": packed("A", [-1, 0], 0, []),
    "too many messages": packed("A", [1, 0], 0, [[4]] * (FRAME_MESSAGES_MAX + 1)),
    "an unknown message": with_message(99),
    "a message without a tag": with_message(),
    "a Hello without a conversation": with_message(2),
    "a publication with a wildcard": with_message(1, "A", 1, 2, 0, 0, "a/+", b""),
    "a publication with a NUL": with_message(1, "A", 1, 2, 0, 0, "a\0b", b""),
    "a publication without a topic": with_message(1, "A", 1, 2, 0, 0, "", b""),
    "a publication with a long topic": with_message(1, "A", 1, 2, 0, 0, "t" * (TOPIC_LENGTH_MAX + 1), b""),
    "a publication that went too far": with_message(1, "A", 1, 2, 0, HOPS_MAX + 1, "a", b""),
    "a publication of no such QoS": with_message(1, "A", 1, 2, 0, 0, "a", b"", 3),
    "a publication with a large payload": with_message(1, "A", 1, 2, 0, 0, "a", bytes(PAYLOAD_BYTES_MAX + 1)),
    "a publication with many properties": with_message(
        1, "A", 1, 2, 0, 0, "a", b"", 0, False, "", [["k", "v"]] * (USER_PROPERTIES_MAX + 1)
    ),
    "a publication with a long property": with_message(
        1, "A", 1, 2, 0, 0, "a", b"", 0, False, "", [["k" * (PROPERTY_LENGTH_MAX + 1), "v"]]
    ),
    "a publication with a large packet id": with_message(1, "A", 1, 2, 0, 0, "a", b"", 0, False, "", [], 65_536, False),
    "an announcement with a long filter": with_message(3, ["A", 1, 2], "a", "x" * (FILTER_TEXT_MAX + 1)),
    "a withdrawal of no key": with_message(5, ["A", 1]),
    "a control publication with a large body": with_message(9, "A", 1, 2, 0, "pie", bytes(CONTROL_BYTES_MAX + 1)),
    "a control publication of nobody": with_message(9, "A", 1, 2, 0, "", b""),
    "a control publication that goes too far": with_message(9, "A", 1, 2, CONTROL_HOPS_MAX + 1, "pie", b""),
    "arrays within arrays": bytes([VERSION]) + b"\x91" * 100_000,
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_value_outside_its_bounds_is_refused_as_malformed(what: str) -> None:
    assert reason_of(MALFORMED[what]) == "malformed"


def test_the_malformed_examples_differ_from_a_good_one_only_in_their_mistake() -> None:
    assert decode(packed("A", [1, 0], 0, [])) == frame_of()
    assert decode(with_message(5, ["A", 1, 7])) == frame_of(Withdraw(KEY))


def test_every_refusal_that_is_not_the_nodes_is_raised_here() -> None:
    raised = {
        reason_of(b""),
        reason_of(bytes(FRAME_BYTES_MAX + 1)),
        reason_of(b"\xff"),
        reason_of(bytes([SEALED])),
        reason_of(MALFORMED["cut short"]),
    }
    of_the_node = {"sender", "stranger", "unsealed", "key", "forged", "replayed", "outdated"}
    assert raised == set(REFUSALS) - of_the_node


def test_fields_that_a_later_release_adds_at_the_end_are_skipped() -> None:
    assert decode(packed("A", [1, 0], 0, [[4, "news"]], "more")) == frame_of(Synced())


@given(st.binary(max_size=200))
def test_random_bytes_give_a_frame_or_a_frame_error(data: bytes) -> None:
    for candidate in (data, bytes([VERSION]) + data):
        assert outcome(candidate) in REFUSALS or isinstance(outcome(candidate), Frame)


@given(frames, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=300)
def test_mutated_frames_give_a_frame_or_a_frame_error(frame: Frame, changes: list[tuple[int, int]], cut: bool) -> None:
    data = bytearray(encode(frame))
    for place, value in changes:
        data[place % len(data)] = value
    if cut:
        del data[changes[0][0] % len(data) :]
    mutated = outcome(bytes(data))
    if isinstance(mutated, Frame):
        assert decode(encode(mutated)) == mutated
    else:
        assert mutated in REFUSALS


@given(st.lists(messages, max_size=30))
def test_batches_keep_every_message_in_order(given_messages: list[Message]) -> None:
    cut = list(batches(given_messages))
    assert [message for batch in cut for message in batch] == given_messages
    assert all(cut)


def test_nothing_is_cut_into_nothing() -> None:
    assert list(batches([])) == []


def test_a_batch_has_as_many_messages_as_a_frame_may() -> None:
    count = 2 * FRAME_MESSAGES_MAX + 1
    assert [len(batch) for batch in batches([Synced()] * count)] == [FRAME_MESSAGES_MAX, FRAME_MESSAGES_MAX, 1]


def test_a_batch_ends_where_the_next_message_would_be_too_much() -> None:
    def publication(size: int) -> Publication:
        return Publication(A, 1, 2, 0, 0, "t", bytes(size))

    third = publication(FRAME_BYTES_TARGET // 3)
    assert [len(batch) for batch in batches([third] * 5)] == [2, 2, 1]


def test_one_oversized_message_goes_alone_and_the_rest_as_usual() -> None:
    small = Publication(A, 1, 2, 0, 0, "t", b"")
    large = Publication(A, 1, 3, 0, 0, "t", bytes(FRAME_BYTES_TARGET + 1))
    assert list(batches([small, small, large, small, small])) == [(small, small), (large,), (small, small)]


def long_properties() -> Publication:
    wide = WIDE * PROPERTY_LENGTH_MAX
    return Publication(A, 1, 2, 0, 0, "t", b"", 0, False, wide, ((wide, wide),) * USER_PROPERTIES_MAX)


def long_topic() -> Publication:
    return Publication(GatewayId(WIDE * ID_LENGTH_MAX), LAST, LAST, LAST, 0, WIDE * TOPIC_LENGTH_MAX, b"")


LARGE_KEY = SubscriptionKey(GatewayId(WIDE * ID_LENGTH_MAX), LAST, LAST)
LARGE: dict[str, Message] = {
    "the largest publication": largest_publication(),
    "properties": long_properties(),
    "a topic": long_topic(),
    "a name": Publication(LARGE_KEY.gateway, LAST, LAST, LAST, HOPS_MAX, "t", b""),
    "an announcement": Announce(LARGE_KEY, WIDE * TOPIC_LENGTH_MAX, WIDE * FILTER_TEXT_MAX),
    "a withdrawal": Withdraw(LARGE_KEY),
    "an answer": Established(LARGE_KEY),
    "a wave": Flush(LARGE_KEY.gateway, LAST, LAST),
    "a control publication": Control(
        LARGE_KEY.gateway, LAST, LAST, CONTROL_HOPS_MAX, WIDE * 64, bytes(CONTROL_BYTES_MAX)
    ),
    "a subject": Control(
        LARGE_KEY.gateway,
        LAST,
        LAST,
        CONTROL_HOPS_MAX,
        WIDE * 64,
        b"",
        {
            WIDE * (SUBJECT_TEXT_MAX - 1) + f"{number:x}": WIDE * SUBJECT_TEXT_MAX
            for number in range(SUBJECT_VALUES_MAX)
        },
    ),
    "a want": Want(LARGE_KEY.gateway, LAST, LAST, WIDE * 64, (WIDE * CONTROL_WHERE_TEXT_MAX,) * CONTROL_WHERES_MAX),
}


@pytest.mark.parametrize("what", LARGE)
def test_a_batch_of_the_largest_messages_stays_under_the_bound_of_a_frame(what: str) -> None:
    small = Publication(A, 1, 2, 0, 0, "t", bytes(FRAME_BYTES_TARGET - 100))
    for batch in batches([small, *[LARGE[what]] * 20, small]):
        assert len(encode(Frame(LARGE_KEY.gateway, Conversation(LAST, LAST), LAST, batch))) <= FRAME_BYTES_MAX


def test_a_full_batch_of_small_messages_with_the_longest_names_stays_under_the_bound() -> None:
    for batch in batches([LARGE["a name"], LARGE["a withdrawal"], LARGE["a wave"]] * FRAME_MESSAGES_MAX):
        assert len(encode(Frame(LARGE_KEY.gateway, Conversation(LAST, LAST), LAST, batch))) <= FRAME_BYTES_MAX


# ---- acknowledgements --------------------------------------------------------------------------------------------


def ack_reason(data: bytes) -> str:
    with pytest.raises(FrameError) as caught:
        decode_ack(data)
    return caught.value.reason


def ack_outcome(data: bytes) -> Ack | str:
    try:
        return decode_ack(data)
    except FrameError as error:
        return error.reason


@given(
    st.builds(
        Ack,
        names.map(GatewayId),
        st.builds(Conversation, numbers, numbers),
        numbers,
        numbers,
        st.lists(numbers, max_size=5).map(tuple),
    )
)
def test_any_acknowledgement_comes_back_as_it_was(ack: Ack) -> None:
    assert decode_ack(encode_ack(ack)) == ack


BAD_ACKS = {
    "only a version": bytes([VERSION]),
    "too few fields": packed("A", [1, 0], 0),
    "an empty sender": packed("", [1, 0], 0, 0),
    "a long sender": packed("A" * (ID_LENGTH_MAX + 1), [1, 0], 0, 0),
    "a sender that is no UTF-8": bytes([VERSION]) + b"\x94\xa1\xff\x92\x01\x00\x00\x00",
    "a negative count": packed("A", [1, 0], -1, 0),
    "a count past 63 bits": packed("A", [1, 0], 0, 2**63),
    "a place that is no number": packed("A", [1, 0], 0, 0, ["x"]),
    "a negative place": packed("A", [1, 0], 0, 0, [-1]),
    "too many places": packed("A", [1, 0], 0, 0, [0] * (ACK_PLACES_MAX + 1)),
    "a count that is no number": packed("A", [1, 0], 0, "many"),
    "a conversation of one number": packed("A", [1], 0, 0),
    "a frame": encode(frame_of(*EVERY_KIND)),
    "arrays within arrays": bytes([VERSION]) + b"\x91" * 100_000,
    "more behind it": packed("A", [1, 0], 0, 0) + b"\x00",
}


@pytest.mark.parametrize("what", BAD_ACKS)
def test_an_acknowledgement_with_a_value_outside_its_bounds_is_refused_as_malformed(what: str) -> None:
    assert ack_reason(BAD_ACKS[what]) == "malformed"
    assert decode_ack(packed("A", [1, 0], 2, 1)) == Ack(A, Conversation(1, 0), 2, 1)


def test_an_acknowledgement_may_name_as_many_places_as_the_bound() -> None:
    ack = Ack(A, Conversation(1, 0), LAST, LAST, (LAST,) * ACK_PLACES_MAX)
    assert decode_ack(encode_ack(ack)) == ack


def test_an_acknowledgement_of_nothing_or_of_another_format_is_refused() -> None:
    assert ack_reason(b"") == "empty"
    assert ack_reason(bytes([VERSION + 1]) + packed("A", [1, 0], 0, 0)[1:]) == "version"


@given(st.binary(max_size=60))
def test_random_bytes_give_an_acknowledgement_or_a_frame_error(data: bytes) -> None:
    for candidate in (data, bytes([VERSION]) + data):
        ack = ack_outcome(candidate)
        assert ack in REFUSALS or (isinstance(ack, Ack) and decode_ack(encode_ack(ack)) == ack)
