"""What goes into the answers, and what does not: small federations in one session of Spark."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import GroupRecord, LoadRecord, Record
from mqloom.lab.planted_spool import write_spool
from mqloom.lab.planted_weeks import DAY_S, START_AT, Growth, Weeks, weeks
from mqloom.spark_analytics.capacity.analysis import Analysis, analyse
from mqloom.spark_analytics.capacity.findings import findings_of
from mqloom.spark_analytics.capacity.frames import columns
from mqloom.spark_analytics.capacity.questions import Questions
from mqloom.spark_analytics.capacity.views import CapacityViews
from mqloom.spark_analytics.report.figures import figures_of
from mqloom.spark_analytics.report.page import page_of
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.tables import tables

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly where there is much else to do

HUB, EAST, WEST = map(GatewayId, ("HUB", "EAST", "WEST"))


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return start("local[2]", SMALL)


def look(spark: SparkSession, folder: Path, records: dict[GatewayId, list[Record]]) -> Analysis:
    write_spool(folder, records)
    with tables(spark, spool=folder) as found:
        return analyse(found, Questions(), lambda share, text: None)


def test_a_broker_that_is_gone_is_named_and_is_in_no_answer_about_what_is_to_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    growth = (Growth(broker=WEST, resource="output", per_day=0.08),)
    records = weeks(Weeks(seed=7, days=9, brokers=(HUB, EAST, WEST), growth=growth))
    gone_at = START_AT + 7 * DAY_S
    records[WEST] = [each for each in records[WEST] if each.at <= gone_at]
    analysis = look(spark, tmp_path, records)
    assert analysis.silent == {"WEST": gone_at}
    assert analysis.brokers == ["EAST", "HUB", "WEST"]  # what was stays to be seen
    assert set(analysis.members) == set(analysis.estimates) == {"EAST", "HUB"}
    assert analysis.forecasts == []
    assert {each.gateway for each in analysis.headroom} == {"EAST", "HUB"}
    outlooks = [each for scenario in analysis.scenarios for each in scenario.outlooks]
    assert "WEST" not in {each.gateway for each in outlooks} | {each.gateway for each in analysis.sites}
    assert "WEST" not in {each.gateway for each in analysis.redundancy} | {each.gateway for each in analysis.passings}
    assert analysis.clusters is not None
    assert analysis.clusters.brokers == 2
    findings = findings_of(analysis)
    assert ("silent", "WEST") in [(each.kind, each.broker) for each in findings]
    assert not [each for each in findings if "WEST has most room" in each.action]
    assert "WEST tells nothing any more, since 2026-03-09 00:00 UTC" in page_of(analysis, findings)
    assert figures_of(analysis, findings)["silent"] == {"WEST": "2026-03-09T00:00:00+00:00"}


def test_one_record_of_1970_changes_nothing_but_that_its_clock_is_named(spark: SparkSession, tmp_path: Path) -> None:
    records = weeks(Weeks(seed=7, days=5, brokers=(HUB, EAST, WEST)))
    right = look(spark, tmp_path / "right", records)
    first = next(each for each in records[EAST] if isinstance(each, LoadRecord))
    records[EAST] = [structs.replace(first, at=60.0), *records[EAST]]
    wrong = look(spark, tmp_path / "wrong", records)
    assert (wrong.start_at, wrong.end_at, wrong.bucket_s) == (right.start_at, right.end_at, right.bucket_s)
    assert wrong.utilisation["windows"].tolist() == right.utilisation["windows"].tolist()
    assert [(each.kind, each.broker) for each in findings_of(wrong)] == [("clock", "EAST")]
    with tables(spark, spool=tmp_path / "wrong") as telemetry:
        views = CapacityViews(telemetry)
        views.ensure("FROM utilisation_over_time")
        assert columns(spark.sql("SELECT year(min(bucket_at)) AS year FROM utilisation_over_time"))["year"] == [2026]


def test_room_is_shared_among_the_clients_of_the_busy_hours_and_not_of_weeks_ago(
    spark: SparkSession, tmp_path: Path
) -> None:
    crowded_until, clients = START_AT + 2 * DAY_S, 150
    records: dict[GatewayId, list[Record]] = {
        gateway: [
            structs.replace(each, clients=2_000 if each.at < crowded_until else clients, memory_ratio=0.1)
            if isinstance(each, LoadRecord)
            else each
            for each in found
            if not isinstance(each, GroupRecord)
        ]
        for gateway, found in weeks(Weeks(seed=7, days=10, brokers=(HUB, EAST))).items()
    }
    analysis = look(spark, tmp_path, records)
    assert analysis.clusters is not None
    assert analysis.clusters.subscriptions == 2 * clients  # and not what brokers know of each other's
    for room in analysis.headroom:
        busy = analysis.estimates[room.gateway]
        # Each client takes its part of output, and of input by its deliveries: nobody else has either.
        shares = {"output": busy.output_ratio, "input": busy.input_ratio, "cpu": busy.cpu_ratio}
        least = min((analysis.full / share - 1) * clients for share in shares.values())
        assert room.room == pytest.approx(least, rel=0.35)


def test_of_half_a_year_a_day_is_still_looked_at_by_the_hour(spark: SparkSession, tmp_path: Path) -> None:
    found = weeks(Weeks(seed=7, days=180, brokers=(HUB, EAST)))[HUB]
    records = [each for each in found if isinstance(each, LoadRecord)]
    hours = np.array([each.at - each.window_s for each in records]) % DAY_S // 3_600
    analysis = look(spark, tmp_path, {HUB: [*records]})
    assert analysis.bucket_s == 7_200
    times = analysis.daily["bucket_at"]
    assert set(np.diff(times)) == {3_600.0}
    assert times.min() == pytest.approx(analysis.end_at - 100 * DAY_S)
    assert analysis.hot_hours["hour"].tolist() == list(range(24))
    output = np.array([each.output_ratio for each in records])
    truth = [output[hours == hour].mean() for hour in range(24)]
    shown = analysis.hot_hours["utilisation_p95"].astype(np.float64)
    assert np.corrcoef(truth, shown)[0, 1] > 0.99
    with tables(spark, spool=tmp_path) as telemetry:
        views = CapacityViews(telemetry)
        views.ensure("SELECT hour FROM hot_hours")
        assert columns(spark.sql("SELECT hour FROM hot_hours"))["hour"].tolist() == list(range(24))
