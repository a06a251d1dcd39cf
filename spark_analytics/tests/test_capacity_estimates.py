"""What brokers are like at their busy hours."""

import numpy as np

from mqloom.spark_analytics.capacity.estimates import busy_clients
from mqloom.spark_analytics.capacity.frames import Columns

DAYS = 60


def clients_by_day(*counts: float) -> Columns:
    times = np.arange(len(counts)) * 86_400.0
    return {"gateway": np.array(["EAST"] * len(counts), object), "bucket_at": times, "clients": np.array(counts)}


def test_clients_are_those_of_the_last_week() -> None:
    assert busy_clients(clients_by_day(*[1_000.0] * (DAYS - 8), *[100.0] * 8)) == {"EAST": 100}


def test_one_crowded_hour_is_no_busy_level_of_clients() -> None:
    hours = np.arange(7 * 24)
    table: Columns = {
        "gateway": np.array(["EAST"] * len(hours), object),
        "bucket_at": hours * 3_600.0,
        "clients": np.where(hours == 50, 1_000.0, 100.0),
    }
    assert busy_clients(table) == {"EAST": 100}


def test_a_broker_with_a_client_now_and_then_has_one() -> None:
    assert busy_clients(clients_by_day(0.0, 0.0, 0.0, 1.0)) == {"EAST": 1}
