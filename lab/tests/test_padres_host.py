"""Agents in the model of paper 000: what they ask for is done, in its time, and they hear of each other."""

import dataclasses
from collections.abc import Sequence

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentEvent,
    AgentView,
    AgentWoke,
    ClientsMoved,
    Compute,
    Computed,
    ControlReceived,
    LoadSampled,
    MoveClients,
    ProfileTaken,
    PublishControl,
    Subject,
    TakeProfile,
    WakeAgentAt,
    WantControls,
)
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.padres_outcome import outcome_of
from mqloom.lab.padres_setups import SIMULATION
from mqloom.lab.padres_world import PadresWorld

B1, B2, B3 = (GatewayId(name) for name in ("B1", "B2", "B3"))
SMALL = dataclasses.replace(SIMULATION, publishers=10, subscribers=60, join_s=20.0, change_at=60.0, length_s=120.0)


class Mover:
    """At B1 it profiles what comes in, computes, and moves the busiest ten to B2; all tell each other their load."""

    name = "mover"

    def __init__(self, gateway: GatewayId) -> None:
        self.gateway = gateway
        self.events: list[tuple[float, AgentEvent]] = []
        self.view: AgentView | None = None

    def see(self, view: AgentView) -> None:
        self.view = view

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        self.events.append((now, event))
        assert self.view is not None
        match event:
            case AgentWoke() if now == 0:
                wanted = ["class = 'LOCAL_PIE' AND output < 0.5"] if self.gateway == B3 else []
                return [WantControls(wanted, 2), *([WakeAgentAt(30.0)] if self.gateway == B1 else [])]
            case AgentWoke():
                return [TakeProfile("profile", self.view.covering_set(), 50, 30.0)]
            case ProfileTaken():
                counts: dict[str, int] = {}
                for sample in event.samples:
                    for key in sample.keys:
                        counts[f"s{key.number}"] = counts.get(f"s{key.number}", 0) + 1
                return [Compute("compute", lambda: sorted(counts, key=lambda name: (-counts[name], name))[:10])]
            case Computed():
                assert isinstance(event.result, list)
                return [MoveClients("move", event.result, B2, 50.0)]
            case LoadSampled():
                subject: Subject = {"class": "LOCAL_PIE", "output": event.load.output_ratio}
                return [PublishControl(b"load", 2, subject)]
            case _:
                return []


@pytest.fixture(scope="module")
def world() -> PadresWorld:
    world = PadresWorld(SMALL, 1, lambda name, near, randomness: Mover(name), {})
    world.run(tell_nobody)
    return world


def events_of(world: PadresWorld, name: GatewayId) -> list[tuple[float, AgentEvent]]:
    agent = world.hosts[name].agent
    assert isinstance(agent, Mover)
    return agent.events


def test_a_profile_holds_the_publications_that_come_next(world: PadresWorld) -> None:
    (at, profile) = next(each for each in events_of(world, B1) if isinstance(each[1], ProfileTaken))
    assert isinstance(profile, ProfileTaken)
    assert 30.0 < at <= 60.0
    assert profile.took_s == pytest.approx(at - 30.0)
    assert len(profile.samples) == 50
    assert any(sample.keys for sample in profile.samples)
    assert all(sample.is_wanted_there or not sample.keys for sample in profile.samples)


def test_whom_an_agent_names_is_moved_and_it_is_told(world: PadresWorld) -> None:
    moved = next(event for _, event in events_of(world, B1) if isinstance(event, ClientsMoved))
    assert len(moved.moved) == 10
    assert not moved.stayed
    assert len(world.net.at[B1]) == 50
    assert len(world.net.at[B2]) == 10
    outcome = outcome_of(world)
    assert [(each.source, each.target, each.ordered) for each in outcome.sessions] == [(B1, B2, 10)]
    assert not outcome.idle
    assert (outcome.ledger.lost, outcome.ledger.repeated) == (0, 0)


def test_a_session_that_orders_nobody_is_noted_as_well() -> None:
    class Unwilling(Mover):
        def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
            return [each for each in super().handle(event, now) if not isinstance(each, MoveClients)]

    world = PadresWorld(SMALL, 1, lambda name, near, randomness: Unwilling(name), {})
    world.run(tell_nobody)
    outcome = outcome_of(world)
    assert not outcome.sessions
    assert [(each.at, each.source) for each in outcome.idle] == [(30.0, B1)]


def test_control_publications_reach_whoever_wants_them_and_nobody_else(world: PadresWorld) -> None:
    heard = {
        name: {event.origin for _, event in events_of(world, name) if isinstance(event, ControlReceived)}
        for name in world.hosts
    }
    assert heard[B3] == {"B0", "B1", "B2", "B4"} - ({"B1"} if world.loads[B1][0][1].output_ratio >= 0.5 else set())
    assert not heard[B1]
    assert world.net.messages["PIE"] > 0
    assert world.net.messages["PIE subscriptions"] > 0


def test_no_agent_failed(world: PadresWorld) -> None:
    assert [host.journal.counters.value("plugin_failures", "mover") for host in world.hosts.values()] == [0] * 5


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[float]:
        world = PadresWorld(SMALL, 2, lambda name, near, randomness: Mover(name), {})
        world.run(tell_nobody)
        return [load.output_ratio for _, load in world.loads[B1]]

    assert run() == run()
