"""Analyses against a known truth: what the lab plants is found, and where nothing is planted nothing is."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import Record
from mqloom.lab.planted_padres import shared_line, uneven
from mqloom.lab.planted_spool import write_spool
from mqloom.lab.planted_weeks import Growth, Resource, Weeks, full_at, weeks
from mqloom.spark_analytics.capacity.analysis import Analysis, analyse
from mqloom.spark_analytics.capacity.findings import CapacityFinding, findings_of
from mqloom.spark_analytics.capacity.questions import Questions
from mqloom.spark_analytics.capacity.thresholds import FULL
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.tables import tables

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly where there is much else to do

EAST, B3 = GatewayId("EAST"), GatewayId("B3")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return start("local[2]", SMALL)


def look(
    spark: SparkSession, folder: Path, records: dict[GatewayId, list[Record]]
) -> tuple[Analysis, list[CapacityFinding]]:
    write_spool(folder, records)
    with tables(spark, spool=folder) as found:
        analysis = analyse(found, Questions(), lambda share, text: None)
    return analysis, findings_of(analysis)


def growing(seed: int, resource: Resource, per_day: float, days: int) -> Weeks:
    return Weeks(seed=seed, days=days, growth=(Growth(broker=EAST, resource=resource, per_day=per_day),))


@pytest.mark.parametrize(
    ("seed", "resource", "per_day", "days"),
    [
        (1, "output", 0.03, 21),
        (2, "input", 0.06, 21),
        # Full in 225 days: of three weeks that is beyond the horizon, and subscriptions come in waves of 19 days.
        (3, "memory", 0.05, 42),
        # After three weeks it is one of the few that are missed: noise happens to grow in its busiest hour.
        pytest.param(4, "output", 0.02, 28, marks=pytest.mark.full),
    ],
)
def test_planted_growth_is_found_at_the_right_broker_with_its_date(
    seed: int, resource: Resource, per_day: float, days: int, spark: SparkSession, tmp_path: Path
) -> None:
    plan = growing(seed, resource, per_day, days)
    analysis, findings = look(spark, tmp_path, weeks(plan))
    truth = full_at(plan, plan.growth[0], FULL)
    assert plan.end_at < truth
    forecast = next(each for each in analysis.forecasts if each.resource == resource)
    assert forecast.gateway == EAST
    assert forecast.trend.full_from is not None
    assert forecast.trend.full_to is not None
    assert forecast.trend.full_from <= truth <= forecast.trend.full_to
    assert findings[0].kind == "growth"
    # What comes in takes the processor, so both may be told; but of nobody else.
    assert {each.broker for each in findings} == {"EAST"}


def test_planted_imbalance_is_found_at_the_right_broker(spark: SparkSession, tmp_path: Path) -> None:
    _, findings = look(spark, tmp_path, uneven(1, B3))
    (found,) = (each for each in findings if each.kind == "imbalance")
    assert found.broker == "B3"
    assert {each.kind for each in findings} <= {"imbalance", "failure"}


def test_a_planted_failing_prediction_is_found_at_the_right_broker(spark: SparkSession, tmp_path: Path) -> None:
    analysis, findings = look(spark, tmp_path, shared_line(2, B3))
    (found,) = (each for each in findings if each.kind == "prediction")
    assert found.broker == "B3"
    assert len({each.gateway for each in analysis.balancing.predictions}) == 4  # those of the others come true
    assert "more came" in found.evidence
    assert "Raise stabilise_s." in found.action


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12))])
def test_in_a_quiet_federation_nothing_is_found(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    _, findings = look(spark, tmp_path, weeks(Weeks(seed=seed)))
    assert findings == []
