"""What a gateway reports of itself for operators: retained JSON on its own broker, with a version, bounded."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import RecordError
from mqloom.core.ids import GatewayName, Number
from mqloom.core.limits import REPORT_BYTES_MAX, REPORT_COUNTS_MAX, REPORT_LINKS_MAX
from mqloom.core.load import Load

Seconds = Annotated[float, Meta(ge=0)]


class ReportedLink(Struct, frozen=True, kw_only=True):
    """One link: since when it has been as it is (Unix time), and how many publications of QoS 1 wait for it.

    `waiting` are in memory, sent or not; `parked` at least so many on our own broker. Soft links are up while they are.
    """

    gateway: GatewayName
    kind: Literal["primary", "soft"]
    state: Literal["up", "connecting", "down"]
    since: Seconds
    waiting: Number = 0
    parked: Number = 0


class Report(Struct, frozen=True, kw_only=True):
    """A gateway at one moment, `at` (Unix time); deleted when it ends. More fields may follow.

    `epoch` is that of the status: with another one, it is of an earlier run. It is also the time of the start, in ms.
    """

    gateway: GatewayName
    epoch: Number
    at: Seconds
    links: Annotated[tuple[ReportedLink, ...], Meta(max_length=REPORT_LINKS_MAX)]
    links_left_out: Number = 0
    held: Number = 0
    """Publications of QoS 1 that somebody further on has not taken care of yet, wherever they came from."""
    intake: Number = 0
    """Those among them that our own broker keeps until then."""
    deliveries: Number = 0
    """Messages for our own broker that it has not acknowledged."""
    lag_s: Seconds = 0.0
    """How long ago the oldest publication of our own broker came that is not taken care of; 0: there is none."""
    clients: Number = 0
    migrating: Number = 0
    """Clients among them that are on their way to another broker, by our order."""
    draining: bool = False
    """Whether all clients are sent away: see `mqloom drain`."""
    subscriptions_here: Number = 0
    subscriptions_elsewhere: Number = 0
    load: Load | None = None
    """Of the last window of the meters; None: none has ended yet."""
    broker: Annotated[dict[str, float], Meta(max_length=REPORT_COUNTS_MAX)] = {}
    """What the broker said of itself at its end, by its own names; empty where it says nothing."""
    counts: Annotated[dict[str, Number], Meta(max_length=REPORT_COUNTS_MAX)] = {}
    """Counters that are not zero, `name` or `name.reason`."""
    counts_left_out: Number = 0
    version: Literal[1] = 1


_decoder = msgspec.json.Decoder(Report)


def encode_report(report: Report) -> bytes:
    """Return the JSON of a report."""
    return msgspec.json.encode(report)


def decode_report(data: bytes) -> Report:
    """Return the report in `data`; raises RecordError."""
    if len(data) > REPORT_BYTES_MAX:
        raise RecordError(f"{len(data)} bytes, the bound is {REPORT_BYTES_MAX}")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(str(error)) from None
