from typing import Any

import pytest

from mqloom.agents import balance_agent
from mqloom.agents.balancer import Balancer
from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import SeeingAgent


def offered(gateway: str = "a", **settings: Any) -> object:
    return balance_agent.mqloom_agent(settings, GatewayId(gateway), 4.0)


def test_without_settings_nobody_is_balanced() -> None:
    assert offered() is None
    assert offered(mode="off") is None


@pytest.mark.parametrize("mode", ["advise", "on"])
def test_with_a_mode_there_is_an_agent_that_looks_into_its_gateway(mode: str) -> None:
    agent = offered(mode=mode)
    assert isinstance(agent, Balancer)
    assert isinstance(agent, SeeingAgent)
    assert agent.name == "pie"


def test_mistakes_are_explained() -> None:
    (problem,) = balance_agent.mqloom_check({"mode": "onn"})
    assert "mode" in problem
    assert balance_agent.mqloom_check({"mode": "on"}) == []


def test_the_window_is_the_meters_and_said_once_for_both() -> None:
    agent = offered(mode="on")
    assert isinstance(agent, Balancer)
    assert agent.settings.window_s == 4.0
    (problem,) = balance_agent.mqloom_check({"mode": "on", "window_s": 4.0})
    assert problem.startswith("window_s: set load_window_s in [federation] instead")


def test_a_stabilise_duration_is_compared_with_the_window_of_the_gateway() -> None:
    def hints(stabilise_s: float) -> list[str]:
        agent = offered(mode="on", stabilise_s=stabilise_s)
        assert isinstance(agent, Balancer)
        return list(agent.hints)

    assert hints(8.0) == []
    assert "load_window_s" in hints(7.9)[0]
