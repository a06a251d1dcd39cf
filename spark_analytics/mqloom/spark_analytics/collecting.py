"""The collector as a process: sockets and the clock around `Collector`, and a second thread for readers."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq

from mqloom.core.errors import LocalError, TelemetryError
from mqloom.core.telemetry import BATCH_BYTES_MAX, decode_batch
from mqloom.core.telemetry_keys import Curve
from mqloom.core.telemetry_outbox import encode_kept
from mqloom.core.telemetry_sockets import PeerBounds, authenticate, listen, strangers, watch_strangers
from mqloom.spark_analytics.collector import Collector
from mqloom.spark_analytics.ranges import LocalRanges, answer_question
from mqloom.spark_analytics.retention import KEEP_ALL, Retention
from mqloom.spark_analytics.segments import SpoolError
from mqloom.spark_analytics.spool import SpoolLock, SpoolWriter

COMMIT_S: Final = 0.05
"""How long a batch waits for others before the disk is asked to take it."""

RETAIN_EVERY_S: Final = 10.0
FULL_RETRY_S: Final = 5.0
"""How long to wait after the disk has refused. Meanwhile what comes is dropped unanswered: gateways keep it, and send
it again and again, so it must not pile up here."""

FROM_GATEWAYS: Final = PeerBounds(received=64, message_bytes=2 * BATCH_BYTES_MAX)
"""A gateway has fewer batches under way, and encryption makes them a little longer."""

FROM_READERS: Final = PeerBounds(received=64, unsent=4, message_bytes=4_096)
"""Questions are short, answers long; whoever does not read them gets no more, and asks again."""

_POLL_MS: Final = 50
_BURST: Final = 500

SHOW_EVERY_S: Final = 1.0
"""How often it is told how it stands."""

Tell = Callable[[str], None]
Show = Callable[[Collector[bytes]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPlan:
    """Where to listen for gateways and for readers, and what to keep."""

    spool: Path
    listen: str
    serve: str
    retention: Retention = KEEP_ALL
    curve: Curve | None = None
    segment_bytes: int = 64 * 1024 * 1024


class CollectServer:
    """Runs until it is told to stop. Raises LocalError if it cannot begin."""

    def __init__(self, plan: CollectPlan, tell: Tell, show: Show = lambda _: None) -> None:
        self._plan = plan
        self._tell = tell
        self._show = show
        self._lock = SpoolLock(plan.spool)
        try:
            self._writer = SpoolWriter(plan.spool, plan.segment_bytes)
        except SpoolError:
            self._lock.release()
            raise
        self._writer.ensure()
        self.collector: Collector[bytes] = Collector(self._writer)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._stopping = threading.Event()
        curve = plan.curve
        self._monitors: list[zmq.Socket[bytes]] = []
        self._resting_until = 0.0
        self._mistake: Exception | None = None
        self._authenticator = None if curve is None else authenticate(self._context, curve)
        try:
            self._intake = listen(self._context, plan.listen, curve, FROM_GATEWAYS)
            self._readers = listen(self._context, plan.serve, curve, FROM_READERS)
            self._monitors = [watch_strangers(socket) for socket in (self._intake, self._readers)]
        except zmq.ZMQError as error:
            self.close()
            text = f"cannot listen at {plan.listen} or {plan.serve}: {error}; is another collector running?"
            raise LocalError(text) from None

    @property
    def addresses(self) -> tuple[str, str]:
        """Where it listens for gateways and for readers, with the ports that were free."""
        intake, readers = self._intake.getsockopt(zmq.LAST_ENDPOINT), self._readers.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(intake, bytes)
        assert isinstance(readers, bytes)
        return intake.decode(), readers.decode()

    def stop(self) -> None:
        """Have `run` return soon; may be called from a signal handler or another thread."""
        self._stopping.set()

    def run(self) -> None:
        """Collect until `stop`, or until our own mistake: then raises it. What has come by then is committed."""
        reading = threading.Thread(target=self._serve_or_end, name="mqloom-collect-readers", daemon=True)
        reading.start()
        commit_at: float | None = None
        retain_at = show_at = 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            if self.collector.is_full or (commit_at is not None and now >= commit_at):
                self._commit()
                commit_at = None
            if now >= retain_at:
                self._retain()
                retain_at = now + RETAIN_EVERY_S
            self._count_strangers()
            if now >= show_at:
                self._show(self.collector)
                show_at = now + SHOW_EVERY_S
            wait_ms = _POLL_MS if commit_at is None else max(1, round((commit_at - now) * 1_000))
            if self._intake.poll(min(wait_ms, _POLL_MS)) and self._take_in() and commit_at is None:
                commit_at = time.monotonic() + COMMIT_S
        self._commit()
        reading.join(timeout=10)
        if self._mistake is not None:
            raise self._mistake

    def _count_strangers(self) -> None:
        """Count who has no key, or another."""
        before = self.collector.counts["strangers"]
        count = before + sum(strangers(monitor) for monitor in self._monitors)
        self.collector.counts["strangers"] = count
        if _is_news(before, count):
            self._tell(f"{count:,} attempts so far of somebody who does not have our telemetry key")

    def _take_in(self) -> bool:
        is_resting = time.monotonic() < self._resting_until
        for _ in range(_BURST):
            try:
                peer, *parts = self._intake.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if is_resting:
                self.collector.counts["put off"] += 1
            else:
                self._take(peer, parts)
            if self.collector.is_full:
                break
        return self.collector.is_waiting

    def _take(self, peer: bytes, parts: list[bytes]) -> None:
        counts = self.collector.counts
        before, outdated = counts["refused"], counts["outdated"]
        try:
            if len(parts) != 1:
                counts["refused"] += 1
                raise TelemetryError(f"a message of {len(parts)} parts, where there should be one")
            self.collector.received(peer, parts[0])
        except TelemetryError as error:
            if _is_news(before, counts["refused"]):
                self._tell(f"{counts['refused']:,} messages were refused so far; the last: {error.problem}")
        if _is_news(outdated, counts["outdated"]):
            name = decode_batch(parts[0]).header.gateway
            text = f"{counts['outdated']:,} records so far are of an earlier start of their gateway, the last of {name}"
            self._tell(f"{text}: are there two of that name, or has its clock gone back?")

    def _commit(self) -> None:
        try:
            answers = self.collector.commit()
        except SpoolError as error:
            self._tell(f"{error}; gateways send it again: trying once more in {FULL_RETRY_S:g} s")
            self._resting_until = time.monotonic() + FULL_RETRY_S
            return
        for peer, kept in answers:
            try:
                self._intake.send_multipart([peer, encode_kept(kept)], zmq.NOBLOCK)
            except zmq.ZMQError:
                continue  # it asks again

    def _retain(self) -> None:
        try:
            keep = self._plan.retention.keep_from(self._plan.spool, time.time())
            before = self._writer.marker.begin
            if keep > before and self._writer.drop_before(keep) > before:
                self._tell(
                    f"records before position {self._writer.marker.begin} are gone: older, or more, than is kept"
                )
        except (OSError, SpoolError) as error:
            self._tell(f"nothing could be deleted: {error}")

    def _serve_or_end(self) -> None:
        try:
            self._serve()
        except Exception as error:  # a mistake of ours: half a collector would look like a whole one
            self._mistake = error
            self._stopping.set()

    def _serve(self) -> None:
        ranges = LocalRanges(self._plan.spool)
        while not self._stopping.is_set():
            if not self._readers.poll(_POLL_MS):
                continue
            try:
                peer, *parts = self._readers.recv_multipart(zmq.NOBLOCK)
                number, question = parts if len(parts) == 2 else (b"", b"")
                self._readers.send_multipart([peer, number, answer_question(ranges, question)], zmq.NOBLOCK)
            except zmq.ZMQError:
                continue  # whoever asked is gone, or does not read

    def close(self) -> None:
        """Let go of files and sockets."""
        self._stopping.set()
        self._writer.close()
        self._lock.release()
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.destroy(linger=0)


def _is_news(before: int, count: int) -> bool:
    """Say whether a count is to be told: the first time, and each time that it is twice as much."""
    return count.bit_length() > before.bit_length()
