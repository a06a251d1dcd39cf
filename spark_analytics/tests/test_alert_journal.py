from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.alert_journal import ALERTS_MAX, AlertJournal
from mqloom.spark_analytics.alerts import Alert, Limits

LIMITS = Limits(windows=1)


class CrashError(Exception):
    pass


class Broker:
    """What the broker has; dies before or after it has taken the alert with this number."""

    def __init__(self) -> None:
        self.has: list[str] = []
        self.texts: list[str] = []
        self.dies_at = -1

    def publish(self, alerts: list[Alert], tick_off: Callable[[Collection[str]], None]) -> None:
        for alert in alerts:
            if len(self.has) == self.dies_at:
                raise CrashError
            self.has.append(alert.id)
            self.texts.append(alert.text)
            tick_off([alert.id])


def dropped(*positions: int) -> list[dict[str, Any]]:
    return [
        {"kind": "dropped", "position": position, "gateway": "north", "at_s": 1.0, "dropped": {"amount": 1}}
        for position in positions
    ]


def load(position: int, used: float) -> dict[str, Any]:
    own = {"input_ratio": 0.1, "output_ratio": used, "cpu_ratio": 0.2, "memory_ratio": 0.3}
    return {"kind": "load", "position": position, "gateway": "north", "at_s": 1.0, "load": own}


@pytest.mark.parametrize("dies_at", range(4))
def test_wherever_it_dies_each_alert_is_published_once(tmp_path: Path, dies_at: int) -> None:
    broker = Broker()
    broker.dies_at = dies_at
    journal = AlertJournal(tmp_path, LIMITS)
    with pytest.raises(CrashError):
        journal.batch(0, lambda: dropped(1, 2, 3, 4, 5), broker.publish)
    broker.dies_at = -1
    again = AlertJournal(tmp_path, LIMITS)
    assert again.publisher == journal.publisher
    again.batch(0, lambda: dropped(1, 2, 3, 4, 5), broker.publish)
    again.batch(1, lambda: dropped(6), broker.publish)
    assert broker.has == [f"telemetry/north/dropped/{position}" for position in range(1, 7)]
    assert again.pending == []


def test_what_is_watched_is_remembered_from_start_to_start(tmp_path: Path) -> None:
    broker = Broker()
    AlertJournal(tmp_path, LIMITS).batch(0, lambda: [load(1, 1.0)], broker.publish)
    AlertJournal(tmp_path, LIMITS).batch(1, lambda: [load(2, 1.0)], broker.publish)
    AlertJournal(tmp_path, LIMITS).batch(2, lambda: [load(3, 0.1)], broker.publish)
    assert broker.has == ["overload/north/output/1", "overload/north/output/3"]


def test_a_flood_of_alerts_is_bounded_and_how_many_more_there_were_is_told(tmp_path: Path) -> None:
    broker = Broker()
    told = AlertJournal(tmp_path, LIMITS).batch(0, lambda: dropped(*range(2 * ALERTS_MAX)), broker.publish)
    assert told == len(broker.has) == ALERTS_MAX
    assert broker.texts[-1].startswith(f"{ALERTS_MAX + 1} more alerts, from telemetry/north/dropped/")


def test_a_journal_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "alerts.json").write_text("{")
    with pytest.raises(LocalError, match=r"alerts\.json: "):
        AlertJournal(tmp_path, LIMITS)
