"""The gateway's side of telemetry as a core without IO: bounded, never waiting, and counting what it drops.

Records get consecutive numbers and are gathered into batches. A batch is kept until the collector says that it is on
its disk, and is sent again after a while, or when the connection was lost: so nothing is lost when the collector dies,
and it drops what it has already. Each batch names the one before it, and the collector takes none before that: what was
under way when it died would else be overtaken.

When all that may be kept is kept, new records are dropped. Their numbers are used up, so that everybody sees a gap; and
as soon as there is room a DroppedRecord says how large it was.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from mqloom.core.errors import TelemetryError
from mqloom.core.ids import GatewayId, GatewayName, Number
from mqloom.core.telemetry import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    VERSION,
    BatchHeader,
    DroppedRecord,
    Record,
    decode_batch,
    encode_batch,
    encode_batch_of,
    encode_record,
)

HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Records that wait for the collector, in bytes; more are dropped and counted."""

GATHER_S: Final = 0.5
"""How long records wait for others to travel with."""

RESEND_S: Final = 5.0
"""After how long without an answer a batch is sent again."""

IN_FLIGHT_MAX: Final = 16
"""Batches under way at once."""

_BATCH_BYTES_TARGET: Final = BATCH_BYTES_MAX // 4


class Kept(Struct, frozen=True, array_like=True, gc=False):
    """The collector's answer: all records of this start of this gateway up to this number are on its disk."""

    gateway: GatewayName
    epoch: Number
    upto: Annotated[int, Meta(ge=0)]


_kept_decoder: Final = msgspec.msgpack.Decoder(Kept)


def encode_kept(kept: Kept) -> bytes:
    """Return an answer's msgpack."""
    return msgspec.msgpack.encode(kept)


def decode_kept(data: bytes) -> Kept:
    """Return the answer in `data`; raises TelemetryError."""
    try:
        return _kept_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"no answer of a collector: {error}") from None


@dataclass(slots=True)
class _Waiting:
    """A batch that the collector has not confirmed."""

    last: int
    data: bytes
    sent_at: float | None = None


class TelemetryOutbox:
    """The records of one start of one gateway, on their way to the collector. Times are of any one clock."""

    def __init__(self, gateway: GatewayId, epoch: int, unix_time: Callable[[], float], held_max: int = HELD_BYTES_MAX):
        self._gateway = gateway
        self._epoch = epoch
        self._unix_time = unix_time
        self._held_max = held_max
        self._next = 1
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_since = 0.0
        self._batches: deque[_Waiting] = deque()
        self._last_closed = 0
        self._batch_bytes = 0
        self._gap: tuple[int, int] | None = None  # first number and amount of what was dropped and not yet told
        self.dropped = 0
        self.kept = 0
        """How many records the collector has confirmed, or knows to have been dropped."""

    @property
    def emitted(self) -> int:
        """How many records there were, those included that were dropped."""
        return self._next - 1

    @property
    def held_bytes(self) -> int:
        """What waits for the collector."""
        return self._open_bytes + self._batch_bytes

    @property
    def is_settled(self) -> bool:
        """Whether the collector has everything, what was dropped included: whoever ends may do so."""
        return not self.held_bytes and self._gap is None

    def offer(self, record: Record, now: float) -> None:
        """Take a record; or drop it, if there is no room."""
        if self._gap is not None:
            self._tell_gap(now)
        data = encode_record(record)
        if self._gap is not None or not self._fits(data):
            self._drop()
        else:
            self._add(data, now)

    def _tell_gap(self, now: float) -> None:
        assert self._gap is not None
        data = encode_record(DroppedRecord(self._unix_time(), *self._gap))
        if self._fits(data):
            self._close()  # numbers of a batch are consecutive
            self._gap = None
            self._add(data, now)

    def _fits(self, data: bytes) -> bool:
        return len(data) <= _BATCH_BYTES_TARGET and self.held_bytes + len(data) <= self._held_max

    def _drop(self) -> None:
        self._close()
        first, amount = self._gap or (self._next, 0)
        self._gap = (first, amount + 1)
        self._next += 1
        self.dropped += 1

    def _add(self, data: bytes, now: float) -> None:
        if self._open and (len(self._open) >= BATCH_RECORDS_MAX or self._open_bytes + len(data) > _BATCH_BYTES_TARGET):
            self._close()
        if not self._open:
            self._open_since = now
        self._open.append(data)
        self._open_bytes += len(data)
        self._next += 1

    def _close(self) -> None:
        if not self._open:
            return
        first = self._next - len(self._open)
        header = BatchHeader(VERSION, self._gateway, self._epoch, first, len(self._open), self._last_closed)
        data = encode_batch(header, self._open)
        self._last_closed = self._next - 1
        self._batches.append(_Waiting(self._last_closed, data))
        self._batch_bytes += len(data)
        self._open, self._open_bytes = [], 0

    def due(self, now: float, *, all_of_it: bool = False) -> list[bytes]:
        """Return the batches to send now: new ones, and those that were not answered in time."""
        if self._gap is not None:
            self._tell_gap(now)
        if self._open and (all_of_it or now - self._open_since >= GATHER_S):
            self._close()
        found = []
        for waiting in list(self._batches)[:IN_FLIGHT_MAX]:
            if waiting.sent_at is None or now - waiting.sent_at >= RESEND_S:
                waiting.sent_at = now
                found.append(waiting.data)
        return found

    @property
    def deadline(self) -> float | None:
        """When `due` should be called next, if nothing else happens."""
        times = [self._open_since + GATHER_S] if self._open else []
        times += [
            0.0 if waiting.sent_at is None else waiting.sent_at + RESEND_S
            for waiting in list(self._batches)[:IN_FLIGHT_MAX]
        ]
        return min(times, default=None)

    def confirmed(self, answer: Kept) -> None:
        """The collector has told how far its disk goes; what is about somebody else, or another start, is ignored."""
        if answer.gateway != self._gateway or answer.epoch != self._epoch:
            return
        while self._batches and self._batches[0].last <= answer.upto:
            batch = self._batches.popleft()
            self._batch_bytes -= len(batch.data)
            self.kept = batch.last
        if self._batches and answer.upto < self.kept:
            self._begin_again(answer.upto)

    def _begin_again(self, after: int) -> None:
        """The collector has less than it had confirmed: it is another one, or was restored. Go on from what it has."""
        oldest = self._batches[0]
        batch = decode_batch(oldest.data)
        if batch.header.after > after:
            self._batch_bytes -= len(oldest.data)
            oldest.data = encode_batch_of(msgspec.structs.replace(batch.header, after=after), batch.body)
            oldest.sent_at = None
            self._batch_bytes += len(oldest.data)

    def lost(self) -> None:
        """The connection was lost: send again what was not answered."""
        for waiting in self._batches:
            waiting.sent_at = None

    def not_taken(self, batches: Sequence[bytes]) -> None:
        """The connection could not take these of what was due: they are due still."""
        given_back = set(map(id, batches))
        for waiting in self._batches:
            if id(waiting.data) in given_back:
                waiting.sent_at = None
