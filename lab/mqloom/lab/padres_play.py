"""Plays one experiment of paper 000: the production's load agent on every broker of the model."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from mqloom.agents.balancer import Balancer
from mqloom.agents.settings import read_settings
from mqloom.core.ids import GatewayId
from mqloom.gateway.agent_interfaces import Agent
from mqloom.gateway.offload_interfaces import OffloadKind
from mqloom.lab.experiment import Tell
from mqloom.lab.padres_outcome import Outcome, outcome_of
from mqloom.lab.padres_setups import Setup
from mqloom.lab.padres_workload import AnyWorkload, Stay
from mqloom.lab.padres_world import PadresWorld
from mqloom.plugins.offload import input_offload, match_offload, output_offload, random_offload

KINDS: Final[Mapping[str, OffloadKind]] = {
    module.mqloom_offload().name: module.mqloom_offload()
    for module in (input_offload, match_offload, output_offload, random_offload)
}


def world_of(
    setup: Setup,
    seed: int,
    settings: Mapping[str, object] | None = None,
    stays: Sequence[Stay] | None = None,
    workload: AnyWorkload | None = None,
) -> PadresWorld:
    """Return a world that has not begun. `settings` are the agents' own, as an operator writes them."""
    read = read_settings({"mode": "on", **(settings or {})})

    def make(name: GatewayId, near: Sequence[GatewayId], randomness: random.Random) -> Agent:
        return Balancer(name, read, randomness)

    return PadresWorld(setup, seed, make, KINDS, window_s=read.window_s, stays=stays, workload=workload)


def play(
    setup: Setup,
    seed: int,
    tell: Tell,
    settings: Mapping[str, object] | None = None,
    *,
    stays: Sequence[Stay] | None = None,
    workload: AnyWorkload | None = None,
) -> Outcome:
    """Return what came of an experiment; raises AssertionError if an agent failed, which is a mistake of ours."""
    world = world_of(setup, seed, settings, stays, workload)
    world.run(tell)
    failures = {name: host.journal.counters.value("plugin_failures", "pie") for name, host in world.hosts.items()}
    assert not any(failures.values()), f"agents failed: {failures}"
    return outcome_of(world)
