"""The estimators are right where the truth is known: on lines, and by hand."""

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqloom.core.estimators import (
    AVERAGED_MAX,
    BUCKETS_MAX,
    BrokerEstimate,
    DelayBuckets,
    DelayModel,
    by_shares,
    estimate_of,
    informed,
)
from mqloom.core.load import METRICS, Load

LOAD = Load(
    input_ratio=0.5,
    delay_s=0.01,
    output_ratio=0.4,
    input_rate=50.0,
    output_bytes_s=900.0,
    output_bytes_s_max=2_000.0,
    subscriptions=100,
    cpu_ratio=0.6,
    memory_ratio=0.3,
)
ESTIMATE = BrokerEstimate(
    input_rate=50.0, subscriptions=100, delay=DelayModel(1e-4, 0.0), output_bytes_s=800.0, output_bytes_s_max=2_000.0
)


def learnt(*observed: tuple[int, float]) -> DelayModel:
    buckets = DelayBuckets()
    for subscriptions, delay_s in observed:
        buckets.observe(subscriptions, delay_s)
    model = buckets.model()
    assert model is not None
    return model


# ---- an estimate --------------------------------------------------------------------------------------------------


def test_an_estimate_starts_at_what_was_measured() -> None:
    estimate = estimate_of(LOAD, DelayModel(5e-5, 7.0))
    assert [estimate.of(metric) for metric in METRICS] == pytest.approx([LOAD.of(metric) for metric in METRICS])
    assert estimate.cpu_ratio == pytest.approx(LOAD.cpu_ratio)
    assert estimate.memory_ratio == pytest.approx(LOAD.memory_ratio)
    assert estimate.utilisation == pytest.approx(LOAD.utilisation)


def test_the_slope_is_the_model_s_wherever_the_line_was() -> None:
    estimate = estimate_of(LOAD, DelayModel(5e-5, 7.0)).after(subscriptions=-40)
    assert estimate.delay_s == pytest.approx(0.01 - 40 * 5e-5)


def test_memory_is_nobody_s_unless_it_is_known_what_a_subscription_takes() -> None:
    assert estimate_of(LOAD, DelayModel(0.0, 0.0)).after(subscriptions=900).memory_ratio == 0.3
    known = estimate_of(LOAD, DelayModel(0.0, 0.0), memory_each=0.001)
    assert known.memory_ratio == pytest.approx(0.3)
    assert known.after(subscriptions=100).memory_ratio == pytest.approx(0.4)


def test_an_empty_broker_keeps_the_memory_that_it_uses() -> None:
    empty = msgspec.structs.replace(LOAD, subscriptions=0)
    assert estimate_of(empty, DelayModel(0.0, 0.01)).memory_ratio == 0.3


def test_what_was_queued_counts_as_sent() -> None:
    full = msgspec.structs.replace(LOAD, output_ratio=1.5)
    assert estimate_of(full, DelayModel(0.0, 0.01)).output_bytes_s == 3_000.0


def test_an_output_that_sends_nothing_can_still_be_reckoned_with() -> None:
    stuck = msgspec.structs.replace(LOAD, output_ratio=float("inf"))
    estimate = estimate_of(stuck, DelayModel(0.0, 0.01))
    assert 1 < estimate.after(bytes_s=-100.0).output_ratio < estimate.output_ratio < float("inf")


def test_nothing_falls_below_nothing() -> None:
    estimate = ESTIMATE.after(rate=-51.0, subscriptions=-101, bytes_s=-801.0)
    assert (estimate.input_rate, estimate.subscriptions, estimate.output_bytes_s) == (0.0, 0, 0.0)
    assert DelayModel(1e-3, -1.0).at(10) == 0.0


def test_who_cannot_send_is_not_divided_by() -> None:
    assert replace(ESTIMATE, output_bytes_s_max=0.0).output_ratio == 0.0


# ---- a broker that cannot know yet --------------------------------------------------------------------------------


def test_an_empty_broker_is_taken_to_be_like_ours_and_as_much_slower_as_it_is() -> None:
    local = replace(ESTIMATE, delay=DelayModel(1e-4, 0.002))
    empty = replace(ESTIMATE, subscriptions=0, delay=DelayModel(0.0, 0.006))
    assert informed(empty, local).delay == pytest.approx(DelayModel(3e-4, 0.006))


