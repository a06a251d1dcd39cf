from pathlib import Path

from mqloom.core.telemetry import LoadRecord, decode_batch, decode_records
from mqloom.lab.bench_spool import EPOCH, WINDOW_S, write_telemetry
from mqloom.spark_analytics.ranges import LocalRanges


def test_telemetry_for_benchmarks_is_what_gateways_would_have_sent(tmp_path: Path) -> None:
    told: list[int] = []
    written = write_telemetry(tmp_path, 20_000, told.append, gateways=3)
    assert written >= 20_000
    assert told[-1] == written
    ranges = LocalRanges(tmp_path)
    assert ranges.bounds() == (0, written)
    last: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    for frame in ranges.frames(0, written):
        batch = decode_batch(frame.data)
        records = decode_records(batch)
        assert batch.header.first == last.get(batch.header.gateway, 0) + 1
        last[batch.header.gateway] = records[-1][0]
        loads = [record for _, record in records if isinstance(record, LoadRecord)]
        assert [0.0 <= load.input_ratio < 2.0 for load in loads] == [True]
        assert {record.at for _, record in records} == {loads[0].at}
        times.setdefault(batch.header.gateway, []).append(loads[0].at)
    assert len(times) == 3
    assert all(at == [EPOCH + WINDOW_S * window for window in range(len(at))] for at in times.values())
