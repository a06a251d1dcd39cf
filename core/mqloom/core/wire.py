"""Frames: how messages are packed for a link, and how whatever arrives there is unpacked or refused.

A frame is one byte of format version and a MessagePack array. Everything in it is bounded by the messages' own types,
so that a decoded frame is a valid one; anything else raises FrameError with a reason that is counted. Publications next
to each other share what they have in common (see `bundles`).
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from mqloom.core.bundles import Bundle, bundle, unbundle
from mqloom.core.errors import FrameError
from mqloom.core.ids import Conversation, GatewayName, Number
from mqloom.core.limits import ACK_PLACES_MAX, FRAME_BYTES_MAX, FRAME_BYTES_TARGET, FRAME_MESSAGES_MAX
from mqloom.core.messages import Announce, Control, Message, Told, Want
from mqloom.core.publication import Publication

VERSION: Final = 1
"""The format that this release writes and reads."""

SEALED: Final = 0x53
"""What a sealed message begins with; it is opened by `seals` before it is read here."""

REFUSALS: Final = {
    "empty": "a frame without a byte",
    "oversized": f"a frame of more than {FRAME_BYTES_MAX} bytes",
    "version": "a frame in a format that this release does not read",
    "malformed": "bytes that are no frame, or a value outside its bounds",
    "sender": "a frame that names another sender than the topic it came by",
    "stranger": "a frame from a gateway that is no neighbour",
    "sealed": "a sealed frame, where no key of the federation is configured",
    "unsealed": "a frame without a seal, where the federation has a key",
    "key": "a frame sealed with a key that is not ours, or not any more",
    "forged": "a frame whose seal is not right: whoever wrote it has not the federation's key, or changed it",
    "replayed": "a copy of a sealed frame that came before, or of an earlier run of its sender",
    "outdated": "a frame sealed for an earlier run of ours: its sender is told that this is another",
}
"""The reasons for which a frame is refused, each with its meaning."""


class Frame(Struct, frozen=True, array_like=True, gc=False):
    """Messages in order, and the place of this frame in its sender's conversation."""

    sender: GatewayName
    conversation: Conversation
    sequence: Number
    messages: Annotated[tuple[Message, ...], Meta(max_length=FRAME_MESSAGES_MAX)]


class _Written(Struct, frozen=True, array_like=True, gc=False):
    """A frame as it is on the wire."""

    sender: GatewayName
    conversation: Conversation
    sequence: Number
    messages: Annotated[tuple[Message | Bundle, ...], Meta(max_length=FRAME_MESSAGES_MAX)]


class Ack(Struct, frozen=True, array_like=True, gc=False):
    """What became of a neighbour's conversation.

    So many frames have come. The publications of QoS 1 in them have places 0, 1, 2, ...: those before `done` are taken
    care of further on, and so are those `ahead`.
    """

    sender: GatewayName
    conversation: Conversation
    received: Number
    done: Number
    ahead: Annotated[tuple[Number, ...], Meta(max_length=ACK_PLACES_MAX)] = ()
    parted: Number = 0
    """If not 0, nothing of the above counts: by a move of this number we are no neighbours any more."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Written)
_ack_decoder = msgspec.msgpack.Decoder(Ack)
_VERSION_BYTE: Final = bytes([VERSION])


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    messages = tuple(bundle(frame.messages, frame.sender, frame.conversation.epoch))
    return _VERSION_BYTE + _encoder.encode(_Written(frame.sender, frame.conversation, frame.sequence, messages))


def decode(data: bytes) -> Frame:
    """Return the frame in `data`; raises FrameError with one of REFUSALS."""
    if not data:
        raise FrameError("empty", "nothing in it")
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError("oversized", f"{len(data)} bytes, the bound is {FRAME_BYTES_MAX}")
    if data[0] != VERSION:
        raise _other_version(data[0])
    try:
        written = _decoder.decode(memoryview(data)[1:])
        messages = tuple(_unpacked(written))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FrameError("malformed", str(error)) from None
    if len(messages) > FRAME_MESSAGES_MAX:
        raise FrameError("malformed", f"{len(messages)} messages, the bound is {FRAME_MESSAGES_MAX}")
    return Frame(written.sender, written.conversation, written.sequence, messages)


def _unpacked(written: _Written) -> Iterator[Message]:
    for message in written.messages:
        if isinstance(message, Bundle):
            yield from unbundle(message, written.sender, written.conversation.epoch)
        else:
            yield message


def encode_ack(ack: Ack) -> bytes:
    """Return the bytes of an acknowledgement."""
    return _VERSION_BYTE + _encoder.encode(ack)


def decode_ack(data: bytes) -> Ack:
    """Return the acknowledgement in `data`; raises FrameError with one of REFUSALS."""
    if not data:
        raise FrameError("empty", "nothing in it")
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError("oversized", f"{len(data)} bytes, the bound is {FRAME_BYTES_MAX}")
    if data[0] != VERSION:
        raise _other_version(data[0])
    try:
        return _ack_decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError("malformed", str(error)) from None


def _other_version(version: int) -> FrameError:
    if version == SEALED:
        return FrameError("sealed", "it is sealed, and there is no key here: set `key_file` in [federation]")
    return FrameError("version", f"format {version}, this gateway reads format {VERSION}: upgrade the older side")


def batches(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Cut messages, in order, into pieces that fit into one frame each."""
    start, size = 0, 0
    for index, message in enumerate(messages):
        weight = weight_of(message)
        if (size + weight > FRAME_BYTES_TARGET and index > start) or index - start == FRAME_MESSAGES_MAX:
            yield tuple(messages[start:index])
            start, size = index, 0
        size += weight
    if start < len(messages):
        yield tuple(messages[start:])


def weight_of(message: Message) -> int:
    """Estimate a message's bytes from its large parts only; what is left out is far under FRAME_BYTES_TARGET."""
    if isinstance(message, Publication):
        texts = len(message.topic) + len(message.content_type)
        if message.user_properties:
            texts += sum(len(name) + len(value) for name, value in message.user_properties)
        return len(message.payload) + 4 * texts
    if isinstance(message, Announce):
        return 4 * (len(message.topics) + len(message.where))
    if isinstance(message, Control):
        texts = sum(len(name) + len(value) for name, value in message.subject.items() if isinstance(value, str))
        return len(message.body) + 4 * texts
    if isinstance(message, Want):
        return 4 * sum(map(len, message.wheres))
    return len(message.body) if isinstance(message, Told) else 0
