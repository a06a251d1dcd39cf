import random
from pathlib import Path

import pytest

from mqloom.core.telemetry import GroupRecord, LinkRecord, LoadRecord, ServiceRecord
from mqloom.lab.bench_collector import GROUPS, LINKS, measure_collector, window


def test_a_window_is_what_a_gateway_tells() -> None:
    kinds = [type(record) for record in window(1, 10.0, random.Random(1))]
    assert kinds == [LoadRecord, ServiceRecord, *[LinkRecord] * LINKS, *[GroupRecord] * GROUPS]


@pytest.mark.timeout(120)
def test_all_that_was_sent_is_in_the_spool_and_figures_fit_each_other(tmp_path: Path) -> None:
    told: list[str] = []
    found = measure_collector(20_000, 3, tmp_path, told.append)
    assert 20_000 <= found.records <= 20_003
    assert found.gateways == 3
    assert found.records_per_s == pytest.approx(found.records / found.took_s)
    assert 30 * found.records < found.spool_bytes < 200 * found.records
    assert told[0] == "collector: starting"
