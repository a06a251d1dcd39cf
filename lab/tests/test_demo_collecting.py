"""A demonstration whose telemetry is collected while it runs: the spool has all of it, of every gateway."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.telemetry import GroupRecord, LinkRecord, LoadRecord, decode_batch, decode_records
from mqloom.lab.demo_overload import HEAD, STRENGTHS, WEAKEST
from mqloom.spark_analytics.spool import SpoolReader


@pytest.mark.timeout(120)
def test_every_gateway_is_in_the_spool_with_its_load_links_and_groups_and_it_can_be_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = tmp_path / "spool"
    assert main(["demo", "--overload", "--seconds", "6", "--json", "--spool", str(spool)]) == 0
    verdict = json.loads(capsys.readouterr().out)
    reader = SpoolReader(spool)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    numbers: dict[str, list[int]] = defaultdict(list)
    groups: Counter[str] = Counter()
    sent = 0
    fullest = 0.0
    for frame in reader.frames(*reader.bounds()):
        batch = decode_batch(frame.data)
        gateway = batch.header.gateway
        for number, record in decode_records(batch):
            numbers[gateway].append(number)
            kinds[gateway][type(record).__name__] += 1
            if isinstance(record, GroupRecord):
                groups[gateway] += record.publications * record.subscribers
            if isinstance(record, LinkRecord) and gateway == HEAD:
                sent += record.sent
            if isinstance(record, LoadRecord) and gateway == WEAKEST:
                fullest = max(fullest, record.output_ratio)
    assert set(kinds) == {HEAD, *STRENGTHS}
    for name, seen in kinds.items():
        assert numbers[name] == list(range(1, len(numbers[name]) + 1))
        assert min(seen["LoadRecord"], seen["LinkRecord"], seen["ConfigurationRecord"]) >= 3
    assert fullest > 0.5
    assert sent > 0
    assert verdict["delivered"] > 0
    assert sum(groups.values()) > 0.5 * verdict["delivered"]  # who left before a window ended is not in its number
    assert main(["lab", "replay", str(spool), "--json", "--set", "local_ratio=0.3"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert {broker["broker"] for broker in replayed["brokers"]} == set(STRENGTHS)
    assert (replayed["lost"], replayed["settings"]["local_ratio"]) == (0, 0.3)
    weakest = next(broker for broker in replayed["brokers"] if broker["broker"] == WEAKEST)
    assert min(weakest["unmoved"]["output_mean"], weakest["replayed"]["output_mean"]) > 0
