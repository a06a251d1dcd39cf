"""Whoever crashes in whatever step of a move: nothing is lost or doubled, and the network is the old one or the new."""

import pytest

from mqloom.lab.moving import STEPS, Federation


@pytest.mark.parametrize("gateway", ["A", "N", "P", "B"])
@pytest.mark.parametrize("step", STEPS)
def test_whoever_crashes_in_whatever_step_everything_comes_once_and_the_network_is_a_tree(
    step: str, gateway: str
) -> None:
    world = Federation().order().until(step)
    world.world.gateways[gateway].crash(lambda: 0.01)
    world.wait(3.0)
    world.world.gateways[gateway].start()
    world.end()
    assert world.is_new() or step != "leaving"
