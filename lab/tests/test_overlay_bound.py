"""The least number of pure forwards, against trying every set of stops."""

import random
from itertools import combinations

import pytest

from mqloom.core.ids import GatewayId
from mqloom.lab.overlay_bound import LeastForwards
from mqloom.lab.overlay_workload import Links, random_tree


def distances(links: Links, start: GatewayId) -> dict[GatewayId, int]:
    found = {start: 0}
    order = [start]
    for here in order:
        for pair in links:
            if here in pair:
                other = pair[0] if pair[1] == here else pair[1]
                if other not in found:
                    found[other] = found[here] + 1
                    order.append(other)
    return found


def tried(links: Links, names: list[GatewayId], origin: GatewayId, wanting: frozenset[GatewayId], delta: int) -> int:
    far = {name: distances(links, name) for name in names}
    others = [name for name in names if name not in wanting and name != origin]
    for count in range(len(others) + 1):
        for chosen in combinations(others, count):
            stops = {origin, *wanting, *chosen}
            reached = [origin]
            for here in reached:
                reached += [each for each in sorted(stops) if each not in reached and far[here][each] <= delta]
            if len(reached) == len(stops):
                return count
    raise AssertionError("all together are connected")


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_it_is_what_trying_all_finds(delta: int) -> None:
    randomness = random.Random(delta)
    names = [GatewayId(f"g{number}") for number in range(11)]
    for _ in range(30):
        links = random_tree(names, randomness)
        origin, wanting = randomness.choice(names), frozenset(randomness.sample(names, randomness.randint(1, 4)))
        assert LeastForwards(links, delta).least(origin, wanting) == tried(links, names, origin, wanting, delta)
