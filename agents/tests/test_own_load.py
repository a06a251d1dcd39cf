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
