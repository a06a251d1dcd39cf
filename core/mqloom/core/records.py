"""What clients and their gateway say to each other: records, answers, envelopes, and what a gateway shows.

All but envelopes are JSON, so that any MQTT client and any person can write and read them. Envelopes, which
only our own client reads, are MessagePack with a version byte, several publications in one.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayName, Number
from mqloom.core.limits import (
    ID_LENGTH_MAX,
    PARTED_MAX,
    PLACE_BYTES_MAX,
    PORTRAIT_BYTES_MAX,
    PORTRAIT_LINKS_MAX,
    QUESTION_BYTES_MAX,
    RECORD_BYTES_MAX,
    RECORD_SUBSCRIPTIONS_MAX,
    TOKEN_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    VISITED_MAX,
)
from mqloom.core.publication import Publication

Name = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
Format = Literal["plain", "frame"]
OptionalGateway = Annotated[str, Meta(max_length=ID_LENGTH_MAX)]


class Wish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One subscription as a client writes it; the filter is parsed by the gateway, which answers for each by name."""

    topics: str
    where: str = ""


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that a client wants, by names of its own choice; a new record replaces the one before.

    `plain` gives the raw payload below `out/CLIENT/` under its own topic, `frame` envelopes with ids.
    After `lease_s` seconds without a new record the subscriptions end; 0 is until deleted.
    """

    subscriptions: Annotated[dict[Name, Wish], Meta(max_length=RECORD_SUBSCRIPTIONS_MAX)]
    format: Format = "plain"
    qos: Annotated[int, Meta(ge=0, le=1)] = 1
    lease_s: Annotated[float, Meta(ge=0, le=86_400 * 366)] = 0
    token: Annotated[str, Meta(max_length=TOKEN_LENGTH_MAX)] = ""
    """What the client shows to admission; it goes nowhere else."""
    incarnation: Annotated[str, Meta(max_length=ID_LENGTH_MAX)] = ""
    """Drawn at each start of the client: an order names it."""
    moving_to: OptionalGateway = ""
    """The client may have a session there, too. This and the next four are for later lives of its own."""
    leaving_to: OptionalGateway = ""
    """The client is served there: these end behind all that is under way to them, and then it is told `ended`."""
    moved_to: OptionalGateway = ""
    """The client is there, and has no subscriptions here."""
    moved_from: OptionalGateway = ""
    """The client may have a session there, too."""
    left: OptionalGateway = ""
    """The client is done with that broker, but this may not have forgotten its session yet."""
    visited: Annotated[tuple[GatewayName, ...], Meta(max_length=VISITED_MAX)] = ()
    """Where the client was served before it came here, the last of them last: it may be brought back there."""
    is_probe: bool = False
    """It changes nothing: the client, which listens here, learns by it that it has read its record."""


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gateway says of one subscription (`name`), or of a whole record (no name).

    That is `refused` if it cannot be read, and `ended` if the client moves away and has got all that was under way.
    Partly established: every gateway in reach routes for it, but some are not; it is said again when all do.
    """

    answer: Literal["established", "refused", "ended"]
    name: str = ""
    problem: str = ""
    column: int | UnsetType = UNSET
    partly: bool = False


class Status(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a gateway says of itself, retained; its last will is the same with `alive` false. More fields may follow.

    `seal` is over the others, for gateways of a federation that has a key.
    """

    alive: bool
    gateway: GatewayName
    version: str
    epoch: Number
    seal: str = ""


class PaintedLink(Struct, frozen=True, kw_only=True):
    """One link of a gateway as it stands: soft ones and candidates with their gain, of the last period."""

    gateway: GatewayName
    kind: Literal["primary", "soft", "candidate"]
    up: bool
    distance: Annotated[int, Meta(ge=1)]
    publications: Number = 0
    gain: Annotated[float, Meta(ge=0)] = 0.0


class Portrait(Struct, frozen=True, kw_only=True):
    """What a gateway shows of its links, retained, for people and programs; deleted when it ends. More may follow.

    `epoch` is that of the status: with another one, it is of an earlier run. `left_out` counts links past the bound.
    """

    gateway: GatewayName
    epoch: Number
    strategy: str
    links: Annotated[tuple[PaintedLink, ...], Meta(max_length=PORTRAIT_LINKS_MAX)]
    left_out: Number = 0
    version: Literal[1] = 1


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where would this publication go, if it were published here now? The number comes back; the payload is base64."""

    number: Number
    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC_LENGTH_MAX)]
    payload: bytes = b""


