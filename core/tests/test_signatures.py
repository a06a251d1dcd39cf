"""Signatures: only who has the secret half can make one, and only for what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.errors import OrderError
from mqloom.core.signatures import OrderKey, PublicKey, check_signature, public_key

KEY, OTHER = OrderKey(b"k" * 32), OrderKey(b"o" * 32)


@given(body=st.binary(max_size=100), context=st.binary(max_size=10))
def test_what_a_key_has_signed_its_public_half_confirms(body: bytes, context: bytes) -> None:
    assert KEY.public.has_signed(context, body, KEY.sign(context, body))


@given(body=st.binary(min_size=1, max_size=100), place=st.integers(0, 99), change=st.integers(1, 255))
def test_not_if_a_byte_of_the_body_is_another(body: bytes, place: int, change: int) -> None:
    changed = bytearray(body)
    changed[place % len(body)] ^= change
    assert not KEY.public.has_signed(b"c", bytes(changed), KEY.sign(b"c", body))


@given(place=st.integers(0, 63), change=st.integers(1, 255))
def test_not_if_a_byte_of_the_signature_is_another(place: int, change: int) -> None:
    signature = bytearray.fromhex(KEY.sign(b"c", b"body"))
    signature[place] ^= change
    assert not KEY.public.has_signed(b"c", b"body", signature.hex())


def test_not_as_something_else_nor_by_another_key() -> None:
    assert not KEY.public.has_signed(b"roster", b"body", KEY.sign(b"order", b"body"))
    assert not OTHER.public.has_signed(b"order", b"body", KEY.sign(b"order", b"body"))


def test_two_keys_count_while_one_is_exchanged_for_the_other() -> None:
    for key in (KEY, OTHER):
        check_signature((KEY.public, OTHER.public), key.public.name, b"c", b"body", key.sign(b"c", b"body"))


@pytest.mark.parametrize(
    ("held", "name", "reason"),
    [
        ((OTHER.public,), KEY.public.name, "key"),
        ((), KEY.public.name, "key"),
        ((KEY.public, OTHER.public), OTHER.public.name, "forged"),
    ],
)
def test_a_signature_that_does_not_count_says_why(held: tuple[PublicKey, ...], name: str, reason: str) -> None:
    with pytest.raises(OrderError) as caught:
        check_signature(held, name, b"c", b"body", KEY.sign(b"c", b"body"))
    assert caught.value.reason == reason


def test_a_public_key_is_read_as_it_is_written_and_shows_nothing_of_its_secret() -> None:
    assert public_key(f" {KEY.public.text}\n") == KEY.public
    assert (b"k" * 32).hex() not in KEY.public.text
    assert KEY.public.name != OTHER.public.name


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31, "00" * 33])
def test_what_is_no_public_key_is_told_where_to_find_one(text: str) -> None:
    with pytest.raises(ValueError, match="mqloom keys public"):
        public_key(text)
