"""The source and the tables with a real Spark: one session for all of it, for a start takes ten seconds."""

import json
import os
import queue
import random
import shutil
import threading
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from mqloom.core.command import main
from mqloom.core.errors import LocalError
from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import (
    KINDS,
    BatchHeader,
    BrokerRecord,
    LinkRecord,
    LoadRecord,
    Record,
    encode_batch,
    encode_record,
)
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.planted_spool import write_spool
from mqloom.lab.ports import free_port
from mqloom.spark_analytics.archive import archive
from mqloom.spark_analytics.collecting import CollectPlan, CollectServer
from mqloom.spark_analytics.java import JavaError, find_java
from mqloom.spark_analytics.ranges import RangeError
from mqloom.spark_analytics.segments import Gap, SpoolError
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.source import MQLoomSource
from mqloom.spark_analytics.spark_options import session_of
from mqloom.spark_analytics.spool import SpoolReader, SpoolWriter, segments_of
from mqloom.spark_analytics.tables import tables

pytestmark = pytest.mark.timeout(180)

Row = tuple[int, str, int, int, str]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    try:
        find_java()
    except JavaError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    return start("local[2]", SMALL)


def record(number: int) -> Record:
    at = 1_700_000_000.0 + number
    if number % 3 == 0:
        return LoadRecord(at, 10.0, 0.1, 0.2, 0.3, 0.4, 0.5, 6.0, 7.0, 8.0, number)
    if number % 3 == 1:
        return LinkRecord(at, 10.0, GatewayId("peer"), "primary", True, number, 2, 3)
    return BrokerRecord(at, "messages/received", float(number))


def fill(folder: Path, batches: int, first: int = 1, seed: int = 1, segment_bytes: int = 4_000) -> list[Row]:
    """Add batches of different sizes; return what they have: position, gateway, epoch, number, kind."""
    randomness = random.Random(seed)
    writer, rows = SpoolWriter(folder, segment_bytes), []
    for _ in range(batches):
        count = randomness.randint(1, 40)
        records = [record(number) for number in range(first, first + count)]
        header = BatchHeader(1, GatewayId("north"), 5, first, count)
        end = writer.marker.end
        writer.append(count, encode_batch(header, [encode_record(each) for each in records]), "north", 5, first)
        writer.commit()
        rows += [
            (end + index, "north", 5, first + index, str(type(each).__struct_config__.tag))
            for index, each in enumerate(records)
        ]
        first += count
    writer.close()
    return rows


