"""What findings say of a federation of three brokers made by hand: weeks by the hour, without Spark."""

from dataclasses import replace

import numpy as np
import pytest

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.balancing import Balancing
from mqloom.spark_analytics.capacity.clocks import WrongClock
from mqloom.spark_analytics.capacity.estimates import busy_estimates
from mqloom.spark_analytics.capacity.findings import CapacityFinding, findings_of
from mqloom.spark_analytics.capacity.forecast import forecasts_of
from mqloom.spark_analytics.capacity.frames import Columns
from mqloom.spark_analytics.capacity.overlay import LinkTraffic
from mqloom.spark_analytics.capacity.service import headroom_of
from mqloom.spark_analytics.capacity.thresholds import FULL, OVERLOADED, RESOURCES
from mqloom.spark_analytics.capacity.trend import Floats
from mqloom.spark_analytics.capacity.what_if import Outlook, Scenario

START_AT = 1_772_409_600.0
HOUR_S = 3_600.0
BROKERS = ("EAST", "HUB", "WEST")
NOBODY: Columns = {"gateway": np.array([], object)}


def swinging(peak: float, days: int = 21, growth_per_day: float = 0.0) -> Floats:
    """Return a resource by the hour: `peak` at the busiest hour of the last day, less at night."""
    day = np.arange(days * 24) / 24
    swing = 0.85 + 0.15 * np.cos(2 * np.pi * (day - 14 / 24))
    return swing * (peak - growth_per_day * (days - day)) * np.exp(np.random.default_rng(1).normal(0, 0.01, len(day)))


def federation(used: dict[tuple[str, str], Floats], full: float = FULL, days: int = 21) -> Analysis:
    """Return the analysis of brokers of which each resource is used by 20%, but for those given."""
    hours = days * 24
    times = START_AT + HOUR_S * np.arange(hours)
    series = {(broker, name): used.get((broker, name), np.full(hours, 0.2)) for broker in BROKERS for name in RESOURCES}
    names = np.array(BROKERS, object)
    table: Columns = {"gateway": names, "counts_deliveries": np.zeros(len(names), bool)}
    for name in RESOURCES:
        windows = [series[broker, name] for broker in BROKERS]
        over = [times[each >= OVERLOADED] for each in windows]
        table[f"{name}_overloaded"] = np.array(list(map(len, over)))
        table[f"{name}_overloaded_at"] = np.array([each.max(initial=0.0) for each in over])
        table[f"{name}_p95"] = np.array([np.quantile(each, 0.95) for each in windows])
        table[f"{name}_max"] = np.array([each.max() for each in windows])
    end_at = START_AT + hours * HOUR_S
    table |= {name: np.full(len(BROKERS), value) for name, value in {"windows": hours, "window_s": HOUR_S}.items()}
    table |= {name: np.full(len(BROKERS), np.nan) for name in ("memory_each", "memory_fit")}
    over_time: Columns = {
        "gateway": np.repeat(names, hours),
        "bucket_at": np.tile(times, len(BROKERS)),
        **{f"{name}_mean": np.concatenate([series[broker, name] for broker in BROKERS]) for name in RESOURCES},
    }
    over_time |= {f"{name}_overloaded": (over_time[f"{name}_mean"] >= OVERLOADED).astype(int) for name in RESOURCES}
    rows = len(over_time["bucket_at"])
    constant = {
        "windows": 1,
        "output_bytes_s_max": 1e6,
        "subscriptions": 100.0,
        "deliveries_s": np.nan,
        "delay_mean": 0.002,
    }
    over_time |= {name: np.full(rows, value) for name, value in constant.items()}
    over_time["input_rate"] = over_time["input_mean"] / 0.002
    over_time["output_bytes_s"] = over_time["output_mean"] * 1e6
    estimates = busy_estimates(over_time, table, {})
    return Analysis(
        start_at=START_AT,
        end_at=end_at,
        bucket_s=int(HOUR_S),
        records=hours,
        records_all=hours,
        dropped=0,
        full=full,
        utilisation=table,
        over_time=over_time,
        daily=over_time,
        hot_hours=NOBODY,
        imbalance={name: np.array([], object) for name in ("bucket_at", "metric")},
        silent={},
        wrong_clocks=[],
        members=list(BROKERS),
        forecasts=forecasts_of(over_time, full),
        models={},
        estimates=estimates,
        headroom=headroom_of(estimates, {}, full),
        scenarios=[],
        links=[],
        passings=[],
        candidates=[],
        sites=[],
        sites_for="",
        sessions=NOBODY,
        balancing=Balancing(0, 0, 0, (), (), ()),
        families=[],
        redundancy=[],
        clusters=None,
        refusals=NOBODY,
    )


