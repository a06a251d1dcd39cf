from typing import Any

import pytest

from mqloom.agents import balance_agent
from mqloom.agents.balancer import Balancer
from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import SeeingAgent


def offered(gateway: str = "a", **settings: Any) -> object:
    return balance_agent.mqloom_agent(settings, GatewayId(gateway))


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