def of_all(frame: DataFrame) -> list[Row]:
    columns = frame.select("position", "gateway", "epoch", "number", "kind").orderBy("position").collect()
    return [tuple(row) for row in columns]


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    plan = CollectPlan(spool=folder, listen="tcp://127.0.0.1:*", serve="tcp://127.0.0.1:*")
    server = CollectServer(plan, lambda _: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.addresses[1]
    finally:
        server.stop()
        thread.join(timeout=20)
        server.close()


def test_a_query_has_what_the_spool_has_by_the_folder_and_by_the_collector(spark: SparkSession, tmp_path: Path) -> None:
    rows = fill(tmp_path, 30)
    source = spark.read.format("mqloom").option("partition_records", 100)
    assert of_all(source.option("spool", str(tmp_path)).load()) == rows
    with collector(tmp_path) as endpoint:
        assert of_all(spark.read.format("mqloom").option("endpoint", endpoint).load()) == rows


def test_a_kind_has_its_own_fields_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = fill(tmp_path, 10)
    for kind in ("load", "link", "broker", "migration"):
        frame = spark.read.format("mqloom").option("spool", str(tmp_path)).option("kind", kind).load()
        wanted = {position: record(number) for position, _, _, number, each in rows if each == kind}
        found = {row["position"]: row.asDict() for row in frame.collect()}
        assert set(found) == set(wanted)
        for position, each in wanted.items():
            fields = msgspec.structs.asdict(each)
            assert found[position]["at"].timestamp() == fields.pop("at")
            assert {name: found[position][name] for name in fields} == fields


class Sink:
    """What the batches of a stream have brought, by their numbers: a batch that comes again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.missing: list[Any] = []

    def take(self, frame: DataFrame, number: int) -> None:
        frame.persist()
        self.batches[number] = of_all(frame.where("kind <> 'missing'"))
        self.missing += frame.where("kind = 'missing'").select("position", "missing").collect()
        frame.unpersist()

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def stream(spark: SparkSession, folder: Path, sink: Sink, **options: object) -> None:
    """Run a query over what there is, from where the last one has ended."""
    reader = spark.readStream.format("mqloom").option("spool", str(folder)).options(**options)  # type: ignore[arg-type]
    writer = reader.load().writeStream.foreachBatch(sink.take).option("checkpointLocation", f"{folder}-checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def test_a_stream_takes_so_many_at_once_and_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    folder, sink = tmp_path / "spool", Sink()
    rows = fill(folder, 20)
    stream(spark, folder, sink, max_records=100)
    assert sink.rows == rows
    assert len(sink.batches) >= len(rows) / 100
    assert max(map(len, sink.batches.values())) <= 100
    more = fill(folder, 5, first=rows[-1][3] + 1)
    before = len(sink.batches)
    stream(spark, folder, sink, max_records=1_000)
    assert sink.rows == rows + more
    assert len(sink.batches) == before + 1


def test_a_stream_that_is_behind_what_is_kept_fails_or_skips_and_counts(spark: SparkSession, tmp_path: Path) -> None:
    folder, sink = tmp_path / "spool", Sink()
    rows = fill(folder, 20)
    stream(spark, folder, sink)
    more = fill(folder, 40, first=rows[-1][3] + 1)
    begin = SpoolWriter(folder, 4_000).drop_before(more[len(more) // 2][0])
    assert begin > more[0][0]
    with pytest.raises(PySparkException, match="are gone: the collector keeps less than this query is behind"):
        stream(spark, folder, sink)
    assert sink.rows == rows
    stream(spark, folder, sink, on_missing="skip")
    assert sink.rows == rows + [row for row in more if row[0] >= begin]
    [missing] = sink.missing
    assert (missing["position"], missing["missing"]["end"], missing["missing"]["is_gone"]) == (more[0][0], begin, True)


def damage(folder: Path) -> tuple[Path, list[Gap]]:
    """Damage the second segment; return it and what is lost."""
    path = segments_of(folder)[1][1]
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    gaps = [part for part in SpoolReader(folder).parts(*SpoolReader(folder).bounds()) if isinstance(part, Gap)]
    return path, gaps


def test_a_stream_does_not_go_on_in_another_spool_that_has_taken_the_place_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, sink = tmp_path / "spool", Sink()
    rows = fill(folder, 10)
    stream(spark, folder, sink)
    shutil.rmtree(folder)
    other = fill(folder, 30)
    assert len(other) > len(rows)
    with pytest.raises(PySparkException, match=r"is another spool .* begin with a new checkpoint folder, or restore"):
        stream(spark, folder, sink)
    assert sink.rows == rows


def test_a_batch_that_was_planned_in_another_spool_is_not_read(tmp_path: Path) -> None:
    rows = fill(tmp_path, 3)
    reader = MQLoomSource({"spool": str(tmp_path)}).streamReader(StructType())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    [piece] = reader.partitions(start, end)
    assert sum(batch.num_rows for batch in reader.read(piece) if isinstance(batch, pa.RecordBatch)) == len(rows)
    (tmp_path / "end").unlink()
    for _, path in segments_of(tmp_path):
        path.unlink()
    assert fill(tmp_path, 3) == rows
    with pytest.raises(SpoolError, match="is another spool"):
        reader.partitions(start, end)
    with pytest.raises(SpoolError, match="is another spool"):
        list(reader.read(piece))


def test_a_stream_of_an_earlier_version_goes_on_and_knows_its_spool_from_then_on(tmp_path: Path) -> None:
    rows = fill(tmp_path, 3)
    reader = MQLoomSource({"spool": str(tmp_path)}).streamReader(StructType())
    known = {"position": 0, "skipped": 0}
    spool = SpoolReader(tmp_path).identity()
    assert reader.latestOffset(known, ReadAllAvailable()) == {"position": len(rows), "skipped": 0, "spool": spool}
    marker = json.loads((tmp_path / "end").read_bytes())
    (tmp_path / "end").write_text(json.dumps(marker | {"id": ""}))
    assert reader.latestOffset(known, ReadAllAvailable()) == {"position": len(rows), "skipped": 0}
    assert reader.initialOffset() == known
    assert reader.latestOffset(known | {"spool": spool}, ReadAllAvailable()) == {"position": len(rows), "skipped": 0}


def test_a_stream_does_not_go_on_in_another_spool_that_is_behind_it(tmp_path: Path) -> None:
    rows = fill(tmp_path, 3)
    reader = MQLoomSource({"spool": str(tmp_path)}).streamReader(StructType())
    known = {"position": len(rows), "skipped": 0}
    assert reader.latestOffset(known, ReadAllAvailable()) == known
    with pytest.raises(
        SpoolError, match=f"ends at position {len(rows)}, and this query has read up to {len(rows) + 1}"
    ):
        reader.latestOffset({"position": len(rows) + 1, "skipped": 0}, ReadAllAvailable())


def test_damage_is_an_error_that_names_the_file_or_is_skipped_and_told(spark: SparkSession, tmp_path: Path) -> None:
    rows = fill(tmp_path, 30)
    path, [gap] = damage(tmp_path)
    source = spark.read.format("mqloom").option("spool", str(tmp_path))
    with pytest.raises(
        PySparkException, match=rf"{path.name}: the frame at byte 10 is damaged \(positions {gap.begin} to"
    ):
        source.load().count()
    found = source.option("on_broken", "skip").load()
    kept = [row for row in rows if not gap.begin <= row[0] < gap.end]
    assert of_all(found.where("kind <> 'missing'")) == kept
    [row] = found.where("kind = 'missing'").collect()
    assert (row["position"], row["missing"]["end"]) == (gap.begin, gap.end)


def test_tables_have_each_record_once_and_tell_what_could_not_be_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    rows = fill(folder, 30)
    path, [gap] = damage(folder)
    with tables(spark, spool=folder, scratch=tmp_path) as found:
        for kind in KINDS:
            wanted = [row[0] for row in rows if row[4] == kind and not gap.begin <= row[0] < gap.end]
            assert [row[0] for row in found[kind].select("position").orderBy("position").collect()] == wanted
            assert spark.sql(f"SELECT count(*) FROM telemetry_{kind}").collect()[0][0] == len(wanted)
        [finding] = found.findings
        assert (finding.begin, finding.end) == (gap.begin, gap.end)
        assert finding.problem.startswith(f"{path}: ")
        assert [each.name for each in tmp_path.iterdir()] != ["spool"]
    assert [each.name for each in tmp_path.iterdir()] == ["spool"]


def test_a_folder_that_is_no_archive_is_an_error_and_not_an_empty_federation(
    spark: SparkSession, tmp_path: Path
) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LocalError, match="is no archive"):
            tables(spark, parquet=folder)


def test_an_archive_of_an_older_version_has_defaults_for_later_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    rows = fill(folder, 5)
    with tables(spark, spool=folder, scratch=tmp_path) as found:
        [staged] = (path for path in tmp_path.glob("mqloom-telemetry-*/link/*.parquet"))
        whole = pq.read_table(staged)
        assert found["link"].count() == whole.num_rows
    older = tmp_path / "archive" / "link" / "day=2023-11-14" / "gateway=north"
    older.mkdir(parents=True)
    pq.write_table(whole.drop_columns(["distance", "gateway"]), older / "part.parquet")
    with tables(spark, parquet=tmp_path / "archive") as found:
        assert {tuple(row) for row in found["link"].select("gateway", "distance").collect()} == {("north", 1)}
        assert found["link"].count() == len([row for row in rows if row[4] == "link"])
        assert found["load"].count() == 0


def test_gateways_of_an_archive_have_the_names_that_they_have(spark: SparkSession, tmp_path: Path) -> None:
    names = ["north", "k\u00f6ln", "m\u00fcnchen/s\u00fcd", "\u6771\u4eac", "50%C3%B6", "a=b.c"]
    write_spool(tmp_path / "spool", {GatewayId(name): [record(0), record(1)] for name in names})
    archive(tmp_path / "spool", tmp_path / "archive", lambda share, text: None)
    with tables(spark, parquet=tmp_path / "archive") as found:
        assert sorted(row["gateway"] for row in found["load"].collect()) == sorted(names)
        assert found["link"].where(sql.col("gateway") == "k\u00f6ln").count() == 1
    unescaped = tmp_path / "other" / "load" / "day=2023-11-14" / "gateway=k\u00f6ln"  # as Hive writes it
    unescaped.mkdir(parents=True)
    [part] = (tmp_path / "archive" / "load").glob("*/gateway=north/*.parquet")
    shutil.copy(part, unescaped)
    with tables(spark, parquet=tmp_path / "other") as found:
        assert [row["gateway"] for row in found["load"].collect()] == ["k\u00f6ln"]


def test_the_command_answers_sql(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = fill(tmp_path, 5)
    query = "SELECT gateway, count(*) AS records FROM telemetry_load GROUP BY gateway"
    place = ["--spool", str(tmp_path), "--master", "local[2]", "--format", "csv"]
    assert main(["spark", "sql", query, *place]) == 0
    count = sum(row[4] == "load" for row in rows)
    assert capfd.readouterr().out.splitlines() == ["gateway,records", f"north,{count}"]
    assert main(["spark", "sql", "SELECT * FROM nothing", *place]) == 1
    told = capfd.readouterr().err
    assert "nothing" in told
    assert "stacktrace" not in told
    assert main(["spark", "sql", query, *place, "--scratch", str(tmp_path / "nowhere")]) == 1
    assert f"{tmp_path / 'nowhere'}: No such file or directory: scratch must be a folder" in capfd.readouterr().err
    assert not spark.sparkContext._jsc.sc().isStopped()


def test_what_fails_on_an_executor_is_told_in_a_line(spark: SparkSession) -> None:
    def fails(_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise RangeError("no answer from tcp://127.0.0.1:1: is it there?")

    arguments = Namespace(master="local[2]", settings=[])
    with pytest.raises(LocalError) as told, session_of(arguments) as session:
        session.range(1).mapInArrow(fails, "id long").collect()
    assert str(told.value) == "no answer from tcp://127.0.0.1:1: is it there?"
    assert not spark.sparkContext._jsc.sc().isStopped()


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
def test_the_stream_command_publishes_each_alert_once_from_run_to_run(spark: SparkSession, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    came: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    ready = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: came.put(msgspec.json.decode(message.payload))
    client.on_subscribe = lambda *_: ready.set()
    folder = tmp_path / "spool"
    command = ["spark", "stream", "--spool", str(folder), "--checkpoint", str(tmp_path / "checkpoint"), "--once"]
    command += ["--port", str(port), "--master", "local[2]"]
    with mosquitto_process(tmp_path / "mosquitto.conf", port):
        client.connect("127.0.0.1", port)
        client.loop_start()
        client.subscribe("mqloom/v1/alerts", 1)
        assert ready.wait(10)
        overload(folder, 1, 5, used=1.2)
        assert main(command) == 0
        assert main(command) == 0
        overload(folder, 6, 3, used=0.1)
        assert main(command) == 0
        found = [came.get(timeout=10) for _ in range(2)]
        client.disconnect()
        client.loop_stop()
    assert [(alert["id"], alert["is_over"]) for alert in found] == [
        ("overload/north/output/2", False),
        ("overload/north/output/5", True),
    ]
    assert came.empty()
    assert not spark.sparkContext._jsc.sc().isStopped()


def overload(folder: Path, first: int, count: int, used: float) -> None:
    writer = SpoolWriter(folder)
    records = [LoadRecord(1.7e9, 10.0, 0.1, 0.2, used, 0.4, 0.5, 6.0, 7.0, 8.0, 9) for _ in range(count)]
    header = BatchHeader(1, GatewayId("north"), 5, first, count)
    writer.append(count, encode_batch(header, [encode_record(each) for each in records]), "north", 5, first + count - 1)
    writer.commit()
    writer.close()
