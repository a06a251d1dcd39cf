"""Meters: the figures of a window, from what was noted in it."""

import pytest

from mqloom.gateway.meters import OUTPUT_BYTES_S_ASSUMED, OUTPUT_RATIO_MAX, Figures, Meter


def test_rate_delay_and_input_utilisation_are_of_the_window() -> None:
    meter = Meter(0.0)
    meter.busy_s += 4.0
    load = meter.sample(Figures(200, 30, cpu_s=5.0, memory_ratio=0.25), 10.0)
    assert (load.input_rate, load.delay_s) == (20.0, 0.02)
    assert load.input_ratio == pytest.approx(0.4)
    assert (load.subscriptions, load.cpu_ratio, load.memory_ratio) == (30, 0.5, 0.25)
    meter.busy_s += 1.0
    load = meter.sample(Figures(210, 30, cpu_s=5.5), 20.0)
    assert (load.input_rate, load.delay_s, load.cpu_ratio) == (1.0, 0.1, 0.05)


def test_without_publications_the_delay_is_as_it_was() -> None:
    meter = Meter(0.0)
    meter.busy_s += 1.0
    meter.sample(Figures(10, 0), 10.0)
    load = meter.sample(Figures(10, 0), 20.0)
    assert (load.input_rate, load.delay_s, load.input_ratio) == (0.0, 0.1, 0.0)


def test_output_is_what_was_sent_over_what_could_be() -> None:
    meter = Meter(0.0, 1_000.0)
    meter.queued_bytes += 4_000
    load = meter.sample(Figures(0, 0), 10.0)
    assert (load.output_ratio, load.output_bytes_s, load.output_bytes_s_max) == (0.4, 400.0, 1_000.0)


def test_more_queued_than_sent_is_more_than_full() -> None:
    meter = Meter(0.0, 1_000.0)
    meter.queued_bytes += 15_000
    load = meter.sample(Figures(0, 0, waiting_bytes=5_000), 10.0)
    assert (load.output_ratio, load.output_bytes_s) == (1.5, 1_000.0)
    load = meter.sample(Figures(0, 0, waiting_bytes=0), 20.0)  # what was left keeps the line busy
    assert (load.output_ratio, load.output_bytes_s) == (0.5, 500.0)


def test_nothing_sent_of_what_waits_is_overload_and_not_idle() -> None:
    meter = Meter(0.0, 1_000.0)
    meter.queued_bytes += 10
    assert meter.sample(Figures(0, 0, waiting_bytes=10), 10.0).output_ratio == OUTPUT_RATIO_MAX
    assert meter.sample(Figures(0, 0, waiting_bytes=10), 20.0).output_ratio == OUTPUT_RATIO_MAX
    assert meter.sample(Figures(0, 0), 30.0).output_ratio < 0.1
    assert meter.sample(Figures(0, 0), 40.0).output_ratio == 0.0


def test_an_output_is_never_fuller_than_the_bound() -> None:
    meter = Meter(0.0, 10.0)
    meter.queued_bytes += 100_000
    assert meter.sample(Figures(0, 0, waiting_bytes=99_900), 10.0).output_ratio == OUTPUT_RATIO_MAX


def test_a_broker_that_takes_no_more_is_full() -> None:
    meter = Meter(0.0)
    meter.queued_bytes += 1_000
    load = meter.sample(Figures(0, 0, is_crowded=True), 10.0)
    assert load.output_bytes_s_max == OUTPUT_BYTES_S_ASSUMED
    assert load.output_ratio == 1.0


def test_a_broker_that_acknowledges_nothing_for_a_whole_window_is_not_idle() -> None:
    meter = Meter(0.0)
    meter.sample(Figures(0, 0, is_crowded=True), 10.0)
    load = meter.sample(Figures(0, 0, is_crowded=True), 20.0)
    assert (load.output_ratio, load.output_bytes_s) == (OUTPUT_RATIO_MAX, 0.0)


def test_a_window_that_begins_anew_forgets_what_was_before() -> None:
    meter = Meter(0.0)
    meter.busy_s += 9.0
    meter.begin(Figures(100, 0, cpu_s=50.0), 60.0)
    load = meter.sample(Figures(110, 0, cpu_s=51.0), 70.0)
    assert (load.input_rate, load.delay_s, load.cpu_ratio) == (1.0, 0.0, 0.1)


def test_deliveries_are_those_of_the_window_and_unknown_where_nobody_counts() -> None:
    meter = Meter(0.0)
    assert meter.sample(Figures(10, 0, deliveries=300), 10.0).deliveries_s == 30.0
    load = meter.sample(Figures(20, 0, deliveries=310), 20.0)
    assert (load.deliveries_s, load.work) == (1.0, 1.0)
    assert meter.sample(Figures(20, 7), 30.0).deliveries_s is None
