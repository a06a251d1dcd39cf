"""What the collector does with what gateways send, as a core: takes each record once, and answers when the disk has it.

A gateway sends batches again until they are answered, so a batch may come twice: of each start of a gateway (its epoch)
the spool knows the last number that it has, and what is not beyond it is answered and dropped. A gateway that has been
started again counts from 1, in a larger epoch. What an earlier start still sends after that is neither taken nor
answered: it is not on the disk, and perhaps of another gateway that has the same name, which then counts it as dropped.

A batch is taken only after the one before it: when a collector dies, what it had not committed must come again before
what follows, or the answer to that would stand for both.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from mqloom.core.errors import TelemetryError
from mqloom.core.telemetry import BatchHeader, decode_batch
from mqloom.core.telemetry_outbox import Kept
from mqloom.spark_analytics.segments import SpoolError
from mqloom.spark_analytics.spool import SpoolWriter

Peer = TypeVar("Peer", bound=Hashable)

PENDING_BYTES_MAX: Final = 8 * 1024 * 1024
"""What waits for the disk at most; then it is committed at once."""

GATEWAYS_MAX: Final = 10_000
"""Gateways that are known; for a further one, that which was heard from longest ago is forgotten.

If it is there all the same, it goes on: it is asked from where, and what it had not been answered may come twice.
"""


class Collector(Generic[Peer]):
    """Takes batches from peers into a spool."""

    def __init__(self, writer: SpoolWriter) -> None:
        self._writer = writer
        self._answers: dict[tuple[Peer, str], Kept] = {}
        self.counts: Counter[str] = Counter()

    @property
    def gateways(self) -> int:
        """How many gateways are known."""
        return len(self._writer.marker.gateways)

    @property
    def is_full(self) -> bool:
        """Whether `commit` should not wait."""
        return self._writer.pending_bytes >= PENDING_BYTES_MAX

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for `commit`."""
        return bool(self._answers)

    def received(self, peer: Peer, data: bytes) -> None:
        """Take a batch; raises TelemetryError if it is none, or does not follow what is here."""
        try:
            header = decode_batch(data).header
        except TelemetryError:
            self.counts["refused"] += 1
            raise
        epoch, last = self._writer.known(header.gateway)
        upto = header.first + header.count - 1
        if header.epoch < epoch:
            self.counts["outdated"] += header.count
            return
        if header.epoch == epoch and upto <= last:
            self.counts["repeated"] += header.count
        elif header.epoch == epoch and header.first <= last:
            self.counts["refused"] += 1
            raise TelemetryError(f"of {header.gateway}: records {header.first} to {upto}, of which some are here")
        elif header.after > (last if header.epoch == epoch else 0):
            self.counts["early"] += header.count  # the one before it was lost, perhaps with our own predecessor
            self._answer(peer, header, last if header.epoch == epoch else 0)
            return
        else:
            self.counts["records"] += header.count
            self.counts["bytes"] += len(data)
            if not epoch and self._writer.gateways >= GATEWAYS_MAX:
                self._writer.forget_oldest()
                self.counts["forgotten"] += 1
            self._writer.append(header.count, data, header.gateway, header.epoch, upto)
        self._answer(peer, header, max(upto, last) if header.epoch == epoch else upto)

    def _answer(self, peer: Peer, header: BatchHeader, upto: int) -> None:
        self._answers[(peer, header.gateway)] = Kept(header.gateway, header.epoch, upto)

    def commit(self) -> list[tuple[Peer, Kept]]:
        """Have the disk take what has come, and return whom to tell so.

        Raises SpoolError if it does not: then nobody is told, what was not kept comes again, and the next commit tries
        again from where the disk is.
        """
        try:
            self._writer.commit()
        except SpoolError:
            self.counts["failed commits"] += 1
            self._answers.clear()
            self._writer.recover()
            raise
        answers = [(peer, kept) for (peer, _), kept in self._answers.items()]
        self._answers.clear()
        return answers
