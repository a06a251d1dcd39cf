"""How a long run is judged: lines through its samples."""

import pytest

from mqloom.lab.bench_quotes import Account
from mqloom.lab.bench_soak import Samples, judged, waiting


def test_what_grows_is_seen_and_the_beginning_does_not_count() -> None:
    samples = Samples()
    for second in range(100):
        growing = 50_000_000 if second < 20 else 60_000_000 + 100_000 * second
        samples.add(float(second), {"flat": 70_000_000, "growing": growing, "unknown": None}, {"link": second % 2})
    accounts = [Account(10, 0, 0, 0, 0.01, []), Account(10, 1, 0, 0, 0.2, [])]
    soaked = judged(samples, 2.0, 500.0, accounts)
    assert soaked.rss_mb_per_minute["flat"] == pytest.approx(0.0)
    assert soaked.rss_mb_per_minute["growing"] == pytest.approx(6.0)
    assert "unknown" not in soaked.rss_mb
    assert soaked.rss_mb["flat"] == pytest.approx(70.0)
    assert soaked.waiting_max == {"link": 1}
    assert soaked.waiting_per_minute["link"] == pytest.approx(0.0, abs=0.1)
    assert (soaked.lost, soaked.wanted, soaked.late_s_max) == (1, 20, 0.2)


def test_what_waits_for_a_link_is_what_went_out_and_has_not_come() -> None:
    counters = {
        "west": {"publications_forwarded": 10},
        "middle": {"publications_received": 7, "publications_forwarded": 7},
        "east": {"publications_received": 8},  # written a little later
    }
    assert waiting(counters, ["west", "middle", "east"]) == {"link west to middle": 3, "link middle to east": 0}
    assert waiting({}, ["west"]) == {}
