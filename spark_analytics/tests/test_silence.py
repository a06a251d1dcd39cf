"""Who counts as silent."""

import numpy as np

from mqloom.spark_analytics.capacity.frames import Columns
from mqloom.spark_analytics.capacity.silence import late_of, without

END_AT = 1_772_409_600.0


def table(*missed: float, window_s: float = 60.0) -> Columns:
    return {
        "gateway": np.array([f"B{place}" for place in range(len(missed))], object),
        "last_at": END_AT - np.array(missed),
        "window_s": np.full(len(missed), window_s),
    }


def test_silent_is_who_told_nothing_for_an_hour_while_others_did() -> None:
    assert late_of(table(0.0, 3_000.0, 3_700.0)) == {"B2": END_AT - 3_700.0}


def test_nobody_is_silent_for_fewer_than_ten_windows() -> None:
    assert late_of(table(0.0, 5_000.0, 6_100.0, window_s=600.0)) == {"B2": END_AT - 6_100.0}


def test_a_federation_that_ended_long_ago_has_no_silent_brokers() -> None:
    assert late_of(table(1e7, 1e7)) == {}


def test_the_rows_of_all_others_are_kept() -> None:
    kept = without(table(0.0, 1.0, 2.0), {"B1"})
    assert kept["gateway"].tolist() == ["B0", "B2"]
    assert kept["last_at"].tolist() == [END_AT, END_AT - 2.0]
