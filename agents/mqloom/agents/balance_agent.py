"""Agent `pie`: moves subscribers from brokers with too much load to others (docs/balancing.md).

    [plugins.settings.balance]
    mode = "advise"

The random intervals of one gateway are drawn from a generator that is seeded with the gateway's id: different at
different gateways, as section 3.3.3 of paper 000 wants it, and the same at each start.

The window of the meters is no setting of the agent: it is that of its gateway, `load_window_s` in [federation]. An
agent that went by another would take load for settled that has of before and after a move.
"""

import random
from collections.abc import Sequence
from typing import Final

from mqloom.agents.balancer import Balancer
from mqloom.agents.settings import read_settings, settings_hints, settings_problems
from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Settings

WINDOW: Final = "window_s"
"""What the agent has from its gateway, and an operator says once for both."""


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings."""
    if WINDOW in settings:
        return [f"{WINDOW}: set load_window_s in [federation] instead: the window of the meters is the agents' too"]
    return settings_problems(settings)


@hookimpl
def mqloom_agent(settings: Settings, gateway: GatewayId, load_window_s: float) -> Agent | None:
    """Offer the load agent, unless its mode is "off"."""
    settings = {**settings, WINDOW: load_window_s}
    read = read_settings(settings)
    if read.mode == "off":
        return None
    randomness = random.Random(f"balance {gateway}")  # noqa: S311  (when to look, no secret)
    return Balancer(gateway, read, randomness, settings_hints(settings))
