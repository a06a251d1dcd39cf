"""What gateways report: typed records, and the batches in which they travel and are kept.

A record is one observation at one time. Fields are only ever added, at the end and with a default, so a reader of any
version reads the records of any other: what it does not know it leaves out, what is missing has the default. A record
whose meaning changes gets another tag. `VERSION` counts both, and stands in every batch, for people and for schemas.

A batch is of one start of one gateway (its epoch) and has records of consecutive numbers. Its header alone tells the
collector what it needs; records are decoded only where they are read.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from mqloom.core.errors import TelemetryError
from mqloom.core.ids import GatewayName, Number

VERSION: Final = 2
"""2: deliveries in `load` and `service`."""

BATCH_RECORDS_MAX: Final = 4_096
BATCH_BYTES_MAX: Final = 1024 * 1024
TEXT_MAX: Final = 4_096

_Text = Annotated[str, Meta(max_length=TEXT_MAX)]


class LoadRecord(Struct, frozen=True, array_like=True, tag="load", gc=False):
    """The load of a broker and its gateway in one window."""

    at: float
    window_s: float
    input_ratio: float
    delay_s: float
    output_ratio: float
    cpu_ratio: float
    memory_ratio: float
    input_rate: float
    output_bytes_s: float
    output_bytes_s_max: float
    subscriptions: int
    clients: int = 0
    deliveries_s: float | None = None
    """Publications a second given to its own clients, once for each of them; None: not counted, or not told yet."""


class BrokerRecord(Struct, frozen=True, array_like=True, tag="broker", gc=False):
    """One of the broker's own figures, by the name that the broker gives it (`$SYS`)."""

    at: float
    name: _Text
    value: float


class LinkRecord(Struct, frozen=True, array_like=True, tag="link", gc=False):
    """The traffic of one link since the record before."""

    at: float
    window_s: float
    peer: GatewayName
    kind: Literal["primary", "soft", "candidate"]
    is_up: bool
    sent: int
    """Publications that were routed over it."""
    pure_forwards: int
    """Of those, how many had come from another gateway and nobody here wanted: we only passed them on."""
    sent_bytes: int
    """Topics and payloads of all that was sent."""
    gain: float = 0.0
    """What it is worth, by the overlay's own measure (docs/soft-links.md)."""
    distance: int = 1
    """How many primary links it spans."""
    received: int = 0
    """Publications that came in over it, each once."""
    received_unwanted: int = 0
    """Of those, how many nobody here wanted: they were only passed on, or dropped."""


class GroupRecord(Struct, frozen=True, array_like=True, tag="group", gc=False):
    """The traffic of one group of subscribers that want the same, since the record before."""

    at: float
    window_s: float
    topics: _Text
    where: _Text
    subscribers: int
    publications: int
    """Publications that matched; each went to every subscriber of the group."""
    payload_bytes: int


class ServiceRecord(Struct, frozen=True, array_like=True, tag="service", gc=False):
    """What a publication has cost, with so many subscriptions in the matching engine."""

    at: float
    subscriptions: int
    service_s: float
    publications: int
    deliveries: int | None = None
    """How often these were given to clients of its own, once for each of them; None: not counted, or not told yet."""


class MigrationRecord(Struct, frozen=True, array_like=True, tag="migration", gc=False):
    """One balancing session that moved clients: what was predicted for both brokers, and what came."""

    at: float
    session: _Text
    metric: Literal["input", "match", "output"]
    partner: GatewayName
    asked: int
    moved: int
    predicted_input: float
    predicted_delay_s: float
    predicted_output: float
    observed_input: float
    observed_delay_s: float
    observed_output: float
    is_offloading: bool = True
    """Whether these are the figures of the side that gave, not of the one that took."""


class RefusalRecord(Struct, frozen=True, array_like=True, tag="refusal", gc=False):
    """What was refused or dropped since the record before, by counter and reason."""

    at: float
    counter: _Text
    reason: _Text
    amount: int


class ConfigurationRecord(Struct, frozen=True, array_like=True, tag="configuration", gc=False):
    """The configuration has changed: what, from what, to what."""

    at: float
    what: _Text
    before: _Text
    after: _Text


class DroppedRecord(Struct, frozen=True, array_like=True, tag="dropped", gc=False):
    """Telemetry itself was dropped: so many records, from this number on. Their numbers are given to no others."""

    at: float
    first: int
    amount: int


