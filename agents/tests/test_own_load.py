import random

from msgspec.structs import replace

from mqloom.agents.averages import IDLE
from mqloom.agents.own_load import CHANGE_MAX, RECENT_WINDOWS, OwnLoad
from mqloom.agents.settings import BalanceSettings
from mqloom.core.load import Load

WINDOW_S = 10.0


def own() -> OwnLoad:
    return OwnLoad(BalanceSettings(mode="on", window_s=WINDOW_S))


def load(subscriptions: int, delay_s: float, rate: float = 10.0) -> Load:
    return replace(IDLE, subscriptions=subscriptions, delay_s=delay_s, input_rate=rate, input_ratio=rate * delay_s)


def test_before_anything_was_measured_there_is_no_estimate() -> None:
    assert own().estimate() is None


def test_an_estimate_starts_from_the_last_windows() -> None:
    one = own()
    for number in range(10):
        one.sampled(load(20, 0.01, rate=float(number)), number * WINDOW_S)
    estimate = one.estimate()
    assert estimate is not None
    assert estimate.input_rate == sum(range(10)[-RECENT_WINDOWS:]) / RECENT_WINDOWS
    assert abs(estimate.delay_s - 0.01) < 1e-9


def test_an_estimate_has_nothing_from_before_rates_jumped() -> None:
    one = own()
    for number, rate in enumerate((20.0, 20.0, 30.0, 31.0)):
        one.sampled(load(20, 0.01, rate), number * WINDOW_S)
    estimate = one.estimate()
    assert estimate is not None
    assert estimate.input_rate == 30.5


def test_a_window_without_publications_says_nothing_about_the_delay() -> None:
    one = own()
    one.sampled(load(20, 0.01), 10.0)
    one.sampled(load(20, 0.01), 15.0)
    one.sampled(load(20, 0.0, rate=0.0), 20.0)
    estimate = one.estimate()
    assert estimate is not None
    assert abs(estimate.delay_s - 0.01) < 1e-9
    for number in range(5):
        one.sampled(load(20, 0.0, rate=0.0), 30.0 + number)
    estimate = one.estimate()
    assert estimate is not None
    assert abs(estimate.delay_s - 0.01) < 1e-9  # as it was learnt


def test_what_was_measured_before_clients_moved_does_not_count_after_it() -> None:
    one = own()
    one.sampled(load(20, 0.01), 10.0)
    one.changed(12.0)
    assert one.since_change is None
    one.sampled(load(15, 0.008), 20.0)  # of before and after in one
    assert one.since_change is None
    one.sampled(load(15, 0.007), 30.0)
    assert one.since_change == load(15, 0.007)


def test_nothing_is_learnt_while_many_come() -> None:
    one = own()
    one.sampled(load(10, 0.01), 10.0)
    one.sampled(load(10 + CHANGE_MAX + 50, 0.9), 20.0)
    one.sampled(load(10, 0.01), 30.0)
    one.sampled(load(10, 0.01), 40.0)
    estimate = one.estimate()
    assert estimate is not None
    assert estimate.delay.slope_s < 0.01


def counted(deliveries: float, delay_s: float, subscriptions: int = 100) -> Load:
    return replace(load(subscriptions, delay_s), deliveries_s=10.0 * deliveries)


def test_where_deliveries_are_counted_the_delay_goes_by_these_whoever_comes() -> None:
    one = own()
    for number, deliveries in enumerate((4.0, 14.0, 24.0, 34.0)):  # a millisecond, and a tenth of one for each
        one.sampled(counted(deliveries, 0.001 + 0.0001 * deliveries, subscriptions=100 * number), number * WINDOW_S)
    one.changed(40.0)
    one.sampled(counted(34.0, 0.0044), 60.0)
    estimate = one.estimate()
    assert estimate is not None
    assert estimate.is_slope_known
    assert estimate.work == 34.0
    after = estimate.after(subscriptions=-1, deliveries_s=-200.0)
    assert abs(after.delay_s - 0.0024) < 1e-9


def test_what_a_delivery_costs_is_learnt_where_publications_go_to_few() -> None:
    one, randomness = own(), random.Random(1)
    for number in range(300):
        deliveries = randomness.uniform(2.0, 11.0)
        one.sampled(counted(deliveries, 0.001 + 0.0001 * deliveries), number * WINDOW_S)
    estimate = one.estimate()
    assert estimate is not None
    assert estimate.is_slope_known
    assert abs(estimate.delay.slope_s - 0.0001) < 1e-9


def test_with_one_amount_of_work_the_slope_is_not_known() -> None:
    one = own()
    one.sampled(counted(5.0, 0.001), 10.0)
    one.sampled(counted(6.0, 0.001), 20.0)
    estimate = one.estimate()
    assert estimate is not None
    assert not estimate.is_slope_known


def test_who_cannot_tell_what_a_delivery_costs_goes_by_what_another_says_as_it_is_fast_itself() -> None:
    teacher = own()
    for number, deliveries in enumerate((5.0, 25.0, 45.0)):  # 0.7 ms, and 0.02 for each
        teacher.sampled(counted(deliveries, 0.0007 + 0.00002 * deliveries), number * WINDOW_S)
    pupil = own()
    pupil.sampled(counted(10.0, 0.0018), 10.0)  # as the other, but half as fast
    pupil.taught(None)
    pupil.taught(pupil.lesson)  # who knows nothing teaches nothing
    before = pupil.estimate()
    assert before is not None
    assert not before.is_slope_known
    assert abs(before.delay.slope_s - 0.00018) < 1e-9
    pupil.taught(teacher.lesson)
    after = pupil.estimate()
    assert after is not None
    assert after.is_slope_known
    assert abs(after.delay.slope_s - 0.00004) < 1e-9
    assert abs(after.delay_s - 0.0018) < 1e-9


def test_where_nobody_counts_deliveries_there_is_no_lesson() -> None:
    one = own()
    one.sampled(load(10, 0.01), 10.0)
    assert one.lesson is None


def test_where_deliveries_are_counted_one_window_of_other_work_does_not_count() -> None:
    one = own()
    for number, delay_s in enumerate((0.001, 0.0033, 0.0011)):
        one.sampled(counted(10.0, delay_s), number * WINDOW_S)
    estimate = one.estimate()
    assert estimate is not None
    assert abs(estimate.delay_s - 0.0011) < 1e-9
