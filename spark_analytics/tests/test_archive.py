import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from mqloom.core.command import main
from mqloom.core.errors import LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    VERSION,
    BatchHeader,
    LoadRecord,
    Record,
    ServiceRecord,
    encode_batch,
    encode_record,
)
from mqloom.spark_analytics import archive as archive_module
from mqloom.spark_analytics.archive import STATE, archive
from mqloom.spark_analytics.spool import SpoolWriter, segments_of, sync_folder

DAY_S = 86_400.0
START = 20_000 * DAY_S
NORTH, SOUTH = GatewayId("north"), GatewayId("south/east side")


def load(at: float) -> LoadRecord:
    return LoadRecord(at, 10.0, 0.5, 0.001, 0.2, 0.3, 0.1, 500.0, 1e4, 1e5, 7, 3)


def append(writer: SpoolWriter, gateway: GatewayId, first: int, records: list[Record]) -> None:
    data = encode_batch(
        BatchHeader(VERSION, gateway, 1, first, len(records)), [encode_record(each) for each in records]
    )
    writer.append(len(records), data, gateway, 1, first + len(records) - 1)


def filled(folder: Path, batches: int, *, first: int = 0, segment_bytes: int = 1 << 20) -> None:
    """Add batches of ten records of each of two gateways, three hours apart, so that days change."""
    writer = SpoolWriter(folder, segment_bytes)
    for batch in range(first, first + batches):
        at = START + batch * 10_800.0
        records: list[Record] = [load(at + second) for second in range(9)]
        for gateway in (NORTH, SOUTH):
            append(writer, gateway, 1 + batch * 10, [*records, ServiceRecord(at, 5, 0.1, 3)])
        writer.commit()
    writer.close()


def numbers(folder: Path) -> dict[str, list[int]]:
    """Return the numbers of all records, by gateway and kind, sorted."""
    found: dict[str, list[int]] = {}
    for kind in ("load", "service"):
        table = ds.dataset(folder / kind, partitioning="hive").to_table(columns=["gateway", "number"])
        for gateway, number in zip(table["gateway"].to_pylist(), table["number"].to_pylist(), strict=True):
            found.setdefault(f"{kind} {gateway}", []).append(number)
    return {name: sorted(each) for name, each in sorted(found.items())}


def expected(batches: int) -> dict[str, list[int]]:
    loads = [number for number in range(1, 10 * batches + 1) if number % 10]
    services = list(range(10, 10 * batches + 1, 10))
    return {
        "load north": loads,
        "load south/east side": loads,
        "service north": services,
        "service south/east side": services,
    }


def nothing(share: float, text: str) -> None:
    pass


def test_every_record_is_there_once_in_the_folder_of_its_day_and_gateway(tmp_path: Path) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "archive"
    filled(spool, 20)
    done = archive(spool, folder, nothing, piece_records=70)
    assert (done.begin, done.end, done.records, done.problems) == (0, 400, 400, [])
    assert {path.name for path in (folder / "load").iterdir()} == {"day=2024-10-04", "day=2024-10-05", "day=2024-10-06"}
    assert {path.name for path in (folder / "load" / "day=2024-10-05").iterdir()} == {
        "gateway=north",
        "gateway=south%2Feast%20side",
    }
    assert numbers(folder) == expected(20)
    table = ds.dataset(folder / "load", partitioning="hive").to_table(columns=["day", "clients"])
    assert (table.num_rows, sum(table["clients"].to_pylist())) == (360, 1_080)


def test_what_is_new_is_added_and_the_rest_left_alone(tmp_path: Path) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "archive"
    filled(spool, 5)
    archive(spool, folder, nothing)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert archive(spool, folder, nothing).records == 0
    filled(spool, 5, first=5)
    assert archive(spool, folder, nothing).records == 100
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert numbers(folder) == expected(10)


def test_the_disk_has_the_names_of_all_files_before_the_archive_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "archive"
    filled(spool, 5)
    unsynced: set[Path] = set()
    replace = os.replace

    def replacing(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == STATE:
            assert unsynced == set()
        else:
            unsynced.update([target.parent, *target.parent.parents[:3]])

    def syncing(place: Path) -> None:
        sync_folder(place)
        unsynced.discard(place)

    monkeypatch.setattr(os, "replace", replacing)
    monkeypatch.setattr(archive_module, "sync_folder", syncing)
    assert archive(spool, folder, nothing).files > 0


PROGRAM = """
import sys
from pathlib import Path
from mqloom.spark_analytics.archive import archive
archive(Path(sys.argv[1]), Path(sys.argv[2]), lambda share, text: None, piece_records=40)
"""


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_killed_at_any_moment_it_goes_on_and_nothing_is_there_twice(tmp_path: Path, after_s: float) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "archive"
    filled(spool, 30)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(spool), str(folder)])
    while process.poll() is None and not (folder / STATE).exists():
        time.sleep(0.001)
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    filled(spool, 3, first=30)  # what comes meanwhile must not change the piece that was begun
    archive(spool, folder, nothing)
    assert numbers(folder) == expected(33)


def test_what_was_deleted_before_is_named_and_the_rest_archived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "archive"
    filled(spool, 10, segment_bytes=2_000)
    writer = SpoolWriter(spool)
    writer.drop_before(segments_of(spool)[3][0])
    gone = writer.marker.begin
    writer.close()
    assert 0 < gone < 200
    assert main(["collect", "--spool", str(spool), "--archive", str(folder)]) == 1
    told = capsys.readouterr().err
    assert f"{200 - gone} records, up to position 200" in told
    assert f"0 to {gone}" in told
    assert main(["collect", "--spool", str(spool), "--archive", str(folder)]) == 0


def test_an_archive_of_another_spool_and_one_that_is_written_already_are_refused(tmp_path: Path) -> None:
    filled(tmp_path / "long", 5)
    filled(tmp_path / "short", 1)
    archive(tmp_path / "long", tmp_path / "archive", nothing)
    with pytest.raises(LocalError, match="it is of another spool"):
        archive(tmp_path / "short", tmp_path / "archive", nothing)
    filled(tmp_path / "longer", 9)
    with pytest.raises(LocalError, match=r"and this is another one, .*; take a folder for each"):
        archive(tmp_path / "longer", tmp_path / "archive", nothing)
    with pytest.raises(LocalError, match="is no spool"):
        archive(tmp_path / "nowhere", tmp_path / "archive", nothing)

    def meanwhile(share: float, text: str) -> None:
        with pytest.raises(LocalError, match="somebody else writes into it"):
            archive(tmp_path / "long", tmp_path / "second", nothing)

    archive(tmp_path / "long", tmp_path / "second", meanwhile)
