"""Waves through many gateways: on every tree they come back, and in any network they come to an end."""

import random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Flush, Flushed, Message
from mqloom.lab.waves import Waves

KEY = SubscriptionKey(GatewayId("US"), 1, 1)


class Network:
    """Gateways joined by links that are in order; which link carries next is by chance."""

    def __init__(self, links: list[tuple[int, int]], count: int, randomness: random.Random) -> None:
        self.randomness = randomness
        self.names = [GatewayId(f"G{index}") for index in range(count)]
        self.channels: dict[tuple[GatewayId, GatewayId], list[Message]] = {}
        self.entered: dict[GatewayId, int] = dict.fromkeys(self.names, 0)
        self.nodes: dict[GatewayId, Waves] = {}
        self.carried = 0
        for index, name in enumerate(self.names):
            neighbours = [self.names[other] for link in links for other in link if index in link and other != index]
            self.nodes[name] = Waves(name, neighbours)
            for neighbour in neighbours:
                self.channels[name, neighbour] = []

    def post(self, name: GatewayId) -> None:
        for neighbour, messages in self.nodes[name].told().items():
            self.channels[name, GatewayId(neighbour)] += messages

    def carry(self) -> bool:
        loaded = [link for link, messages in self.channels.items() if messages]
        if not loaded:
            return False
        sender, receiver = self.randomness.choice(loaded)
        message = self.channels[sender, receiver].pop(0)
        self.carried += 1
        flushes = self.nodes[receiver].flushes
        if isinstance(message, Flush):
            flushes.passed(sender, message)
        elif isinstance(message, Flushed):
            flushes.answered(sender, message, 0.0)
        self.post(receiver)
        return True


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10), st.integers(0, 2**32))
def test_on_every_tree_every_wave_comes_back_after_it_has_been_everywhere(count: int, seed: int) -> None:
    note(f"seed {seed}")
    randomness = random.Random(seed)
    network = Network([(randomness.randrange(index), index) for index in range(1, count)], count, randomness)
    expected = {}
    for name in network.names:
        network.nodes[name].flushes.close([KEY], 0.0)
        network.post(name)
        expected[name] = [KEY]
    while network.carry():
        pass
    assert {name: node.flushes.finished() for name, node in network.nodes.items()} == expected
    assert network.carried == 2 * count * (count - 1)  # once over every link and back
    assert all(not node.flushes._relayed for node in network.nodes.values())


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 8), st.integers(0, 2**32))
def test_even_in_a_network_with_cycles_a_wave_comes_to_an_end(count: int, seed: int) -> None:
    note(f"seed {seed}")
    randomness = random.Random(seed)
    links = [(index, (index + 1) % count) for index in range(count)]
    network = Network(links, count, randomness)
    network.nodes[network.names[0]].flushes.close([KEY], 0.0)
    network.post(network.names[0])
    while network.carry():
        assert network.carried < 100 * count, "the wave goes round for ever"
    assert network.nodes[network.names[0]].flushes.finished() == [KEY]
