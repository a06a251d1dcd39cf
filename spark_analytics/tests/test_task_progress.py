"""How far Spark is: told while something waits for it, from Spark's own counts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import VERSION, BatchHeader, ServiceRecord, encode_batch, encode_record
from mqloom.spark_analytics import task_progress
from mqloom.spark_analytics.place import Place
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.spool import SpoolWriter
from mqloom.spark_analytics.staging import stage
from mqloom.spark_analytics.task_progress import watched_tasks

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly where there is much else to do


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return start("local[2]", SMALL)


def test_while_records_are_decoded_it_is_told_how_many_tasks_are_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_progress, "LOOK_S", 0.02)
    writer = SpoolWriter(tmp_path / "spool")
    record = encode_record(ServiceRecord(1.5, 9, 0.1, 1))
    for number in range(40):
        header = BatchHeader(VERSION, GatewayId("north"), 1, 500 * number + 1, 500, 500 * number)
        writer.append(500, encode_batch(header, [record] * 500))
    writer.commit()
    writer.close()
    told: list[tuple[int, int]] = []
    with watched_tasks(spark, lambda done, tasks: told.append((done, tasks))):
        stage(spark, Place(spool=str(tmp_path / "spool")), tmp_path / "scratch", range_records=500).collect()
    assert {tasks for _, tasks in told} == {40}
    assert told == sorted(told)
    assert len({done for done, _ in told}) > 3


def test_what_goes_wrong_in_looking_harms_nothing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_progress, "LOOK_S", 0.01)

    def fail(_done: int, _tasks: int) -> None:
        raise OSError

    with watched_tasks(spark, fail):
        assert spark.range(0, 100, 1, 20).count() == 100
