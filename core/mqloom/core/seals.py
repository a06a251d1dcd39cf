"""Seals: whoever has a federation's key can make one and check one, nobody else can.

A seal is a keyed BLAKE2b over what it protects. Its key is derived from the federation's key for one purpose, so that
what was sealed for one place means nothing in another. There are three kinds:

    packet    a frame, or an acknowledgement, from one gateway to another. Its key is derived from the nonces of both,
              which each draws anew at its start: what was said to or by an earlier life of either is recognised. It has
              a number that only grows, so that a copy of it is recognised too.
    request   an order or a question to a gateway, from a command. It names the gateway's epoch, and has a number.
    keepsake  what a gateway keeps on its own broker for a later life of its own, and its status.

All begin with the byte SEALED, which no unsealed message of ours begins with, and the id of the key. Nothing here draws
nonces, keeps state or looks at a clock.
"""

import hmac
import struct
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from mqloom.core.errors import FrameError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import FRAME_BYTES_MAX
from mqloom.core.wire import SEALED

SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 16
SEAL_BYTES: Final = 16
KEY_ID_BYTES: Final = 4

NOBODY: Final = bytes(NONCE_BYTES)
"""In the place of a nonce that is not known yet."""


class Channel(IntEnum):
    """By which topic a packet goes; what was sealed for one means nothing on another."""

    FRAME = 1
    URGENT = 2
    ACK = 3


class Key(NamedTuple):
    """A federation's key; its id is made from its secret, and tells nothing of it."""

    id: bytes
    secret: bytes

    @property
    def name(self) -> str:
        """The id, for people."""
        return self.id.hex()


def key_of(secret: bytes) -> Key:
    """Return the key with this secret."""
    assert len(secret) == SECRET_BYTES
    return Key(blake2b(secret, digest_size=KEY_ID_BYTES, person=b"mqloom-key-id").digest(), secret)


NO_SEAL: Final = (
    "it has no seal, and this federation has a key; at the first start with one it may be from before, and else its "
    "writer has no `key_file`, or should not write there"
)


class Keyring(NamedTuple):
    """The keys of a federation: one to seal with, those that count, and those that count for keepsakes alone."""

    sending: Key
    accepted: tuple[Key, ...] = ()
    retired: tuple[Key, ...] = ()

    def find(self, key_id: bytes, *, is_kept: bool = False) -> Key:
        """Return the key of this id; raises FrameError if it does not count (any more)."""
        for key in (self.sending, *self.accepted, *(self.retired if is_kept else ())):
            if key.id == key_id:
                return key
        ours = ", ".join(key.name for key in (self.sending, *self.accepted))
        raise FrameError("key", f"sealed with key {key_id.hex()}, ours are {ours}: see `mqloom keys show`")


# ---- packets -----------------------------------------------------------------------------------------------------

_PACKET: Final = struct.Struct(">B4sQ16s16sQ")
PACKET_BYTES: Final = _PACKET.size + SEAL_BYTES
"""What a seal adds to a frame."""


class Packet(NamedTuple):
    """What stands before a sealed frame: by which life of the sender it was said, and to which of the receiver."""

    key_id: bytes
    epoch: int
    sender_nonce: bytes
    receiver_nonce: bytes
    number: int


def link_key(key: Key, channel: Channel, sender: GatewayId, receiver: GatewayId, nonces: tuple[bytes, bytes]) -> bytes:
    """Return the key for what one gateway says to another, by the nonces of the sender and of the receiver."""
    parts = (bytes((channel,)), sender.encode(), receiver.encode(), *nonces)
    return _derived(key, b"mqloom-link", parts)


def seal_packet(packet: Packet, link: bytes, body: bytes) -> bytes:
    """Return a frame or acknowledgement with its seal, by the key of `link_key`."""
    head = _PACKET.pack(SEALED, *packet)
    return b"".join((head, _seal(link, (head, body)), body))


def read_packet(data: bytes) -> Packet:
    """Return what stands before a sealed frame, unchecked; raises FrameError if it is none."""
    if len(data) > FRAME_BYTES_MAX + PACKET_BYTES:
        raise FrameError("oversized", f"{len(data)} bytes, the bound is {FRAME_BYTES_MAX}")
    check_sealed(data, PACKET_BYTES)
    _, *fields = _PACKET.unpack_from(data)
    return Packet(*fields)


