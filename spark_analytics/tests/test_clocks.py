"""What one wrong clock does to the extent of telemetry: nothing but that it is named."""

from pathlib import Path

import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from mqloom.core.ids import GatewayId
from mqloom.core.telemetry import VERSION, BatchHeader, LoadRecord, encode_batch, encode_record
from mqloom.spark_analytics.capacity.clocks import Extent, ends_of, extent_of
from mqloom.spark_analytics.capacity.frames import columns
from mqloom.spark_analytics.sessions import SMALL, start
from mqloom.spark_analytics.spool import SpoolWriter
from mqloom.spark_analytics.tables import tables

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly where there is much else to do

START_AT = 1_772_409_600.0
HOUR_S, DAY_S = 3_600.0, 86_400.0
LOAD = LoadRecord(0.0, HOUR_S / 12, 0.1, 0.2, 0.3, 0.1, 0.5, 50.0, 7.0, 8.0, 9)
DAYS = 5

Told = dict[str, list[tuple[float, float]]]
"""Of each gateway the records: when it told, and what its clock said."""


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return start("local[2]", SMALL)


def told(begin_s: float = 0.0, end_s: float = DAYS * DAY_S, ahead_s: float = 0.0) -> list[tuple[float, float]]:
    """Return a record each five minutes."""
    times = range(round(begin_s + LOAD.window_s), round(end_s) + 1, round(LOAD.window_s))
    return [(START_AT + each, START_AT + each + ahead_s) for each in times]


def look(spark: SparkSession, folder: Path, records: Told) -> Extent:
    """Return what is found in a spool in which records are in the order in which they were told."""
    writer = SpoolWriter(folder)
    numbers = dict.fromkeys(records, 0)
    for _, gateway, at in sorted((when, gateway, at) for gateway, found in records.items() for when, at in found):
        numbers[gateway] += 1
        header = BatchHeader(VERSION, GatewayId(gateway), 1, numbers[gateway], 1)
        writer.append(1, encode_batch(header, [encode_record(structs.replace(LOAD, at=at))]), gateway, 1, 1)
    writer.commit()
    writer.close()
    with tables(spark, spool=folder) as found:
        return extent_of(found["load"], columns(ends_of(found["load"])))


END_AT = START_AT + DAYS * DAY_S


def test_right_clocks_say_when_telemetry_begins_and_ends_and_who_is_silent(spark: SparkSession, tmp_path: Path) -> None:
    gone = told(end_s=DAYS * DAY_S - 3 * HOUR_S)
    assert look(spark, tmp_path, {"A": told(), "B": gone, "C": gone}) == Extent(
        START_AT + LOAD.window_s, END_AT, dict.fromkeys("BC", END_AT - 3 * HOUR_S)
    )


@pytest.mark.parametrize("ahead_s", [2 * HOUR_S, 30 * HOUR_S])
def test_a_clock_that_is_ahead_makes_nobody_silent_and_not_the_end(
    spark: SparkSession, tmp_path: Path, ahead_s: float
) -> None:
    found = look(spark, tmp_path, {"A": told(ahead_s=ahead_s), "B": told(), "C": told(end_s=DAY_S)})
    assert (found.end_at, found.silent, found.is_cut) == (END_AT, {"C": START_AT + DAY_S}, True)
    (wrong,) = found.wrong
    assert (wrong.gateway, wrong.is_past) == ("A", False)
    assert wrong.ahead_s == pytest.approx(ahead_s, abs=2 * LOAD.window_s)


def test_a_clock_that_is_behind_is_named_and_its_broker_is_not_silent(spark: SparkSession, tmp_path: Path) -> None:
    found = look(spark, tmp_path, {"A": told(), "B": told(), "C": told(ahead_s=-4 * HOUR_S)})
    assert (found.end_at, found.silent) == (END_AT, {})
    (wrong,) = found.wrong
    assert (wrong.gateway, wrong.is_past) == ("C", False)
    assert wrong.ahead_s == pytest.approx(-4 * HOUR_S, abs=2 * LOAD.window_s)


def test_one_record_of_another_year_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    stray = [(START_AT + DAY_S + 7, START_AT + 300 * DAY_S)]
    found = look(spark, tmp_path, {"A": told() + stray, "B": told()})
    assert (found.start_at, found.end_at, found.silent) == (START_AT + LOAD.window_s, END_AT, {})
    assert [(each.gateway, each.is_past, round(each.ahead_s / DAY_S)) for each in found.wrong] == [("A", True, 295)]


def test_a_clock_that_was_ahead_and_is_right_again_is_told_as_such(spark: SparkSession, tmp_path: Path) -> None:
    stray = [(START_AT + DAY_S + 7, END_AT + DAY_S)]
    found = look(spark, tmp_path, {"A": told() + stray, "B": told(), "C": told()})
    assert (found.end_at, found.silent, found.is_cut) == (END_AT, {}, True)
    assert [(each.gateway, each.is_past, round(each.ahead_s / DAY_S)) for each in found.wrong] == [("A", True, 1)]


def test_a_machine_that_began_in_1970_is_no_reason_to_look_at_half_a_century(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = look(spark, tmp_path, {"A": [(START_AT, 60.0), *told()]})
    assert (found.start_at, found.end_at) == (START_AT + LOAD.window_s, END_AT)
    assert [(each.gateway, each.is_past, each.ahead_s < 0) for each in found.wrong] == [("A", True, True)]


def test_a_federation_that_rested_for_a_month_has_right_clocks(spark: SparkSession, tmp_path: Path) -> None:
    both = told() + told(begin_s=40 * DAY_S, end_s=41 * DAY_S)
    found = look(spark, tmp_path, {"A": both, "B": both})
    assert found == Extent(START_AT + LOAD.window_s, START_AT + 41 * DAY_S)
