"""How a long run is judged: lines through its samples."""

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.reports import Report, ReportedLink
from mqloom.lab.bench_quotes import Account
from mqloom.lab.bench_soak import Samples, judged, waiting


def report(*, waiting: int, parked: int = 0, held: int = 0, deliveries: int = 0) -> Report:
    link = ReportedLink(
        gateway=GatewayId("east"), kind="primary", state="up", since=1.0, waiting=waiting, parked=parked
    )
    return Report(gateway=GatewayId("west"), epoch=1, at=2.0, links=(link,), held=held, deliveries=deliveries)


def test_what_grows_is_seen_and_the_beginning_does_not_count() -> None:
    samples = Samples()
    for second in range(100):
        growing = 50_000_000 if second < 20 else 60_000_000 + 100_000 * second
        samples.add_memory(float(second), {"flat": 70_000_000, "growing": growing, "unknown": None})
        samples.add_report(float(second), report(waiting=second % 2, held=3 * second))
    accounts = [Account(10, 0, 0, 0, 0.01, []), Account(10, 1, 0, 0, 0.2, [])]
    soaked = judged(samples, 2.0, 500.0, accounts)
    assert soaked.rss_mb_per_minute["flat"] == pytest.approx(0.0)
    assert soaked.rss_mb_per_minute["growing"] == pytest.approx(6.0)
    assert soaked.rss_mb_by_minute["growing"] == pytest.approx([62.95, 67.95])
    assert soaked.waiting_by_minute["held by west"] == pytest.approx([88.5, 238.5])
    assert "unknown" not in soaked.rss_mb
    assert soaked.rss_mb["flat"] == pytest.approx(70.0)
    assert soaked.waiting_max == {"link west to east": 1, "held by west": 297, "for west's broker": 0}
    assert soaked.waiting_per_minute["link west to east"] == pytest.approx(0.0, abs=0.1)
    assert soaked.waiting_per_minute["held by west"] == pytest.approx(180.0)
    assert (soaked.lost, soaked.wanted, soaked.late_s_max) == (1, 20, 0.2)


def test_what_is_parked_for_a_link_waits_for_it_too() -> None:
    assert waiting(report(waiting=2, parked=5, held=9, deliveries=4)) == {
        "link west to east": 7,
        "held by west": 9,
        "for west's broker": 4,
    }