def open_packet(data: bytes, link: bytes) -> bytes:
    """Return what a packet holds; raises FrameError if its seal is not of that key."""
    view = memoryview(data)
    seal = _seal(link, (view[: _PACKET.size], view[PACKET_BYTES:]))
    _compare(seal, view[_PACKET.size : PACKET_BYTES])
    return bytes(view[PACKET_BYTES:])


# ---- requests ----------------------------------------------------------------------------------------------------

_REQUEST: Final = struct.Struct(">B4sQQ")


class Request(NamedTuple):
    """An order or a question, opened: by its number it is told from a copy of an earlier one."""

    number: int
    body: bytes


def seal_request(key: Key, topic: str, epoch: int, number: int, body: bytes) -> bytes:
    """Return an order or a question for the gateway that runs in this epoch, as it is written to this topic."""
    head = _REQUEST.pack(SEALED, key.id, epoch, number)
    return b"".join((head, _seal(_derived(key, b"mqloom-request", (topic.encode(),)), (head, body)), body))


def open_request(keyring: Keyring, topic: str, epoch: int, data: bytes) -> Request:
    """Return what was asked or ordered; raises FrameError."""
    size = _REQUEST.size + SEAL_BYTES
    check_sealed(data, size)
    _, key_id, for_epoch, number = _REQUEST.unpack_from(data)
    view = memoryview(data)
    own = _derived(keyring.find(key_id), b"mqloom-request", (topic.encode(),))
    _compare(_seal(own, (view[: _REQUEST.size], view[size:])), view[_REQUEST.size : size])
    if for_epoch != epoch:
        raise FrameError("outdated", f"it is for epoch {for_epoch} of this gateway, which is in {epoch}: ask again")
    return Request(number, bytes(view[size:]))


# ---- keepsakes ---------------------------------------------------------------------------------------------------

_KEPT: Final = 1 + KEY_ID_BYTES


def seal_kept(key: Key, topic: str, body: bytes) -> bytes:
    """Return what a gateway keeps under a topic, with its seal."""
    head = bytes((SEALED,)) + key.id
    return b"".join((head, _seal(_derived(key, b"mqloom-kept", (topic.encode(),)), (head, body)), body))


def open_kept(keyring: Keyring, topic: str, data: bytes) -> bytes:
    """Return what was kept; raises FrameError."""
    size = _KEPT + SEAL_BYTES
    check_sealed(data, size)
    view = memoryview(data)
    own = _derived(keyring.find(data[1:_KEPT], is_kept=True), b"mqloom-kept", (topic.encode(),))
    _compare(_seal(own, (view[:_KEPT], view[size:])), view[_KEPT:size])
    return bytes(view[size:])


def seal_text(key: Key, topic: str, body: bytes) -> str:
    """Return a seal that stands beside what it protects, for what must stay readable."""
    return f"{key.name}:{_seal(_derived(key, b'mqloom-text', (topic.encode(),)), (body,)).hex()}"


def check_text(keyring: Keyring, topic: str, body: bytes, seal: str) -> None:
    """Raise FrameError unless this is the seal of `body`."""
    name, _, digest = seal.partition(":")
    try:
        key_id, given = bytes.fromhex(name), bytes.fromhex(digest)
    except ValueError:
        raise FrameError("malformed", "its seal is no seal") from None
    if not given:
        raise FrameError("unsealed", NO_SEAL)
    own = _derived(keyring.find(key_id, is_kept=True), b"mqloom-text", (topic.encode(),))
    _compare(_seal(own, (body,)), memoryview(given))


# ---- what all share ----------------------------------------------------------------------------------------------


def check_sealed(data: bytes, size: int) -> None:
    """Raise FrameError unless so many bytes of a seal are there."""
    if not data:
        raise FrameError("empty", "nothing in it")
    if data[0] != SEALED:
        raise FrameError("unsealed", NO_SEAL)
    if len(data) < size:
        raise FrameError("malformed", f"a seal of {len(data)} bytes")


def _derived(key: Key, person: bytes, parts: Iterable[bytes]) -> bytes:
    joined = b"".join(len(part).to_bytes(4) + part for part in parts)
    return blake2b(joined, key=key.secret, digest_size=32, person=person).digest()


def _seal(derived: bytes, parts: Iterable[bytes | memoryview]) -> bytes:
    digest = blake2b(key=derived, digest_size=SEAL_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _compare(seal: bytes, given: memoryview) -> None:
    if not hmac.compare_digest(seal, given):
        raise FrameError("forged", "its seal is not of the federation's key")
