import json
import shutil
from typing import Any

import pytest

from mqloom.core.command import main
from mqloom.core.errors import LocalError
from mqloom.lab.bench_collector import Collected
from mqloom.lab.bench_telemetry_cost import GatewayCost, TelemetryCost, cost_of
from mqloom.lab.bench_telemetry_full import FullLoadCost
from mqloom.lab.bench_telemetry_node import NodeCost
from mqloom.lab.command_bench_telemetry import view

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None, reason="there is no mosquitto here"
)


@needs_mosquitto
@pytest.mark.timeout(180)
def test_a_small_measurement_tells_what_telemetry_costs_and_what_was_collected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--records", "5000", "--gateways", "2", "--subscribers", "5", "--run-s", "5"]
    words += ["--rate", "200", "--turns", "20"]
    answer: dict[str, Any] = {}
    for only in ("collector", "node", "cost"):
        assert main(["bench", "telemetry", "--json", "--only", only, *words]) == 0
        answer |= json.loads(capsys.readouterr().out)
    assert answer["collector"]["records"] == 5_000
    cost = answer["cost"]
    assert [each["gateway"] for each in cost["gateways"]] == ["west", "east"]
    for each in cost["gateways"]:
        assert each["us_on"] > 0 < each["us_off"]
        assert each["cost_low"] <= each["cost_share"] <= each["cost_high"]
    assert cost["records"] > 10
    assert answer["node"]["turns"] == 20
    assert answer["node"]["cost_low"] <= answer["node"]["cost_share"] <= answer["node"]["cost_high"]


def test_the_figures_are_told_beside_their_targets() -> None:
    collected = Collected(1_000, 2, 0.5, 2_000.0, 50_000, 0.1)
    west = GatewayCost("west", 9, 30.3, 30.0, 0.01, 0.005, 0.015, 0.4)
    cost = TelemetryCost(9_000.0, False, [west], 77)
    node = NodeCost(9, 10.1, 10.0, 0.01, 0.005, 0.015, 0.3, 0.00003)
    full = FullLoadCost(30, 8_000.0, 0.99, 101.0, 100.0, 0.01, 0.005, 0.015)
    text = "\n".join(view(collected, node, cost, full))
    assert "8,000 publications/s, busy 99% of the time: 101.00 microseconds" in text
    assert "2,000/s (target 500,000)" in text
    assert "10.00 without: +1.00% (between +0.50% and +1.50%; target: under 2%)" in text
    assert "west: 30.30 microseconds for a publication with telemetry, 30.00 without: +1.00%" in text
    assert "the rate was not held" in text


def test_slices_are_compared_with_those_beside_them_and_idle_ones_left_out() -> None:
    busy = [{"on": number % 2, "cpu_s": 0.0101 if number % 2 else 0.01, "publications": 100} for number in range(40)]
    idle = [{"on": number % 2, "cpu_s": 0.005, "publications": 1} for number in range(10)]
    cost = cost_of("west", [*idle, *busy, *idle])
    assert cost.slices == 20
    assert [cost.us_on, cost.us_off] == pytest.approx([101.0, 100.0])
    assert cost.cost_share == pytest.approx(0.01)
    with pytest.raises(LocalError, match="run longer"):
        cost_of("west", [])
