"""What telemetry costs at full load: a gateway that has no time left, and what counts of its slices."""

import json
import shutil

import pytest

from mqloom.core.command import main
from mqloom.core.errors import LocalError
from mqloom.lab.bench_telemetry_full import SATURATED, Slice, full_cost_of, taken_of

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None, reason="there is no mosquitto here"
)


def piece(is_on: int, publications: int, cpu_s: float = 0.25) -> Slice:
    return {"on": is_on, "took_s": 0.25, "cpu_s": cpu_s, "waited_s": 0.0, "publications": publications}


def test_only_slices_without_time_left_count_and_a_window_in_one_of_them_does_too() -> None:
    full = [piece(number % 2, 1_000 if number % 2 else 1_010) for number in range(40)]
    full[1] = piece(1, 500)  # a window ends here, and takes half of it
    idle = [piece(number % 2, 10, 0.01) for number in range(10)]
    found = full_cost_of([*idle, *full, *idle])
    assert found.pairs == 20
    assert found.cost_share == pytest.approx(20 * 1_010 / (19 * 1_000 + 500) - 1)
    assert found.cost_low <= found.cost_share <= found.cost_high
    assert found.busy_ratio == pytest.approx(1.0)
    shared = [dict(each) | {"cpu_s": 0.1, "waited_s": 0.15} for each in full]
    assert full_cost_of(shared).pairs == 20  # it had no time left either: others had its core
    with pytest.raises(LocalError, match="run longer"):
        full_cost_of(idle)


def test_what_a_gateway_takes_is_told_by_its_busier_half() -> None:
    used, taken = taken_of([piece(1, 2_000), piece(0, 2_000), piece(1, 0, 0.0), piece(0, 100, 0.01)])
    assert (used, taken) == pytest.approx((1.0, 8_000.0))
    assert taken_of([]) == (0.0, 0.0)


@needs_mosquitto
@pytest.mark.timeout(240)
def test_a_gateway_is_driven_until_it_has_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--only", "full", "--subscribers", "5", "--run-s", "5"]
    assert main(["bench", "telemetry", "--json", *words]) == 0
    full = json.loads(capsys.readouterr().out)["full"]
    assert full["pairs"] >= 3
    assert full["busy_ratio"] > SATURATED - 0.05
    assert full["taken_per_s"] > 100
    assert full["us_on"] > 0 < full["us_off"]
    assert full["cost_low"] <= full["cost_share"] <= full["cost_high"]