def kinds(findings: list[CapacityFinding]) -> list[tuple[str, str]]:
    return [(each.kind, each.broker) for each in findings]


def test_a_federation_with_room_has_no_findings() -> None:
    assert findings_of(federation({})) == []


@pytest.mark.parametrize("full", [FULL, 0.7])
def test_a_broker_that_grows_is_told_of_however_full_it_is_by_now(full: float) -> None:
    levels = np.arange(full - 0.15, 1.05, 0.02)
    for level in levels:
        found = federation({("EAST", "memory"): swinging(float(level), growth_per_day=0.008)}, full)
        assert {each.broker for each in findings_of(found)} == {"EAST"}, level
    told = [
        findings_of(federation({("EAST", "memory"): swinging(level, growth_per_day=0.008)}, full))[0]
        for level in (full - 0.05, full + 0.03)
    ]
    assert [each.kind for each in told] == ["growth", "full"]
    assert "grows by 0.8" in told[1].evidence


@pytest.mark.parametrize(("full", "level"), [(FULL, 0.93), (0.7, 0.8), (0.7, 0.94)])
def test_a_broker_that_is_full_and_does_not_grow_is_told_with_what_to_do(full: float, level: float) -> None:
    (found,) = findings_of(federation({("EAST", "output"): swinging(level)}, full))
    assert (found.kind, found.broker, found.urgency) == ("full", "EAST", "soon")
    assert "its output is used by" in found.title
    assert "has most room" in found.action


def test_what_is_overloaded_now_is_not_told_as_full_as_well() -> None:
    assert kinds(findings_of(federation({("EAST", "output"): swinging(1.2)}))) == [("overload", "EAST")]


def test_a_second_resource_that_is_full_is_told_beside_the_overload_of_the_first() -> None:
    used = {("EAST", "output"): swinging(1.2), ("EAST", "memory"): np.full(21 * 24, 0.92)}
    assert kinds(findings_of(federation(used))) == [("overload", "EAST"), ("full", "EAST")]


def test_overload_weeks_ago_does_not_hide_that_a_broker_is_full_now() -> None:
    level = swinging(0.93)
    level[:24] = 1.1
    findings = findings_of(federation({("EAST", "output"): level}))
    assert sorted(kinds(findings)) == [("full", "EAST"), ("overload", "EAST")]


@pytest.mark.parametrize(("days", "hours"), [(90, 6), (28, 3)])
def test_overload_of_the_last_hours_is_told_however_long_telemetry_is_kept(days: int, hours: int) -> None:
    level = swinging(0.6, days)
    level[-hours:] = 1.3
    (found,) = findings_of(federation({("EAST", "output"): level}, days=days))
    assert (found.kind, found.broker, found.urgency) == ("overload", "EAST", "now")
    assert "130%" in found.title
    assert f"for {hours} hours, {hours / 24:.0%} of the last day" in found.evidence
    assert "until the end" in found.evidence


def test_overload_that_ended_days_ago_does_not_go_on() -> None:
    level = swinging(0.6, 90)
    level[-6 * 24 : -5 * 24] = 1.3
    (found,) = findings_of(federation({("EAST", "output"): level}, days=90))
    assert (found.kind, found.urgency) == ("overload", "soon")
    assert "EAST was overloaded" in found.title
    assert "At the end it was no longer so; the last time was 2026-05-25 23:00 UTC." in found.evidence


def test_overload_at_noon_is_still_so_at_night() -> None:
    (found,) = findings_of(federation({("EAST", "output"): swinging(1.2)}))
    assert (found.urgency, "EAST is overloaded" in found.title) == ("now", True)
    assert "before the end" in found.evidence


def test_a_spike_is_no_sign_that_overload_of_weeks_ago_goes_on() -> None:
    level = swinging(0.6)
    level[:24], level[-3] = 1.3, 1.3
    (found,) = findings_of(federation({("EAST", "output"): level}))
    assert (found.kind, found.urgency) == ("overload", "soon")


def linked(analysis: Analysis, up_share: float, up_share_lately: float, *, is_up: bool) -> Analysis:
    link = LinkTraffic("EAST", "HUB", "primary", 1e6, 0, 0, 0, 0, 0, 0.0, 1, up_share, up_share_lately, is_up)
    return replace(analysis, links=[link])


def test_a_link_that_is_down_is_told_however_long_it_was_up() -> None:
    (found,) = findings_of(linked(federation({}), 0.99, 0.4, is_up=False))
    assert (found.kind, found.broker, found.urgency) == ("link", "EAST", "now")
    assert found.title == "The link EAST \N{RIGHTWARDS ARROW} HUB is down: it was so for 60% of the last day"


