"""Publications that stand together in a frame, written as one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.bundles import NUMBER_MAX, PACKET_MAX, Bundle, Bundled, bundle, unbundle
from mqloom.core.errors import FrameError
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import FRAME_MESSAGES_MAX
from mqloom.core.messages import Message, Synced
from mqloom.core.publication import Publication
from mqloom.core.wire import Frame, decode, encode

A, B = GatewayId("A"), GatewayId("B")
FIRST = Conversation(1, 0)


def publication(sequence: int = 5, **more: object) -> Publication:
    fields = {"origin": A, "epoch": 1, "low_water": 3, "hops": 1, "topic": "a/b", "payload": b"{}", **more}
    return Publication(sequence=sequence, **fields)  # type: ignore[arg-type]


def again(*messages: Message) -> list[Message]:
    return [
        each
        for message in bundle(messages, A, 1)
        for each in (unbundle(message, A, 1) if isinstance(message, Bundle) else (message,))
    ]


few = st.integers(0, 2) | st.sampled_from([NUMBER_MAX - 1, NUMBER_MAX])
mixed = st.builds(
    publication,
    few,
    origin=st.sampled_from([A, B]),
    epoch=few,
    low_water=few,
    hops=st.integers(0, 2),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    content_type=st.sampled_from(["", "text/plain"]),
    packet=st.integers(0, 2),
    repeat=st.booleans(),
)


@given(st.lists(mixed | st.just(Synced()), max_size=12))
def test_whatever_is_bundled_comes_out_as_it_was_in_its_order(messages: list[Message]) -> None:
    assert again(*messages) == messages
    assert decode(encode(Frame(A, FIRST, 1, tuple(messages)))).messages == tuple(messages)


def test_what_stands_together_and_is_alike_is_one_bundle() -> None:
    messages: list[Message] = [
        publication(5),
        publication(7),
        publication(6),
        Synced(),
        publication(8),
        publication(9, hops=2),
    ]
    assert [type(message) for message in bundle(messages, A, 1)] == [Bundle, Synced, Bundle, Bundle]


@pytest.mark.parametrize(
    "more", [{"retain": True}, {"content_type": "x"}, {"user_properties": (("a", "b"),)}, {"repeat": True}]
)
def test_what_is_unusual_is_written_in_full(more: dict[str, object]) -> None:
    unusual = publication(6, **more)
    assert list(bundle([publication(5), unusual], A, 1))[1] is unusual


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("step", [1, 14])
def test_a_publication_in_a_bundle_takes_11_bytes_more_than_its_topic_and_payload_at_most(qos: int, step: int) -> None:
    messages = tuple(
        publication(sequence, low_water=98_000, payload=b"x" * 100, qos=qos, packet=sequence % 60_000 if qos else 0)
        for sequence in range(100_000, 100_000 + 100 * step, step)
    )
    one, all_ = (len(encode(Frame(A, FIRST, 1, part))) for part in (messages[:1], messages))
    assert (all_ - one) / 99 <= len("a/b") + 100 + 11


def test_a_frame_of_one_publication_has_57_bytes_of_its_own_at_most_wherever_it_began() -> None:
    epoch = 1_760_000_000_000
    for origin, started in (("west", epoch), ("east", epoch - 40_000_000)):
        one = publication(123_456, origin=GatewayId(origin), epoch=started, low_water=123_000, qos=1, packet=60_000)
        frame = Frame(GatewayId("west"), Conversation(epoch, 3), 77_777, (one,))
        assert decode(encode(frame)) == frame
        assert len(encode(frame)) <= len("a/b") + len(b"{}") + 57


@pytest.mark.parametrize(
    ("first", "ahead", "mark", "packet"),
    [
        (0, -1, 0, 0),
        (NUMBER_MAX, 1, 0, 0),
        (5, 0, -6, 0),
        (5, 0, NUMBER_MAX, 0),
        (5, 0, 0, -1),
        (5, 0, 0, PACKET_MAX + 1),
    ],
)
def test_numbers_that_cannot_be_are_refused(first: int, ahead: int, mark: int, packet: int) -> None:
    wrong = Bundle(A, 0, 0, first, 0, 0, (Bundled(ahead, mark, packet, "a", b"", 0),))
    with pytest.raises(ValueError, match="a bundle with the sequence"):
        list(unbundle(wrong, A, 1))
    data = encode(Frame(A, FIRST, 1, ()))[:1] + msgspec.msgpack.encode([A, FIRST, 1, [wrong]])
    with pytest.raises(FrameError, match="malformed"):
        decode(data)


def test_an_epoch_that_cannot_be_is_refused() -> None:
    wrong = Bundle(A, 2, 0, 1, 0, 0, (Bundled(0, 0, 0, "a", b"", 0),))
    with pytest.raises(ValueError, match="a bundle with the epoch -1"):
        list(unbundle(wrong, A, 1))


def test_bundles_do_not_carry_more_than_a_frame_may() -> None:
    one = Bundled(0, 0, 0, "a", b"", 0)
    full = Bundle(A, 0, 0, 1, 0, 0, (one,) * FRAME_MESSAGES_MAX)
    head = encode(Frame(A, FIRST, 1, ()))[:1]
    assert len(decode(head + msgspec.msgpack.encode([A, FIRST, 1, [full]])).messages) == FRAME_MESSAGES_MAX
    with pytest.raises(FrameError, match="malformed"):
        decode(head + msgspec.msgpack.encode([A, FIRST, 1, [full, Synced()]]))
