import json
import shutil

import pytest

from mqloom.core.command import main
from mqloom.lab.bench_collector import Collected
from mqloom.lab.bench_telemetry_cost import TelemetryCost
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
    words = ["--records", "5000", "--gateways", "2", "--subscribers", "5", "--rounds", "1", "--run-s", "2"]
    words += ["--rate", "200", "--turns", "20"]
    assert main(["bench", "telemetry", "--json", *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["collector"]["records"] == 5_000
    cost = answer["cost"]
    assert len(cost["cpu_us_on"]) == len(cost["cpu_us_off"]) == 1
    assert cost["cpu_us_on"][0] > 0
    assert cost["cost_share"] == pytest.approx(cost["cpu_us_on"][0] / cost["cpu_us_off"][0] - 1)
    assert cost["records"] > 10
    assert answer["node"]["turns"] == 20
    assert answer["node"]["cost_low"] <= answer["node"]["cost_share"] <= answer["node"]["cost_high"]


def test_the_figures_are_told_beside_their_targets() -> None:
    collected = Collected(1_000, 2, 0.5, 2_000.0, 50_000, 0.1)
    cost = TelemetryCost(9_000.0, 2, [10.1, 10.2], [10.0, 10.1], 0.01, [0.01, 0.0099], 0.9, 77, 1)
    node = NodeCost(9, 10.1, 10.0, 0.01, 0.005, 0.015, 0.3, 0.00003)
    text = "\n".join(view(collected, node, cost))
    assert "2,000/s (target 500,000)" in text
    assert "10.00 without: +1.00% (between +0.50% and +1.50%; target: under 2%)" in text
    assert "it costs +1.00% (target: under 2%); pair by pair +1.0%, +1.0%" in text
    assert "in 1 runs the rate was not held" in text