def test_a_link_that_was_down_a_while_today_is_told_with_less_haste() -> None:
    (found,) = findings_of(linked(federation({}), 0.99, 0.9, is_up=True))
    assert (found.urgency, found.title.split("HUB ")[1]) == ("soon", "was down for 10% of the last day")
    (past,) = findings_of(linked(federation({}), 0.9, 1.0, is_up=True))
    assert (past.urgency, past.title.split("HUB ")[1]) == ("soon", "was down for 10% of the time")


def test_a_link_that_was_up_nearly_always_is_not_told() -> None:
    assert findings_of(linked(federation({}), 0.99, 0.99, is_up=True)) == []
    assert findings_of(linked(federation({}), 0.99, 1.0, is_up=False)) == []  # for a moment, by now


def uneven(analysis: Analysis, broker: str, hours: int) -> Analysis:
    """Return the analysis with one broker fuller than all others for its last hours, and even before."""
    times = analysis.over_time["bucket_at"][analysis.over_time["gateway"] == "EAST"]
    late = np.arange(len(times)) >= len(times) - hours
    table: Columns = {"bucket_at": times, "metric": np.full(len(times), "utilisation", object)}
    table["broker"] = np.where(late, broker, "HUB").astype(object)
    table |= {name: np.where(late, value, 0.2) for name, value in {"most": 0.7, "others": 0.2}.items()}
    table |= {"most_over_mean": np.where(late, 2.0, 1.0), "variation": np.where(late, 0.7, 0.0)}
    return replace(analysis, imbalance=table)


def test_of_long_telemetry_the_last_week_says_whether_load_is_uneven() -> None:
    bad = federation({}, days=90)
    assert kinds(findings_of(uneven(bad, "EAST", 6 * 24))) == [("imbalance", "EAST")]
    assert findings_of(uneven(bad, "EAST", 2 * 24)) == []


def test_a_wrong_clock_is_named() -> None:
    clocks = [WrongClock("EAST", 7_200.0, is_past=False), WrongClock("WEST", -20_000 * 86_400.0, is_past=True)]
    found = findings_of(replace(federation({}), wrong_clocks=clocks))
    assert kinds(found) == [("clock", "EAST"), ("clock", "WEST")]
    titles = [each.title for each in found]
    assert titles == ["The clock of EAST is 2 hours ahead", "The clock of WEST was 20,000 days behind"]


def test_two_full_hours_are_no_busiest_hours() -> None:
    level = np.full(4 * 24, 0.3)
    level[50:52] = 0.93
    assert findings_of(federation({("EAST", "output"): level}, days=4)) == []


def failing(analysis: Analysis, broker: str, *outlooks: Outlook) -> Analysis:
    return replace(analysis, scenarios=[Scenario(f"{broker} fails", "", outlooks)])


def test_one_full_broker_does_not_hide_that_the_others_cannot_take_a_failure() -> None:
    full = federation({("EAST", "output"): swinging(0.93)})
    bad = failing(full, "HUB", Outlook("EAST", 0.92, 0.92, "output", 10), Outlook("WEST", 0.4, 1.2, "output", 10))
    found = next(each for each in findings_of(bad) if each.kind == "failure")
    assert found.evidence.startswith("WEST would be used by 120%")


def test_who_is_full_without_a_failure_is_not_told_as_what_comes_of_one() -> None:
    full = federation({("EAST", "output"): swinging(0.93)})
    same = failing(full, "HUB", Outlook("EAST", 0.92, 0.92, "output", 10), Outlook("WEST", 0.4, 0.6, "output", 10))
    assert "failure" not in {each.kind for each in findings_of(same)}


def test_an_overloaded_broker_that_fails_is_nothing_new() -> None:
    bad = failing(federation({("EAST", "output"): swinging(1.2)}), "EAST", Outlook("WEST", 0.4, 1.2, "output", 10))
    assert "failure" not in {each.kind for each in findings_of(bad)}


def test_a_broker_that_is_gone_is_named_and_nothing_else_is_to_be_done_about_it() -> None:
    full = federation({("EAST", "output"): swinging(1.2)})
    (found,) = findings_of(replace(full, silent={"EAST": full.end_at - 2 * 86_400.0}))
    assert (found.kind, found.broker, found.urgency) == ("silent", "EAST", "soon")
    assert "for another 2 days" in found.evidence
    (past,) = findings_of(replace(full, silent={"EAST": full.end_at - 9 * 86_400.0}))
    assert past.urgency == "plan"
