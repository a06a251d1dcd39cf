"""What a publication costs, and how many more subscriptions a broker can hold."""

from typing import Any

import numpy as np
import pytest

from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.spark_analytics.capacity.frames import Columns
from mqloom.spark_analytics.capacity.service import ROOM_MAX, headroom_of, models_of


def points(work: list[float], service_s: list[float], *, is_by_deliveries: bool = False) -> Columns:
    count = len(work)
    return {
        "gateway": np.array(["A"] * count, dtype=object),
        "work": np.array(work),
        "service_s": np.array(service_s),
        "samples": np.array([100] * count),
        "is_by_deliveries": np.array([is_by_deliveries] * count),
        "squares": np.zeros(count),
        "products": np.zeros(count),
        "rest": np.zeros(count),
    }


def estimate(**more: float) -> BrokerEstimate:
    known: dict[str, Any] = {"input_rate": 100.0, "output_bytes_s": 1_000.0, "output_bytes_s_max": 10_000.0, **more}
    return BrokerEstimate(subscriptions=100, delay=DelayModel(0.00002, 0.001), **known)


def test_a_line_is_learnt_as_it_is() -> None:
    model = models_of(points([10, 50, 90, 200], [0.001 + 0.00002 * each for each in (10, 50, 90, 200)]))["A"]
    assert model.slope_s == pytest.approx(0.00002)
    assert model.base_s == pytest.approx(0.001)
    assert not model.is_proportional


def test_one_wild_bucket_does_not_bend_it() -> None:
    counts = [float(each) for each in range(0, 300, 20)]
    times = [0.001 + 0.00002 * each for each in counts]
    times[7] = 0.5
    assert models_of(points(counts, times))["A"].slope_s == pytest.approx(0.00002, rel=0.05)


def test_with_one_number_of_subscriptions_all_counts_as_theirs() -> None:
    model = models_of(points([100, 104], [0.002, 0.002]))["A"]
    assert model.is_proportional
    assert model.slope_s == pytest.approx(0.002 / 102)
    assert model.base_s == pytest.approx(0.0)


def test_few_deliveries_tell_what_one_costs_if_the_line_stands_out_of_its_noise() -> None:
    counts = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    sure = models_of(points(counts, [0.0001 + 0.00005 * each for each in counts], is_by_deliveries=True))["A"]
    assert (sure.is_proportional, sure.is_by_deliveries) == (False, True)
    assert sure.slope_s == pytest.approx(0.00005)
    unsure = models_of(points(counts, [0.0002, 0.0001, 0.0003, 0.0001, 0.0002, 0.0003], is_by_deliveries=True))["A"]
    assert unsure.is_proportional
    assert unsure.base_s == 0.0  # and not what rounding leaves over, which the page showed


def test_what_a_subscription_costs_beside_deliveries_is_the_slope_where_deliveries_are_the_same() -> None:
    known = points([10, 20, 30], [0.001, 0.002, 0.003], is_by_deliveries=True)
    known |= {"squares": np.full(3, 1e4), "products": np.full(3, 0.02), "rest": np.full(3, 5e-8)}
    model = models_of(known)["A"]
    assert model.matching_each_s == pytest.approx(2e-6)
    assert model.slope_s == pytest.approx(0.0001)
    noisy = known | {"rest": np.full(3, 1.0)}
    assert models_of(noisy)["A"].matching_each_s == 0.0


def test_a_line_that_falls_is_noise_and_counts_as_flat() -> None:
    model = models_of(points([10, 50, 90], [0.003, 0.002, 0.001]))["A"]
    assert model.slope_s == 0
    assert model.base_s == pytest.approx(0.002)


def test_a_line_that_begins_below_nothing_begins_at_nothing_and_keeps_its_mean() -> None:
    model = models_of(points([10, 50, 90], [0.0001, 0.002, 0.0039]))["A"]
    assert model.base_s == 0
    assert model.slope_s == pytest.approx(0.002 / 50)


def test_room_ends_where_a_resource_is_full_and_says_which() -> None:
    (room,) = headroom_of({"A": estimate()}, {"A": 100}, full=0.9001)
    # input: 100 a second of 0.001 + 0.00002 n; output: ten bytes a second for each of n. 0.9 is passed at n = 401.
    assert (room.room, room.resource) == (300, "input")
    (sending,) = headroom_of({"A": estimate(output_bytes_s=5_000.0)}, {"A": 100})
    assert (sending.room, sending.resource) == (80, "output")


def test_room_goes_by_deliveries_where_they_are_counted() -> None:
    counted = estimate(deliveries_s=10_000.0)
    # Each of 100 subscriptions has 1 delivery for each of 100 publications a second: 100 s^-1 * (0.001 + 0.00002 n).
    (room,) = headroom_of({"A": counted}, {"A": 100}, full=0.9001)
    assert (room.room, room.resource) == (300, "input")
    (half,) = headroom_of({"A": estimate(deliveries_s=5_000.0, output_bytes_s=0.0)}, {"A": 100}, full=0.9001)
    assert (half.room, half.resource) == (700, "input")


def test_subscriptions_of_other_gateways_take_no_output_and_do_not_make_those_of_clients_look_cheap() -> None:
    sending = estimate(output_bytes_s=5_000.0)
    (own,) = headroom_of({"A": sending}, {"A": 10})
    assert (own.subscriptions, own.room, own.resource) == (100, 8, "output")


def test_a_broker_whose_clients_have_none_has_room_for_such_as_others_have() -> None:
    empty, busy = estimate(output_bytes_s=0.0), estimate(output_bytes_s=5_000.0)
    rooms = headroom_of({"A": empty, "B": busy}, {"A": 0, "B": 50})
    assert [(each.gateway, each.room, each.resource) for each in rooms] == [("A", 90, "output"), ("B", 40, "output")]


def test_a_full_broker_has_no_room() -> None:
    (room,) = headroom_of({"A": estimate(input_rate=500.0)}, {"A": 100})
    assert room.room == 0


def test_an_idle_broker_has_no_end_in_sight() -> None:
    idle = BrokerEstimate(
        input_rate=0.0, subscriptions=0, delay=DelayModel(0.0, 0.001), output_bytes_s=0.0, output_bytes_s_max=1.0
    )
    (room,) = headroom_of({"A": idle}, {})
    assert room.room == ROOM_MAX