class Way(Struct, frozen=True, kw_only=True):
    """A link on which a copy would leave, and the anchors that it would serve."""

    gateway: GatewayName
    kind: Literal["primary", "soft"]
    serves: tuple[GatewayName, ...] = ()


class RouteAnswer(Struct, frozen=True, kw_only=True):
    """What a gateway would do with a publication of QoS 1; or, with a problem, why it cannot say. More may follow.

    `here` counts subscriptions of its own clients, `anchors` those of others, by the gateway towards which they lie.
    """

    answer: Literal["route", "refused"]
    number: Number = 0
    problem: str = ""
    strategy: str = ""
    here: Number = 0
    anchors: dict[GatewayName, Number] = {}
    ways: tuple[Way, ...] = ()
    unheard: tuple[GatewayName, ...] = ()
    """Neighbours that have not yet said what they want: they get everything."""
    bypassed: tuple[GatewayName, ...] = ()
    """Neighbours that are down: their copy waits, and whoever is beyond gets one directly, if there is a link."""
    left_out: Number = 0
    undecoded: tuple[str, ...] = ()
    """Codecs that cannot read the payload, each with what it says: for them it has no attributes."""


class PlaceLink(Struct, frozen=True, array_like=True):
    """One primary link of a gateway: by which move it came about (0: by configuration), and whether by our own.

    `instead_of` are the ends of the configured link whose place it has taken, by one move or several; None if it is in
    the configuration itself.
    """

    gateway: GatewayName
    number: Number = 0
    is_ours: bool = False
    instead_of: tuple[GatewayName, GatewayName] | None = None


class Place(Struct, frozen=True, kw_only=True):
    """Who a gateway's neighbours are, whatever links were moved; retained, and read at its start.

    `configured` are those that the configuration named then: what has changed in it since is done to the links.
    `parted` are those that may believe themselves our neighbours, and are not any more, by the move of that number.
    """

    number: Number
    configured: tuple[GatewayName, ...]
    links: tuple[PlaceLink, ...]
    parted: Annotated[dict[GatewayName, Number], Meta(max_length=PARTED_MAX)] = {}
    former: Annotated[tuple[GatewayName, ...], Meta(max_length=PARTED_MAX)] = ()
    """Those that were neighbours: what is parked for them is of no use any more."""
    version: Literal[1] = 1


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let this gateway give up the primary link behind which another is, for one to that; the number comes back."""

    number: Number
    move_to: GatewayName


class MoveAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a move has come: said at every step, the last one is `moved` or `stayed`, with the problem."""

    answer: Literal["moving", "moved", "stayed"]
    number: Number = 0
    step: str = ""
    problem: str = ""


class Delivered(Struct, frozen=True, array_like=True, gc=False):
    """One publication in an envelope, and the names of the client's subscriptions that asked for it."""

    publication: Publication
    names: tuple[str, ...]


ENVELOPE_VERSION: Final = 1

_record_decoder = msgspec.json.Decoder(Record)
_answer_decoder = msgspec.json.Decoder(Answer)
_status_decoder = msgspec.json.Decoder(Status)
_portrait_decoder = msgspec.json.Decoder(Portrait)
_question_decoder = msgspec.json.Decoder(Question)
_place_decoder = msgspec.json.Decoder(Place)
_order_decoder = msgspec.json.Decoder(Order)
_move_decoder = msgspec.json.Decoder(MoveAnswer)
_route_decoder = msgspec.json.Decoder(RouteAnswer)
_envelope_decoder = msgspec.msgpack.Decoder(tuple[Delivered, ...])
_envelope_encoder = msgspec.msgpack.Encoder()


