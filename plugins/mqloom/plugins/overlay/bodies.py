"""What overlays of primary neighbours say to each other: what lies behind them, and how it fares.

A view comes in order with announcements, when the link comes up and when the view changes. A report comes urgently,
every period; it names gateways by their place in the view that was told before it, so that it stays small.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from mqloom.core.ids import GatewayName
from mqloom.plugins.overlay.limits import BODY_BYTES_MAX, LOAD_MAX, ROUND_TRIP_MS_MAX, VIEW_GATEWAYS_MAX

Place = Annotated[int, Meta(ge=0, le=VIEW_GATEWAYS_MAX)]
Load = Annotated[int, Meta(ge=-1 - LOAD_MAX, le=LOAD_MAX)]
Milliseconds = Annotated[int, Meta(ge=-1, le=ROUND_TRIP_MS_MAX)]
Several = Meta(max_length=VIEW_GATEWAYS_MAX + 1)


class View(Struct, frozen=True, array_like=True, tag="view"):
    """The tree behind the sender, nearer gateways first.

    The parent of gateway i is in `parents[i]`: 0 is the sender, k the k-th gateway, which comes before it.
    """

    number: int
    gateways: Annotated[list[GatewayName], Meta(max_length=VIEW_GATEWAYS_MAX)]
    parents: Annotated[list[Place], Meta(max_length=VIEW_GATEWAYS_MAX)]


class Report(Struct, frozen=True, array_like=True, tag="load"):
    """Loads and round trips in the order of the view with this number, the sender first.

    A load is the used share of the uplink in percent, or, where the uplink is not known, -1 minus the copies sent per
    second. A round trip is that of the link to the parent, in milliseconds, -1 if it is not known.
    `sent` is the sender's clock; `echo` is what the receiver's clock said in its last report, which was `held` seconds
    ago.
    """

    view: int
    loads: Annotated[list[Load], Several]
    round_trips: Annotated[list[Milliseconds], Several]
    sent: float
    echo: float | None
    held: float


_decoder: Final[msgspec.msgpack.Decoder[View | Report]] = msgspec.msgpack.Decoder(View | Report)


def encode(body: View | Report) -> bytes:
    """Return the bytes of a body."""
    return msgspec.msgpack.encode(body)


def decode(data: bytes) -> View | Report:
    """Return the body; raises ValueError if it is none."""
    if len(data) > BODY_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes")
    body = _decoder.decode(data)  # its complaints are ValueErrors
    if isinstance(body, View) and len(body.gateways) != len(body.parents):
        raise ValueError("gateways and parents differ in number")
    return body
