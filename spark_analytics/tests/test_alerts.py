import math
from typing import Any

import msgspec
import pytest

from mqloom.spark_analytics.alerts import Alert, Limits, Watch


def load(position: int, used: float, gateway: str = "north") -> dict[str, Any]:
    own = {"input_ratio": 0.1, "output_ratio": used, "cpu_ratio": 0.2, "memory_ratio": 0.3}
    return {"kind": "load", "position": position, "gateway": gateway, "at_s": float(position), "load": own}


def link(position: int, *, is_up: bool, kind: str = "primary") -> dict[str, Any]:
    own = {"peer": "south", "kind": kind, "is_up": is_up}
    return {"kind": "link", "position": position, "gateway": "north", "at_s": 1.0, "link": own}


def migration(
    predicted: float, observed: float, metric: str = "output", *, is_offloading: bool = True
) -> dict[str, Any]:
    own: dict[str, Any] = {"session": "s1", "metric": metric, "partner": "south", "is_offloading": is_offloading}
    for side, value in (("predicted", predicted), ("observed", observed)):
        own |= {f"{side}_{name}": value for name in ("input", "delay_s", "output")}
    return {"kind": "migration", "position": 7, "gateway": "north", "at_s": 1.0, "migration": own}


def told(watch: Watch, *rows: dict[str, Any]) -> list[Alert]:
    return [alert for row in rows for alert in watch.row(row)]


def test_an_overload_is_told_when_it_lasts_and_once_and_again_when_it_is_over() -> None:
    used = [1.2, 0.5, 0.96, 1.1, 1.2, 1.3, 0.92, 1.0, 0.5, 0.4]
    alerts = told(Watch(), *(load(position, each) for position, each in enumerate(used)))
    assert [(alert.id, alert.is_over) for alert in alerts] == [
        ("overload/north/output/4", False),
        ("overload/north/output/8", True),
    ]
    assert alerts[0].text == "north uses 120% of the bytes that it can send: it is overloaded"
    assert alerts[0].value == 1.2


def test_samples_with_a_better_one_in_between_are_not_in_a_row() -> None:
    used = [1.0, 1.0, 0.92, 1.0, 0.92, 1.0, 1.0]
    assert told(Watch(), *(load(position, each) for position, each in enumerate(used))) == []


def test_brokers_are_watched_apart() -> None:
    rows = [load(position, 1.0, "north" if position % 2 else "south") for position in range(4)]
    assert told(Watch(), *rows) == []


def test_a_quiet_federation_has_nothing_to_tell() -> None:
    rows = [load(position, 0.5 + 0.04 * (position % 10)) for position in range(100)]
    assert told(Watch(), *rows, link(1, is_up=True), migration(0.5, 0.45)) == []


def test_a_link_is_told_when_it_goes_down_and_when_it_is_up_again() -> None:
    watch = Watch()
    states = [True, False, False, True, True]
    alerts = told(watch, *(link(position, is_up=is_up) for position, is_up in enumerate(states)))
    assert [(alert.id, alert.is_over) for alert in alerts] == [
        ("link/north/south/1", False),
        ("link/north/south/3", True),
    ]
    assert told(watch, link(9, is_up=False, kind="candidate")) == []


def test_links_that_are_only_thought_about_take_no_place_among_what_is_watched() -> None:
    watch = Watch()
    assert told(watch, link(1, is_up=False, kind="candidate")) == []
    assert watch.conditions == {}


@pytest.mark.parametrize("metric", ["input", "match", "output"])
def test_a_prediction_that_was_wrong_is_told(metric: str) -> None:
    [alert] = told(Watch(), migration(0.5, 1.0, metric))
    assert alert.text == f"after session s1 {metric} of north was predicted to be 0.5 and is 1: wrong by 50%"
    assert told(Watch(), migration(0.9, 1.0, metric)) == []
    assert told(Watch(), migration(0.9, 0.0, metric)) == []
    assert told(Watch(), migration(0.9, math.nan, metric), migration(math.nan, 0.9, metric)) == []


def test_a_wrong_prediction_for_the_broker_that_took_is_told_of_that_one_and_not_of_whoever_tells() -> None:
    [alert] = told(Watch(), migration(0.5, 1.0, is_offloading=False))
    assert (alert.gateway, alert.id) == ("south", "prediction/south/output/7")
    assert alert.text.startswith("after session s1 output of south was predicted to be")


@pytest.mark.parametrize(("metric", "small"), [("input", 0.01), ("match", 0.001), ("output", 0.01)])
def test_a_prediction_of_next_to_nothing_is_not_told_however_wrong_it_was(metric: str, small: float) -> None:
    assert told(Watch(), migration(3 * small, small, metric)) == []
    assert told(Watch(), migration(9 * small, 3 * small, metric)) != []


def test_telemetry_that_was_dropped_or_cannot_be_read_is_told() -> None:
    lost = {"kind": "dropped", "position": 3, "gateway": "north", "at_s": 1.0, "dropped": {"amount": 12}}
    gap = {"end": 9, "is_gone": True, "problem": "gone"}
    missing = {"kind": "missing", "position": 4, "gateway": None, "at_s": None, "missing": gap}
    alerts = told(Watch(), lost, missing)
    assert [alert.value for alert in alerts] == [12, 5]
    assert alerts[1].text == "5 records of telemetry could not be read: gone"


def test_a_watch_that_was_kept_goes_on_where_it_was() -> None:
    whole, parts = Watch(limits=Limits(windows=4)), Watch(limits=Limits(windows=4))
    rows = [load(position, 1.0 if 3 <= position < 12 else 0.1) for position in range(20)]
    found = []
    for row in rows:
        found += parts.row(row)
        parts = msgspec.json.decode(msgspec.json.encode(parts), type=Watch)
    assert found == told(whole, *rows)
    assert len(found) == 2