def encode_record(record: Record) -> bytes:
    """Return the JSON of a record."""
    return msgspec.json.encode(record)


def decode_record(data: bytes) -> Record:
    """Return the record in `data`; raises RecordError."""
    if len(data) > RECORD_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {RECORD_BYTES_MAX}")
    try:
        return _record_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f'{error}; it must look like {{"subscriptions": {{"NAME": {{"topics": "a/#"}}}}}}') from None


def encode_answer(answer: Answer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def decode_answer(data: bytes) -> Answer:
    """Return the answer in `data`; raises RecordError."""
    try:
        return _answer_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def encode_status(status: Status) -> bytes:
    """Return the JSON of a gateway's status."""
    return msgspec.json.encode(status)


def decode_status(data: bytes) -> Status:
    """Return the status in `data`; raises RecordError."""
    try:
        return _status_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def is_of_earlier_run(data: bytes, status: Status) -> bool:
    """Say whether this is what the same gateway said of itself in an earlier run: its broker may hand it over late."""
    try:
        earlier = decode_status(data)
    except RecordError:
        return False
    return earlier.gateway == status.gateway and earlier.epoch < status.epoch


def encode_portrait(portrait: Portrait) -> bytes:
    """Return the JSON of a portrait."""
    return msgspec.json.encode(portrait)


def decode_portrait(data: bytes) -> Portrait:
    """Return the portrait in `data`; raises RecordError."""
    if len(data) > PORTRAIT_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {PORTRAIT_BYTES_MAX}")
    try:
        return _portrait_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def encode_question(question: Question) -> bytes:
    """Return the JSON of a question."""
    return msgspec.json.encode(question)


def decode_question(data: bytes) -> Question:
    """Return the question in `data`; raises RecordError."""
    if len(data) > QUESTION_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {QUESTION_BYTES_MAX}")
    try:
        return _question_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f'{error}; it must look like {{"number": 1, "topic": "a/b", "payload": "e30="}}') from None


def encode_route(answer: RouteAnswer) -> bytes:
    """Return the JSON of an answer about routes."""
    return msgspec.json.encode(answer)


def decode_route(data: bytes) -> RouteAnswer:
    """Return the answer about routes in `data`; raises RecordError."""
    try:
        return _route_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def encode_place(place: Place) -> bytes:
    """Return the JSON of a place."""
    return msgspec.json.encode(place)


def decode_place(data: bytes) -> Place:
    """Return the place in `data`; raises RecordError."""
    if len(data) > PLACE_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {PLACE_BYTES_MAX}")
    try:
        return _place_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def encode_order(order: Order) -> bytes:
    """Return the JSON of an order."""
    return msgspec.json.encode(order)


def decode_order(data: bytes) -> Order:
    """Return the order in `data`; raises RecordError."""
    if len(data) > QUESTION_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {QUESTION_BYTES_MAX}")
    try:
        return _order_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f'{error}; it must look like {{"number": 1, "move_to": "broker-b"}}') from None


def encode_move(answer: MoveAnswer) -> bytes:
    """Return the JSON of an answer about a move."""
    return msgspec.json.encode(answer)


def decode_move(data: bytes) -> MoveAnswer:
    """Return the answer about a move in `data`; raises RecordError."""
    try:
        return _move_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None


def encode_envelope(delivered: list[Delivered]) -> bytes:
    """Return the bytes of an envelope."""
    return bytes([ENVELOPE_VERSION]) + _envelope_encoder.encode(delivered)


def decode_envelope(data: bytes) -> tuple[Delivered, ...]:
    """Return what an envelope holds; raises RecordError."""
    if not data or data[0] != ENVELOPE_VERSION:
        raise RecordError(f"an envelope of format {data[:1].hex() or 'none'}, this client reads {ENVELOPE_VERSION}")
    try:
        return _envelope_decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None
