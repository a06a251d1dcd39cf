"""Load agents on a network that loses, doubles, delays and reorders, and gateways that die or never answer."""

import random
from collections import Counter

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from mqloom.agents.edge import Edge
from mqloom.agents.giving import COMPUTE_S_MAX, GRACE_S
from mqloom.agents.head import HEAR_S, SESSION_DETECTIONS
from mqloom.agents.mediator import LEASE_S
from mqloom.lab.agents_world import ON, AgentsWorld, Weather

STAR = [("head", "a"), ("head", "b"), ("head", "c")]
CHAIN = [("h1", "a"), ("h1", "b"), ("h1", "h2"), ("h2", "c"), ("h2", "d")]

CLIENTS = 60
EDGE_S_MAX = ON.press_timeout_s + GRACE_S + 2 * COMPUTE_S_MAX + CLIENTS * ON.move_timeout_s + GRACE_S
HEAD_S_MAX = SESSION_DETECTIONS * ON.local_detect_max_s + HEAR_S
BUSY_S_MAX = max(EDGE_S_MAX, HEAD_S_MAX) + LEASE_S
"""What the longest session takes if nothing is answered, and until its other side has noticed that it is over."""
STORM_S = 400.0


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([STAR, CHAIN, [("a", "b")]]),
    st.builds(
        Weather,
        st.floats(0, 0.7),
        st.floats(0, 0.5),
        st.floats(0, 0.5),
        st.floats(0, 0.03),
        st.floats(0, 0.2),
        st.floats(0, 1),
    ),
)
def test_whatever_is_lost_late_doubled_or_dead_nobody_is_busy_for_ever(
    seed: int, links: list[tuple[str, str]], weather: Weather
) -> None:
    note(f"seed {seed}")
    world = AgentsWorld(links, {"a": CLIENTS}, seed=seed, weather=weather, storm_s=STORM_S)
    world.run(STORM_S + 1.5 * BUSY_S_MAX)  # so long that a session of the storm that never ends would be noticed
    assert sum(world.numbers().values()) == CLIENTS
    assert world.longest_busy_s <= BUSY_S_MAX
    # Sessions that are still there have begun in fair weather, and have two sides that know of each other.
    for broker in world.brokers.values():
        assert broker.agent.part is not None
        mediator = broker.agent.part.mediator
        if mediator.session is not None and mediator.partner is not None:
            partner = world.agent_of(mediator.partner).part
            assert partner is not None
            assert partner.mediator.session in (mediator.session, None)
    loads = [broker.load().output_ratio for broker in world.brokers.values() if isinstance(broker.agent.part, Edge)]
    assert max(loads) < 0.6 or len(loads) == 1  # it has balanced in spite of all, or since


@pytest.mark.parametrize("seed", range(4))
def test_both_sides_tell_the_same_of_a_session(seed: int) -> None:
    world = AgentsWorld(STAR, {"a": 80}, seed=seed)
    world.run(800.0)
    known = 0
    for broker in world.brokers.values():
        for decision in broker.agent.decisions.last():
            if decision.is_offloading and decision.partner is not None and decision.level == "local":
                taken = world.agent_of(decision.partner).decisions.find(decision.session)
                assert taken is not None
                assert (taken.outcome, taken.moved) == (decision.outcome, decision.moved)
                known += 1
    assert known


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_in_any_tree_and_weather_clusters_come_to_balance_when_it_clears_up(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randrange(2, 11)
    links = [(f"n{draw.randrange(max(0, n - 4), n)}", f"n{n}") for n in range(1, size)]
    ends = Counter(name for link in links for name in link)
    clients = {name: draw.randrange(90) for name, number in ends.items() if number == 1}
    weather = Weather(*(draw.random() * most for most in (0.6, 0.6, 0.6, 0.03, 0.2, 0.6)))
    world = AgentsWorld(links, clients, seed=seed, weather=weather, storm_s=300.0)
    world.run(1_500.0)
    assert sum(world.numbers().values()) == sum(clients.values())
    clusters: dict[str, list[float]] = {}
    for broker in world.brokers.values():
        if isinstance(broker.agent.part, Edge):
            cluster = "both" if size == 2 else broker.beside[0]
            clusters.setdefault(cluster, []).append(broker.load().output_ratio)
    assert all(max(loads) - min(loads) <= 0.13 for loads in clusters.values()), clusters
