import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import FrameError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import FRAME_BYTES_MAX
from mqloom.core.seals import (
    NONCE_BYTES,
    PACKET_BYTES,
    Channel,
    Key,
    Keyring,
    Packet,
    check_text,
    key_of,
    link_key,
    open_kept,
    open_packet,
    open_request,
    read_packet,
    seal_kept,
    seal_packet,
    seal_request,
    seal_text,
)
from mqloom.core.wire import SEALED

A, B = GatewayId("A"), GatewayId("B")
KEY, OTHER = key_of(b"k" * 32), key_of(b"o" * 32)
RING = Keyring(KEY)
HIS, OURS = b"h" * NONCE_BYTES, b"u" * NONCE_BYTES
TOPIC = "mqloom/v1/A/order/x"


def packed(body: bytes, key: Key = KEY, number: int = 7) -> bytes:
    return seal_packet(Packet(key.id, 1, HIS, OURS, number), derived(key), body)


def derived(key: Key = KEY, channel: Channel = Channel.FRAME, sender: GatewayId = A, receiver: GatewayId = B) -> bytes:
    return link_key(key, channel, sender, receiver, (HIS, OURS))


def reason_of(opening: object, *args: object) -> str:
    assert callable(opening)
    with pytest.raises(FrameError) as caught:
        opening(*args)
    return caught.value.reason


@given(body=st.binary(max_size=200), number=st.integers(0, 2**64 - 1))
def test_what_is_sealed_is_opened_with_the_same_key(body: bytes, number: int) -> None:
    data = packed(body, number=number)
    assert read_packet(data) == (KEY.id, 1, HIS, OURS, number)
    assert open_packet(data, derived()) == body
    assert len(data) == len(body) + PACKET_BYTES


@given(place=st.integers(0, PACKET_BYTES + 4), change=st.integers(1, 255))
def test_a_packet_with_any_byte_changed_is_not_opened(place: int, change: int) -> None:
    data = bytearray(packed(b"hello"))
    data[place] ^= change
    assert reason_of(open_packet, bytes(data), derived()) == "forged"


def test_a_packet_counts_for_its_sender_receiver_channel_and_nonces_only() -> None:
    data = packed(b"hello")
    for wrong in (
        derived(OTHER),
        derived(channel=Channel.ACK),
        derived(channel=Channel.URGENT),
        derived(sender=B, receiver=A),
        derived(receiver=GatewayId("C")),
        link_key(KEY, Channel.FRAME, A, B, (OURS, HIS)),
        link_key(KEY, Channel.FRAME, A, B, (HIS, HIS)),
    ):
        assert reason_of(open_packet, data, wrong) == "forged"


def test_names_that_read_the_same_joined_have_keys_of_their_own() -> None:
    one = link_key(KEY, Channel.FRAME, GatewayId("AB"), GatewayId("C"), (HIS, OURS))
    assert one != link_key(KEY, Channel.FRAME, GatewayId("A"), GatewayId("BC"), (HIS, OURS))


def test_what_is_no_packet_is_refused_before_anything_is_computed() -> None:
    assert reason_of(read_packet, b"") == "empty"
    assert reason_of(read_packet, b"\x01abc") == "unsealed"
    assert reason_of(read_packet, packed(b"")[:-1]) == "malformed"
    assert reason_of(read_packet, packed(b"") + bytes(FRAME_BYTES_MAX + 1)) == "oversized"


@given(data=st.binary(max_size=120))
def test_whatever_comes_is_refused_with_a_reason(data: bytes) -> None:
    if len(data) < PACKET_BYTES or data[0] != SEALED:
        assert reason_of(read_packet, data) in {"empty", "unsealed", "malformed"}
    assert reason_of(open_request, RING, TOPIC, 1, data) in {"empty", "unsealed", "malformed", "key", "forged"}
    assert reason_of(open_kept, RING, TOPIC, data) in {"empty", "unsealed", "malformed", "key", "forged"}


def test_an_id_is_made_from_the_secret_and_does_not_show_it() -> None:
    assert key_of(b"k" * 32) == KEY
    assert KEY.id != OTHER.id
    assert KEY.id not in KEY.secret


def test_both_keys_of_a_rotation_count_and_a_retired_one_only_for_what_was_kept() -> None:
    ring = Keyring(OTHER, (KEY,))
    assert ring.find(KEY.id) == KEY
    assert ring.find(OTHER.id) == OTHER
    retired = Keyring(OTHER, retired=(KEY,))
    assert reason_of(retired.find, KEY.id) == "key"
    assert open_kept(retired, TOPIC, seal_kept(KEY, TOPIC, b"parked")) == b"parked"
    assert reason_of(open_request, retired, TOPIC, 1, seal_request(KEY, TOPIC, 1, 1, b"go")) == "key"


def test_a_request_counts_at_its_topic_in_its_epoch_only() -> None:
    data = seal_request(KEY, TOPIC, 5, 9, b"go")
    assert open_request(RING, TOPIC, 5, data) == (9, b"go")
    assert reason_of(open_request, RING, TOPIC + "y", 5, data) == "forged"
    assert reason_of(open_request, RING, TOPIC, 6, data) == "outdated"
    assert reason_of(open_request, Keyring(OTHER), TOPIC, 5, data) == "key"
    assert reason_of(open_request, RING, TOPIC, 5, b'{"number": 1}') == "unsealed"


def test_what_was_kept_counts_under_its_topic_only() -> None:
    data = seal_kept(KEY, TOPIC, b"mine")
    assert open_kept(RING, TOPIC, data) == b"mine"
    assert reason_of(open_kept, RING, "mqloom/v1/A/park/B", data) == "forged"
    assert reason_of(open_kept, RING, TOPIC, data + b"x") == "forged"


def test_a_seal_beside_a_text_is_of_that_text() -> None:
    seal = seal_text(KEY, TOPIC, b"alive")
    check_text(RING, TOPIC, b"alive", seal)
    assert reason_of(check_text, RING, TOPIC, b"dead", seal) == "forged"
    assert reason_of(check_text, RING, "other", b"alive", seal) == "forged"
    assert reason_of(check_text, RING, TOPIC, b"alive", "") == "unsealed"
    assert reason_of(check_text, RING, TOPIC, b"alive", "zz:00") == "malformed"
    assert reason_of(check_text, Keyring(OTHER), TOPIC, b"alive", seal) == "key"
