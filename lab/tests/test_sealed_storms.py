"""Federations that have a key keep the promise under the same storms as those without."""

import pytest

from mqloom.lab.storm import draw_plan, run_plan
from mqloom.lab.world import Options


@pytest.mark.parametrize("seed", [2, 3, 6, 14])
def test_a_sealed_federation_keeps_the_promise_in_a_storm(seed: int) -> None:
    report, world = run_plan(draw_plan(seed), Options(sealed=True))
    assert report.findings == []
    assert report.delivered
    nodes = [gateway.node for gateway in world.gateways.values() if gateway.node is not None]
    assert any(node.counters.total("frames_challenged") for node in nodes)
    refused = {reason for node in nodes for reason in node.counters.reasons("frames_refused")}
    assert refused <= {"replayed", "outdated", "stranger"}  # nobody is hostile, but lives end


def test_a_gateway_moves_by_a_sealed_order_and_nothing_is_lost() -> None:
    moving = next(plan for plan in map(draw_plan, range(1_000)) if plan.moves and not plan.faults)
    report, _ = run_plan(moving, Options(sealed=True))
    assert report.findings == []
    assert report.moves
