"""What an operator's command and a gateway say to each other about reading the configuration again; all of it is JSON.

A request goes, sealed, by the gateway's `order` topic, as other orders do; its `action` tells them apart. The answer
comes by `ctl`.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from mqloom.core.errors import RecordError
from mqloom.core.ids import Number
from mqloom.core.limits import QUESTION_BYTES_MAX


class ReloadRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read your configuration again, and let it hold; the number comes back."""

    number: Number
    action: Literal["reload"] = "reload"


class ReloadAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of it: `reloaded`, or `refused` (or `stayed`) with the problem. More fields may follow."""

    answer: Literal["reloaded", "refused", "stayed"]
    number: Number = 0
    problem: str = ""
    changed: tuple[str, ...] = ()
    """What is different now, each with its place in the configuration."""
    waiting: tuple[str, ...] = ()
    """What is different there, and holds only when the gateway is started again."""


class _Peek(Struct, frozen=True):
    action: str = ""


_peek_decoder = msgspec.json.Decoder(_Peek)
_request_decoder = msgspec.json.Decoder(ReloadRequest)
_answer_decoder = msgspec.json.Decoder(ReloadAnswer)
_DECODING_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def is_reload(data: bytes) -> bool:
    """Whether an order of an operator is to read the configuration; nothing else of it is checked."""
    try:
        return len(data) <= QUESTION_BYTES_MAX and _peek_decoder.decode(data).action == "reload"
    except _DECODING_ERRORS:
        return False


def encode_reload(request: ReloadRequest) -> bytes:
    """Return the JSON of a request."""
    return msgspec.json.encode(request)


def decode_reload(data: bytes) -> ReloadRequest:
    """Return the request in `data`; raises RecordError."""
    try:
        return _request_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None


def encode_reload_answer(answer: ReloadAnswer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def decode_reload_answer(data: bytes) -> ReloadAnswer:
    """Return the answer in `data`; raises RecordError."""
    try:
        return _answer_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None
