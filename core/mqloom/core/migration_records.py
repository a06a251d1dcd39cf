"""What an operator's command and a gateway say to each other about clients that are to be moved; all of it is JSON.

A request goes, sealed, by the gateway's `order` topic, as the order to move a link does; its `action` tells them apart.
The answers come by `ctl`: how far it is, again and again, until it is done. What a drain is to do is kept on the broker
as a mark, so that it goes on after a restart of the gateway.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId, GatewayName, Number
from mqloom.core.limits import (
    AT_ONCE,
    AT_ONCE_MAX,
    ID_LENGTH_MAX,
    MIGRATION_CLIENTS_MAX,
    MIGRATION_S,
    ORDER_S_MAX,
    QUESTION_BYTES_MAX,
    ROSTER_BROKERS_MAX,
)

RATE_MAX: Final = 100_000
"""Orders a second; more: refused."""

Immovable = Literal["keyless", "plain"]
"""Why a client cannot be moved: ours, but it holds no public key; or another, which knows nothing of orders."""

ClientName = Annotated[ClientId, Meta(min_length=1, max_length=ID_LENGTH_MAX)]


class Bounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast clients are moved: so many orders a second (0: as fast as may be), so many under way at once.

    `deadline_s` is how long a client may take to be served by the target; then it stays.
    """

    rate: Annotated[float, Meta(ge=0, le=RATE_MAX)] = 0.0
    at_once: Annotated[int, Meta(ge=1, le=AT_ONCE_MAX)] = AT_ONCE
    deadline_s: Annotated[float, Meta(gt=0, le=ORDER_S_MAX)] = MIGRATION_S


class MigrationRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a gateway is to do with its clients; the number comes back.

    `migrate`: move these clients, those of them that are here. `drain`: move all, and whoever comes, from now on.
    `undrain`: no longer. `return`: move those to `to` that came from there. Of several targets each is used in turn.
    """

    number: Number
    action: Literal["migrate", "drain", "undrain", "return"]
    clients: Annotated[tuple[ClientName, ...], Meta(max_length=MIGRATION_CLIENTS_MAX)] = ()
    to: Annotated[tuple[GatewayName, ...], Meta(max_length=ROSTER_BROKERS_MAX)] = ()
    bounds: Bounds = Bounds()


class MigrationAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far it is: `migrating`, and the last is `done`, or `refused` (or `stayed`) with the problem.

    More fields may follow.
    """

    answer: Literal["migrating", "done", "refused", "stayed"]
    number: Number = 0
    problem: str = ""
    waiting: Number = 0
    under_way: Number = 0
    moved: Number = 0
    stayed: Number = 0
    left: Number = 0
    """Clients here that can be moved, whoever they are."""
    fixed: Number = 0
    """Clients here that cannot, as the last word says."""
    fixed_by: dict[str, Number] = {}
    """How many of them for each reason, `Immovable`."""
    problems: dict[str, str] = {}
    """Why clients stayed, by client: the first of them."""
    unknown: tuple[str, ...] = ()
    """Those of a request that are not here."""
    immovable: dict[str, str] = {}
    """Those of a request that are here and cannot be moved, each with the reason; of a drain, the first for each."""


class DrainMark(Struct, frozen=True, kw_only=True):
    """That a gateway moves all its clients away, and how; retained on its own broker. More fields may follow."""

    to: tuple[GatewayName, ...]
    bounds: Bounds
    version: Literal[1] = 1


class _Peek(Struct, frozen=True):
    action: str = ""


_peek_decoder = msgspec.json.Decoder(_Peek)
_request_decoder = msgspec.json.Decoder(MigrationRequest)
_answer_decoder = msgspec.json.Decoder(MigrationAnswer)
_mark_decoder = msgspec.json.Decoder(DrainMark)
_DECODING_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def is_migration(data: bytes) -> bool:
    """Whether an order of an operator is about clients; nothing else of it is checked."""
    try:
        return len(data) <= QUESTION_BYTES_MAX and bool(_peek_decoder.decode(data).action)
    except _DECODING_ERRORS:
        return False


def encode_migration(request: MigrationRequest) -> bytes:
    """Return the JSON of a request."""
    return msgspec.json.encode(request)


def decode_migration(data: bytes) -> MigrationRequest:
    """Return the request in `data`; raises RecordError."""
    try:
        return _request_decoder.decode(data)
    except _DECODING_ERRORS as error:
        example = '{"number": 1, "action": "migrate", "clients": ["desk"], "to": ["east"]}'
        raise RecordError(f"{error}; it must look like {example}") from None


def encode_migration_answer(answer: MigrationAnswer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def decode_migration_answer(data: bytes) -> MigrationAnswer:
    """Return the answer in `data`; raises RecordError."""
    try:
        return _answer_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None


def encode_mark(mark: DrainMark) -> bytes:
    """Return the JSON of a mark."""
    return msgspec.json.encode(mark)


def decode_mark(data: bytes) -> DrainMark:
    """Return the mark in `data`; raises RecordError."""
    try:
        return _mark_decoder.decode(data)
    except _DECODING_ERRORS as error:
        raise RecordError(str(error)) from None
