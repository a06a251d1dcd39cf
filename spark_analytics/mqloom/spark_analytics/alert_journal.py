"""Alerts survive the driver: each batch's are on disk before any is published, and ticked off when the broker has it.

A batch that Spark runs again finds its alerts in the journal and goes on with those that were not ticked off.
"""

import os
import secrets
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.alerts import Alert, Fields, Limits, Watch

ALERTS_MAX: Final = 1_000
"""Alerts of one batch; of further ones only the number is told."""

Publish = Callable[[list[Alert], Callable[[Collection[str]], None]], None]
"""Publishes alerts and calls back with the ids of those that the broker has; raises if one cannot be published."""


class _Page(Struct, kw_only=True):
    """The journal: how far batches have come, what is watched after them, and what is still to be published."""

    publisher: str
    """The name under which alerts are published, the same after each start."""
    batch: int = -1
    watch: Watch = msgspec.field(default_factory=Watch)
    pending: list[Alert] = []


class AlertJournal:
    """Makes alerts of batches, once each. Raises LocalError if the folder cannot be used."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._path = folder / "alerts.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._page = self._read()
        except (OSError, msgspec.DecodeError) as error:
            raise LocalError(f"{self._path}: {error}") from None
        self._page.watch.limits = limits

    def _read(self) -> _Page:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Page)
        except FileNotFoundError:
            return _Page(publisher=secrets.token_hex(8))

    @property
    def publisher(self) -> str:
        """The name under which alerts are published."""
        return self._page.publisher

    @property
    def pending(self) -> list[Alert]:
        """What is not yet published."""
        return list(self._page.pending)

    def batch(self, number: int, rows: Callable[[], Iterable[Fields]], publish: Publish) -> int:
        """Make and publish the alerts of a batch; return how many. A batch that was begun before is gone on with."""
        if self._page.batch != number:
            found = [alert for row in rows() for alert in self._page.watch.row(row)]
            self._page.batch = number
            self._page.pending += _few(found)
            self._write()
        pending = self.pending
        if pending:
            publish(pending, self._tick_off)
        return len(pending)

    def _tick_off(self, names: Collection[str]) -> None:
        gone = frozenset(names)
        self._page.pending = [alert for alert in self._page.pending if alert.id not in gone]
        self._write()

    def _write(self) -> None:
        new = self._path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(self._page))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            raise LocalError(f"{self._path}: {error}") from None


def _few(alerts: list[Alert]) -> list[Alert]:
    """Return alerts as they are, or the last of very many as one that says how many they are."""
    if len(alerts) <= ALERTS_MAX:
        return alerts
    kept, rest = alerts[: ALERTS_MAX - 1], alerts[ALERTS_MAX - 1 :]
    text = f"{len(rest)} more alerts, from {rest[0].id} to {rest[-1].id}, are not told one by one"
    return [
        *kept,
        Alert(
            id=f"more/{rest[0].id}",
            kind="telemetry",
            gateway="",
            what="more",
            is_over=False,
            value=len(rest),
            at=rest[-1].at,
            text=text,
        ),
    ]
