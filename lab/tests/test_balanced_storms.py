"""Storms in which load agents move clients: nothing is lost, nobody stays in a session, and a seed is a seed."""

import pytest
from msgspec.structs import replace

from mqloom.agents.edge import Edge
from mqloom.core.load import BalanceState, Load
from mqloom.gateway.agent_interfaces import AgentEffect
from mqloom.lab import checkers
from mqloom.lab.plan import ControlsPlan, Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.shrink import shrink
from mqloom.lab.storm import draw_plan, run_plan
from mqloom.lab.traveller_model import TravellerModel
from mqloom.lab.world import Options, World

SEED = 126
BAD_WEATHER = 15
"""There much of what agents tell each other is lost and doubled, and they move clients all the same."""
SPREADS = 214
"""There ONE is weaker than the others."""


def moved(world: World) -> int:
    assert world.balanced is not None
    sessions = [each for agent in world.balanced.agents.values() for each in agent.decisions.last()]
    return sum(max(0, each.moved) for each in sessions if each.is_offloading)


def test_agents_move_clients_through_faults_and_every_promise_is_kept() -> None:
    plan = draw_plan(BAD_WEATHER, agents=True)
    assert plan.is_balanced
    assert plan.faults
    report, world = run_plan(plan)
    assert report.findings == []
    assert report.delivered >= report.expected > 0
    assert moved(world) > 0
    assert report.has_agents
    assert report.sessions > 0
    assert min(report.controls_spoilt["lost"], report.controls_spoilt["doubled"]) > 0
    assert world.balanced is not None
    parts = [agent.part for agent in world.balanced.agents.values()]
    assert all(part is not None and part.state is not BalanceState.BUSY for part in parts)


def test_whoever_asks_for_agents_has_them_in_every_run_and_without_it_in_some() -> None:
    plans = [draw_plan(seed, agents=True) for seed in range(50)]
    assert all(plan.is_balanced and any(each.travels for each in plan.subscribers) for plan in plans)
    for share in ("lost", "doubled", "late"):
        assert 10 < sum(getattr(plan.controls, share) > 0 for plan in plans) < 45
    assert 0 < sum(draw_plan(seed).is_balanced for seed in range(50)) < 25
    assert draw_plan(SEED, agents=True) == draw_plan(SEED)  # which has them anyway


@pytest.mark.full
def test_a_seed_is_a_seed() -> None:
    plan = draw_plan(SEED)
    assert run_plan(plan)[0] == run_plan(plan)[0]


def test_a_federation_with_a_key_is_balanced_too() -> None:
    plan = replace(draw_plan(SEED), faults=(), publications=draw_plan(SEED).publications[:150])
    report, world = run_plan(plan, Options(sealed=True))
    assert report.findings == []
    assert world.balanced is not None
    assert all(agent.part is not None and agent.part.load is not None for agent in world.balanced.agents.values())


def test_a_run_that_fails_without_agents_too_is_told_without_them() -> None:
    plan = draw_plan(SEED)
    assert not shrink(plan, lambda candidate: True, tries_max=3).is_balanced
    with_agents = shrink(plan, lambda candidate: candidate.is_balanced, tries_max=20)
    assert with_agents.is_balanced
    assert with_agents.controls == ControlsPlan() != plan.controls


def test_an_agent_that_raises_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Edge, load: Load, now: float) -> list[AgentEffect]:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(Edge, "sampled", fail)
    plan = replace(draw_plan(SEED), faults=(), publications=(), length_s=5.0)
    report, _ = run_plan(plan)
    assert any("pie raised" in finding for finding in report.findings)


def test_without_agents_nobody_measures() -> None:
    plan = replace(draw_plan(SEED), is_balanced=False, faults=(), publications=(), length_s=5.0)
    _, world = run_plan(plan)
    assert world.balanced is None


def test_a_crowd_at_one_broker_is_spread_and_nothing_is_lost() -> None:
    plan = Plan(
        seed=SPREADS,
        gateways=("HUB", "ONE", "TWO", "THREE"),
        links=(("HUB", "ONE"), ("HUB", "TWO"), ("HUB", "THREE")),
        publishers={"pub": "HUB"},
        subscribers=tuple(
            SubscriberPlan(name=f"c{index}", gateway="ONE", wishes={"all": ("stocks/#", "")}, travels=True)
            for index in range(12)
        ),
        publications=tuple(
            PublicationPlan(at=5.0 + 0.1 * number, publisher="pub", number=number, topic="stocks/a", attributes={})
            for number in range(250)
        ),
        length_s=35.0,
        is_balanced=True,
    )
    world = World(plan)
    world.run(36.0)
    assert world.settle(), list(world.unsettled())
    judgement = checkers.judge(world)
    assert [*checkers.at_rest(world), *judgement.findings] == []
    assert judgement.delivered == judgement.expected == 250 * 12
    places = [model.at for model in world.subscribers.values() if isinstance(model, TravellerModel)]
    assert len(set(places)) > 1
