"""How long buckets of time are: all that come out can be collected, however many brokers there are."""

import numpy as np
import pytest

from mqloom.spark_analytics.capacity.frames import ROWS_MAX, split
from mqloom.spark_analytics.capacity.utilisation import (
    BUCKETS_MAX,
    DAILY_S,
    DAY_S,
    HOUR_S,
    bucket_s_for,
    daily_bucket_s_for,
    daily_s_for,
)

COUNTS = (1, 800, 832, 833, 834, 2_000, 10_000)


@pytest.mark.parametrize("brokers", COUNTS)
@pytest.mark.parametrize("days", [1, 20, 90, 100, 365])
def test_the_buckets_of_however_many_brokers_can_be_collected(brokers: int, days: int) -> None:
    bucket_s = bucket_s_for(days * DAY_S, 10.0, brokers)
    assert brokers * (days * DAY_S // bucket_s + 2) <= ROWS_MAX
    daily_s = min(days * DAY_S, daily_s_for(brokers))
    daily_bucket_s = daily_bucket_s_for(days * DAY_S, 10.0, brokers)
    assert daily_bucket_s <= HOUR_S
    assert brokers * (daily_s // daily_bucket_s + 2) <= ROWS_MAX


def test_few_brokers_have_as_many_buckets_as_one() -> None:
    for days in (1, 20, 90, 365):
        assert bucket_s_for(days * DAY_S, 10.0, 800) == bucket_s_for(days * DAY_S, 10.0, 1)
    assert daily_s_for(800) == DAILY_S == BUCKETS_MAX * HOUR_S


def test_a_week_is_looked_at_by_the_hour_of_as_many_brokers_as_a_collector_knows() -> None:
    assert daily_s_for(10_000) >= 7 * DAY_S


def test_a_table_is_split_by_the_values_of_a_column_in_their_order() -> None:
    table = {"gateway": np.array(["B", "A", "B"], object), "at": np.array([1.0, 2.0, 3.0])}
    parts = split(table, "gateway")
    assert list(parts) == ["A", "B"]
    assert parts["B"]["at"].tolist() == [1.0, 3.0]
    assert split({name: values[:0] for name, values in table.items()}, "gateway") == {}
