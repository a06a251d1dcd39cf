"""Ed25519 signatures: what a federation tells its clients counts only if it was signed with the federation's order key.

Gateways hold the secret half; clients hold the public half, with which they can check and nothing else: a client that
is taken over, or all of them, can order nobody. (A seal of `seals` would not do: who can check it can make it.)

A signed text is JSON: the body, the id of the key, and the signature over the very bytes of the body as they stand
there, behind a context that says what it is. So there is no canonical form on which two programs could differ, and what
was signed as one thing means nothing as another.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from mqloom.core.errors import OrderError

SEED_BYTES: Final = 32
PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
KEY_ID_BYTES: Final = 4

KeyName = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * KEY_ID_BYTES}}}$")]
Signature = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * SIGNATURE_BYTES}}}$")]


class PublicKey(NamedTuple):
    """The half of an order key that clients hold."""

    data: bytes

    @property
    def name(self) -> str:
        """The id of the key, made from this half."""
        return blake2b(self.data, digest_size=KEY_ID_BYTES, person=b"mqloom-order-id").hexdigest()

    @property
    def text(self) -> str:
        """What people copy: `mqloom keys public` prints it."""
        return self.data.hex()

    def has_signed(self, context: bytes, body: bytes, signature: str) -> bool:
        """Whether whoever holds the other half has signed this body, as what the context says."""
        try:
            Ed25519PublicKey.from_public_bytes(self.data).verify(bytes.fromhex(signature), context + body)
        except InvalidSignature:
            return False
        return True


class OrderKey:
    """The whole of an order key, for gateways; `seed` is its secret."""

    def __init__(self, seed: bytes) -> None:
        assert len(seed) == SEED_BYTES
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, context: bytes, body: bytes) -> str:
        """Return the signature of a body, as what the context says."""
        return self._key.sign(context + body).hex()


class OrderKeys(NamedTuple):
    """What the gateways of a federation have: a key to sign with, and others whose signatures count beside it."""

    signing: OrderKey
    accepted: tuple[PublicKey, ...] = ()

    @property
    def public(self) -> tuple[PublicKey, ...]:
        """What clients are to hold."""
        return (self.signing.public, *self.accepted)


def public_key(text: str) -> PublicKey:
    """Return the public key that somebody has copied; raises ValueError that says what it should look like."""
    try:
        data = bytes.fromhex(text.strip())
    except ValueError:
        data = b""
    if len(data) != PUBLIC_BYTES:
        problem = f"{text.strip()[:80]!r} is no public order key: that has {2 * PUBLIC_BYTES} hexadecimal digits"
        raise ValueError(f"{problem}, as `mqloom keys public` prints it")
    return PublicKey(data)


def check_signature(keys: Iterable[PublicKey], name: str, context: bytes, body: bytes, signature: str) -> None:
    """Return if the key of this name is one of ours and has signed the body; else raises OrderError."""
    ours = {key.name: key for key in keys}
    if name not in ours:
        held = ", ".join(ours) or "none"
        raise OrderError("key", f"signed with key {name}, we hold {held}: see `mqloom keys public`")
    if not ours[name].has_signed(context, body, signature):
        raise OrderError("forged", f"key {name} has not signed this")