def test_without_a_cost_of_our_own_for_none_the_slope_is_ours() -> None:
    empty = replace(ESTIMATE, subscriptions=0, delay=DelayModel(0.0, 0.006))
    assert informed(empty, ESTIMATE).delay == DelayModel(1e-4, 0.006)


@pytest.mark.parametrize(("slope_s", "subscriptions"), [(0.0, 1), (1e-9, 0)])
def test_a_broker_that_knows_is_believed(slope_s: float, subscriptions: int) -> None:
    remote = replace(ESTIMATE, subscriptions=subscriptions, delay=DelayModel(slope_s, 0.006))
    assert informed(remote, ESTIMATE) is remote


def test_a_broker_that_never_matched_anything_counts_as_fast_as_ours() -> None:
    for subscriptions in (0, 1):  # what a neighbour wants counts too
        idle = replace(ESTIMATE, subscriptions=subscriptions, input_rate=0.0, delay=DelayModel(0.0, 0.0))
        assert informed(idle, ESTIMATE).delay == ESTIMATE.delay


# ---- the line in buckets ------------------------------------------------------------------------------------------


@given(
    slope_s=st.floats(1e-7, 1e-3),
    base_s=st.floats(0.0, 0.05),
    counts=st.lists(st.integers(0, 5_000), min_size=2, max_size=60),
)
def test_a_linear_truth_is_learnt_exactly(slope_s: float, base_s: float, counts: list[int]) -> None:
    truth = DelayModel(slope_s, base_s)
    buckets = DelayBuckets()
    counted = [count for count in counts if buckets.observe(count, truth.at(count))]
    tens = {(count + 5) // 10 for count in counted}
    assume(len(tens) <= BUCKETS_MAX and any(abs(ten - (counted[-1] + 5) // 10) > 1 for ten in tens))
    model = buckets.model()
    assert model is not None
    assert model.slope_s == pytest.approx(slope_s, rel=1e-6)
    assert model.at(2_500) == pytest.approx(truth.at(2_500), rel=1e-6)


@given(
    slope_s=st.floats(1e-6, 1e-3),
    base_s=st.floats(0.0, 0.05),
    most=st.floats(1.0, 10_000.0),
    shares=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=60),
)
def test_deliveries_are_rounded_by_shares_and_a_linear_truth_is_learnt_exactly(
    slope_s: float, base_s: float, most: float, shares: list[float]
) -> None:
    truth = DelayModel(slope_s, base_s)
    buckets = DelayBuckets(by_shares)
    counted = [share * most for share in shares if buckets.observe(share * most, truth.at(share * most))]
    places = {math.floor(by_shares(count) + 0.5) for count in counted}
    assume(len(places) <= BUCKETS_MAX)
    assume(any(abs(place - math.floor(by_shares(counted[-1]) + 0.5)) > 1 for place in places))
    assert buckets.is_slope_known
    model = buckets.model()
    assert model is not None
    assert model.slope_s == pytest.approx(slope_s, rel=1e-6)


def test_deliveries_that_differ_by_less_than_a_share_are_one_amount_of_work() -> None:
    buckets = DelayBuckets(by_shares)
    for work in (500.0, 540.0, 590.0):  # between tens they would be nine apart
        buckets.observe(work, 0.01)
    assert not buckets.is_slope_known


def test_nothing_is_known_before_anything_was_observed() -> None:
    assert DelayBuckets().model() is None


def test_one_bucket_is_proportional() -> None:
    assert learnt((40, 0.004)) == pytest.approx(DelayModel(1e-4, 0.0))


def test_without_subscriptions_it_is_flat() -> None:
    assert learnt((0, 0.004)) == DelayModel(0.0, 0.004)


def test_the_slope_is_the_mean_of_those_from_the_last_updated_bucket() -> None:
    model = learnt((20, 0.001), (40, 0.004), (30, 0.002))
    assert model.slope_s == pytest.approx(0.00015)
    bent = learnt((20, 0.001), (30, 0.002), (60, 0.0025))  # slopes 0.0015/40 and 0.0005/30
    assert bent.slope_s == pytest.approx((0.0015 / 40 + 0.0005 / 30) / 2)
    assert bent.at(60) == pytest.approx(0.0025)


def test_counts_from_five_to_fourteen_are_one_bucket() -> None:
    model = learnt((5, 0.001), (14, 0.003), (110, 0.0035), (9, 0.002))
    assert model.at(28 / 3) == pytest.approx(0.002)  # a mean of counts
    assert model.slope_s == pytest.approx((0.0035 - 0.002) / (110 - 28 / 3))


def test_neighbouring_buckets_that_are_almost_one_have_no_slope_between_them() -> None:
    assert learnt((14, 0.0010), (15, 0.0014)).slope_s == pytest.approx(0.0014 / 15)


def test_a_line_that_falls_counts_as_flat() -> None:
    assert learnt((100, 0.003), (200, 0.002)) == DelayModel(0.0, 0.002)


def test_the_lowest_bucket_goes_when_there_are_too_many() -> None:
    rising = [(100 * step, 0.001) for step in range(1, BUCKETS_MAX + 1)]
    assert learnt((0, 0.0011), *rising).slope_s == 0.0
    assert learnt((0, 0.0009), *rising[1:]).slope_s > 0.0


def test_the_last_updated_bucket_never_goes() -> None:
    rising = [(100 * step, 0.001) for step in range(1, BUCKETS_MAX + 1)]
    assert learnt(*rising, (10, 0.0009)).at(10) == pytest.approx(0.0009)


def test_an_average_follows_a_broker_that_has_become_slower() -> None:
    slower = learnt(*[(100, 0.0010)] * 1_000, *[(100, 0.0014)] * 5 * AVERAGED_MAX)
    assert slower.at(100) == pytest.approx(0.0014, rel=0.01)


@pytest.mark.parametrize("spike", [0.00151, 0.00049, 0.0, 10.0])
def test_two_spikes_in_a_row_are_ignored_and_a_third_is_not(spike: float) -> None:
    buckets = DelayBuckets()
    taken = [buckets.observe(100, delay_s) for delay_s in [0.001] * 5 + [spike] * 4]
    assert taken == [True] * 5 + [False, False, True, True]


@pytest.mark.parametrize("usual", [0.00149, 0.00051])
def test_what_is_within_half_of_the_usual_is_no_spike(usual: float) -> None:
    buckets = DelayBuckets()
    assert all(buckets.observe(100, delay_s) for delay_s in [0.001] * 5 + [usual] * 4)


def test_before_five_were_seen_nothing_is_a_spike() -> None:
    buckets = DelayBuckets()
    assert all(buckets.observe(100, delay_s) for delay_s in [0.001, 1.0, 0.001, 1.0, 0.001])


def test_a_huge_spike_does_not_make_spikes_of_what_follows() -> None:
    buckets = DelayBuckets()
    taken = [buckets.observe(100, delay_s) for delay_s in [0.001] * 5 + [10.0] + [0.001] * 5]
    assert taken == [True] * 5 + [False] + [True] * 5
    model = buckets.model()
    assert model is not None
    assert model.at(100) == pytest.approx(0.001)


# ---- where deliveries are counted --------------------------------------------------------------------------------

COUNTED = replace(ESTIMATE, deliveries_s=500.0, delay=DelayModel(1e-4, 0.001))


def test_the_delay_goes_by_deliveries_for_each_publication() -> None:
    assert COUNTED.delay_s == pytest.approx(0.002)  # ten for each
    assert COUNTED.after(subscriptions=1_000).delay_s == COUNTED.delay_s
    assert COUNTED.after(deliveries_s=-250.0).delay_s == pytest.approx(0.0015)
    assert COUNTED.after(rate=50.0, deliveries_s=500.0).delay_s == COUNTED.delay_s
    assert COUNTED.after(rate=-50.0).delay_s == 0.001
    assert COUNTED.after(deliveries_s=-501.0).deliveries_s == 0.0
    assert ESTIMATE.after(deliveries_s=9.0).deliveries_s is None


def test_a_broker_that_knows_only_what_little_it_has_costs_gets_our_slope_as_it_is_fast() -> None:
    # It takes 1.2 ms with 2 deliveries for each, as we would: not 0.6 ms for each of them.
    little = replace(COUNTED, deliveries_s=100.0, delay=DelayModel(6e-4, 0.0), is_slope_known=False)
    assert informed(little, COUNTED).delay == pytest.approx(DelayModel(1e-4, 0.001))
    slow = replace(little, delay=DelayModel(12e-4, 0.0))
    assert informed(slow, COUNTED).delay == pytest.approx(DelayModel(2e-4, 0.002))
    assert informed(replace(little, is_slope_known=True), COUNTED).delay == little.delay
    assert informed(replace(little, deliveries_s=None), COUNTED).delay == little.delay
