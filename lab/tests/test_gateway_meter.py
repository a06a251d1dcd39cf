"""The meter of a simulated gateway: fed by what work costs in the model."""

from dataclasses import replace

import pytest

from mqloom.core.load import Load
from mqloom.gateway.agent_interfaces import AgentEffect, AgentEvent, LoadSampled
from mqloom.lab.capacity import Capacity
from mqloom.lab.gateway_model import GatewayModel
from mqloom.lab.node_builders import build_node
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.world import Options, World


class Listening:
    """An agent that remembers loads."""

    name = "listening"

    def __init__(self) -> None:
        self.loads: list[Load] = []

    def handle(self, event: AgentEvent, now: float) -> list[AgentEffect]:
        if isinstance(event, LoadSampled):
            self.loads.append(event.load)
        return []


def loads_of(work: Capacity, intake: Capacity | None = None) -> list[Load]:
    """Return the loads of a gateway that takes in ten publications a second for ten seconds, for one client."""
    plan = Plan(
        seed=1,
        gateways=("A",),
        links=(),
        publishers={"pub": "A"},
        subscribers=(SubscriberPlan(name="c", gateway="A", wishes={"w": ("stocks/#", "")}),),
        publications=tuple(
            PublicationPlan(at=5.0 + number / 10, publisher="pub", number=number, topic="stocks/a", attributes={})
            for number in range(100)
        ),
        length_s=20.0,
    )
    agent = Listening()

    def build(*arguments: object) -> object:
        node = build_node(*arguments)  # type: ignore[arg-type]
        node.agency.controls.replace(agent.name, agent, 0.0)
        return node

    world = World(plan, Options(build=build, gateway_intake=intake))  # type: ignore[arg-type]
    model = world.gateways["A"]
    model.plan = replace(model.plan, work=work, window_s=5.0)
    assert isinstance(model, GatewayModel)
    world.run(20.5)
    return agent.loads


def test_load_is_of_what_came_what_it_costs_and_what_went_out() -> None:
    idle, busy, still_busy, over = loads_of(Capacity(0.05, 10_000.0))
    assert (idle.input_rate, over.input_rate, over.output_ratio) == (0.0, 0.0, 0.0)
    for load in (busy, still_busy):
        assert load.input_rate == pytest.approx(10.0, rel=0.1)
        assert load.input_ratio == pytest.approx(0.5, rel=0.1)
        assert load.delay_s == 0.05
        assert load.subscriptions == 1
        assert 0 < load.output_ratio < 1
        assert load.output_bytes_s_max == 10_000.0


def test_a_line_that_is_too_slow_is_more_than_full() -> None:
    loads = loads_of(Capacity(0.001, 100.0))
    assert max(load.output_ratio for load in loads) > 1.0


def test_a_station_says_how_busy_its_gateway_is() -> None:
    loads = loads_of(Capacity(0.0, 0.0), Capacity(message_s=0.02))
    assert max(load.input_ratio for load in loads) == pytest.approx(0.2, rel=0.3)