Record = (
    LoadRecord
    | BrokerRecord
    | LinkRecord
    | GroupRecord
    | ServiceRecord
    | MigrationRecord
    | RefusalRecord
    | ConfigurationRecord
    | DroppedRecord
)

KINDS: Final[dict[str, type[Struct]]] = {
    "load": LoadRecord,
    "broker": BrokerRecord,
    "link": LinkRecord,
    "group": GroupRecord,
    "service": ServiceRecord,
    "migration": MigrationRecord,
    "refusal": RefusalRecord,
    "configuration": ConfigurationRecord,
    "dropped": DroppedRecord,
}


class BatchHeader(Struct, frozen=True, array_like=True, gc=False):
    """Whose records a batch has, and which."""

    version: Annotated[int, Meta(ge=1)]
    gateway: GatewayName
    epoch: Number
    first: Number
    """The number of its first record; a gateway counts from 1 at each start."""
    count: Annotated[int, Meta(ge=1, le=BATCH_RECORDS_MAX)]
    after: Number = 0
    """The last number of the batch before it: whoever does not have that one must not take this one."""


class Batch(Struct, frozen=True, array_like=True, gc=False):
    """Records of one gateway, still encoded."""

    header: BatchHeader
    body: Raw
    """A msgpack array of records, of which those of unknown kinds are left out when it is read."""


_encoder: Final = msgspec.msgpack.Encoder()
_batch_decoder: Final = msgspec.msgpack.Decoder(Batch)
_records_decoder: Final = msgspec.msgpack.Decoder(list[Record])
_raws_decoder: Final = msgspec.msgpack.Decoder(list[Raw])
_record_decoder: Final = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """Return one record's msgpack."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Return the record in `data`; raises TelemetryError."""
    try:
        record: Record = _record_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"no record of telemetry: {error}") from None
    return record


def encode_batch(header: BatchHeader, records: list[bytes]) -> bytes:
    """Return a batch of encoded records, of which there are as many as the header says."""
    assert header.count == len(records)
    count = len(records)
    head = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")  # a msgpack array of so many
    return encode_batch_of(header, Raw(b"".join([head, *records])))


def encode_batch_of(header: BatchHeader, body: Raw) -> bytes:
    """Return a batch whose records are encoded together already."""
    return _encoder.encode(Batch(header, body))


def decode_batch(data: bytes) -> Batch:
    """Return the batch in `data`, its records still encoded; raises TelemetryError."""
    if len(data) > BATCH_BYTES_MAX:
        raise TelemetryError(f"a batch of {len(data)} bytes; {BATCH_BYTES_MAX} are allowed")
    try:
        return _batch_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"no batch of telemetry: {error}") from None


def decode_records(batch: Batch) -> list[tuple[int, Record]]:
    """Return the records of a batch with their numbers, without those of kinds that we do not know.

    Raises TelemetryError if they are not what the header says, or a known kind is malformed.
    """
    found, malformed = salvage_records(batch)
    if malformed:
        number, problem = malformed[0]
        raise TelemetryError(f"record {number} of {batch.header.gateway} is malformed: {problem}")
    return found


def salvage_records(batch: Batch) -> tuple[list[tuple[int, Record]], list[tuple[int, str]]]:
    """Return the same, and the numbers of records that are malformed, with what is wrong: others lose nothing by them.

    Raises TelemetryError if there are not as many as the header says, so that nobody knows which is which.
    """
    try:
        found: list[tuple[int, Record]] = list(enumerate(_records_decoder.decode(batch.body), batch.header.first))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_one_by_one(batch)
    _check_count(batch, len(found))
    return found, []


def _decode_one_by_one(batch: Batch) -> tuple[list[tuple[int, Record]], list[tuple[int, str]]]:
    try:
        raws = _raws_decoder.decode(batch.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TelemetryError(f"the records of a batch of {batch.header.gateway} cannot be read: {error}") from None
    _check_count(batch, len(raws))
    found: list[tuple[int, Record]] = []
    malformed: list[tuple[int, str]] = []
    for number, raw in enumerate(raws, batch.header.first):
        try:
            found.append((number, _record_decoder.decode(raw)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _is_known(raw):
                malformed.append((number, str(error)))
    return found, malformed


def _check_count(batch: Batch, found: int) -> None:
    if found != batch.header.count:
        raise TelemetryError(f"a batch of {batch.header.gateway} says {batch.header.count} records and has {found}")


def _is_known(raw: Raw) -> bool:
    try:
        fields = msgspec.msgpack.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return not (isinstance(fields, list) and fields and isinstance(fields[0], str)) or fields[0] in KINDS
