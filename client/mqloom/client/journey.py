"""What a client's record says of its moves, for later lives of the client itself (docs/migration.md)."""

from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayId
from mqloom.core.records import Record, Wish, decode_record, encode_record

POINTER_LEASE_S: Final = 30 * 86_400.0
"""How long the word stays on a broker where we have moved to; a client that was away for longer begins anew there."""


class Journey(Struct, frozen=True, kw_only=True):
    """Which life of the client writes; and where else it has a session, or may have one.

    At most one of the next four is said. `left` may be said besides: of a broker that we are done with, until it has
    forgotten us.
    """

    incarnation: str = ""
    moving_to: str = ""
    leaving_to: str = ""
    moved_to: str = ""
    moved_from: str = ""
    left: str = ""
    visited: tuple[GatewayId, ...] = ()
    """Where the client was served before, in this life or an earlier one."""


AT_HOME: Final = Journey()
"""Of a client that is never moved."""


def record_of(wishes: dict[str, Wish], journey: Journey, *, qos: int, lease_s: float, token: str) -> bytes:
    """Return the record that asks for these wishes."""
    record = Record(subscriptions=wishes, format="frame", qos=qos, lease_s=lease_s, token=token, **asdict(journey))
    return encode_record(record)


def pointer_of(journey: Journey, to: str, token: str) -> bytes:
    """Return the record that says where the client has gone, and asks for nothing."""
    return record_of(
        {}, Journey(incarnation=journey.incarnation, moved_to=to), qos=1, lease_s=POINTER_LEASE_S, token=token
    )


def probe_of(journey: Journey, token: str) -> bytes:
    """Return the record that changes nothing, by which this life learns that it has read the one of an earlier life."""
    record = Record(subscriptions={}, token=token, incarnation=journey.incarnation, is_probe=True)
    return encode_record(record)


def wishes_in(data: bytes) -> dict[str, Wish]:
    """Return what a record asks for; nothing if there is no record, or it is none of ours."""
    try:
        record = decode_record(data) if data else None
    except RecordError:
        return {}
    return {} if record is None or record.format != "frame" else dict(record.subscriptions)


def journey_in(data: bytes) -> Journey | None:
    """Return what a record says of moves; None if there is no record, or it is none of ours."""
    if not data:
        return None
    try:
        record = decode_record(data)
    except RecordError:
        return None
    return Journey(
        incarnation=record.incarnation,
        moving_to=record.moving_to,
        leaving_to=record.leaving_to,
        moved_to=record.moved_to,
        moved_from=record.moved_from,
        left=record.left,
        visited=record.visited,
    )
