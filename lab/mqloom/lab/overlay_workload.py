"""What the experiments of paper 001 run on: trees of degree 3, and brokers that want topics.

Both data sets of the paper's first configuration fit 680 topics that are published equally often: 6,552 subscriptions
at 120 brokers are then 8.0% of all, and 19,472 are 23.9%, and 36,000 publications make 347,000 and 1,031,000
deliveries, where the paper counts 348,000 and 1,034,000. How popular topics are with subscribers the paper does not
say, nor the shape of its tree beyond its degree. Chosen are a random tree in which nobody has more than 3 links and
Zipf's law with exponent 1.3, because with these the pure forwards of S0, which no choice of ours can influence, come
nearest to the paper's: over eight seeds 1.66 and 0.92 for each delivery, where it has 1.61 and 0.98. (A balanced tree
with exponent 0.9 has 1.67 and 0.86.) Publications begin at all brokers alike.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from mqloom.core.ids import GatewayId

TOPICS: Final = 680
DEGREE: Final = 3
EXPONENT: Final = 1.3
"""Of the popularity of topics with subscribers, by Zipf's law."""

Links = list[tuple[GatewayId, GatewayId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A federation and what is wanted in it; `wanting` is by topic."""

    gateways: Sequence[GatewayId]
    links: Sequence[tuple[GatewayId, GatewayId]]
    wanting: Sequence[frozenset[GatewayId]]
    origins: Sequence[GatewayId] = ()
    """Where publications begin; everywhere, if none is named."""
    rates: Sequence[float] = ()
    """How often at each of the origins, in proportion; at all alike, if nothing is said."""
    homes: Sequence[GatewayId] = ()
    """Where those of each topic begin, if each has its own place."""

    @property
    def wishes(self) -> int:
        """How many topics brokers want, all together."""
        return sum(map(len, self.wanting))

    def publications(self, randomness: random.Random) -> Iterator[tuple[GatewayId, frozenset[GatewayId]]]:
        """Return origins and who wants it, all topics alike, without end."""
        while self.homes:
            topic = randomness.randrange(len(self.wanting))
            yield self.homes[topic], self.wanting[topic]
        totals = list(accumulate(self.rates))
        while totals:
            yield randomness.choices(self.origins, cum_weights=totals)[0], randomness.choice(self.wanting)
        while True:
            yield randomness.choice(self.origins or self.gateways), randomness.choice(self.wanting)


def topic_workload(seed: int, *, gateways: int, subscriptions: int, topics: int = TOPICS) -> Workload:
    """Return a federation in which each broker wants its share of the subscriptions, all topics different ones."""
    randomness = random.Random(f"{seed} overlay workload")  # noqa: S311 - an experiment, not a secret
    names = [GatewayId(f"g{number}") for number in range(gateways)]
    weights = [(rank + 1) ** -EXPONENT for rank in range(topics)]
    wanting: list[set[GatewayId]] = [set() for _ in range(topics)]
    for number, name in enumerate(names):
        count = subscriptions // gateways + (number < subscriptions % gateways)
        for topic in drawn(weights, count, randomness):
            wanting[topic].add(name)
    return Workload(gateways=names, links=random_tree(names, randomness), wanting=tuple(map(frozenset, wanting)))


def drawn(weights: Sequence[float], count: int, randomness: random.Random) -> list[int]:
    """Return `count` different ranks, drawn one after the other in proportion to their weights."""
    # The order of exponential times with these rates is that of such draws.
    times = [randomness.expovariate(1.0) / weight for weight in weights]
    return sorted(range(len(weights)), key=times.__getitem__)[:count]


def random_tree(gateways: Sequence[GatewayId], randomness: random.Random, degree: int = DEGREE) -> Links:
    """Return a tree that grows at any gateway that has fewer than `degree` links, all alike."""
    free = {gateways[0]: degree}
    links: Links = []
    for newcomer in gateways[1:]:
        near = randomness.choice(list(free))
        links.append((near, newcomer))
        free[newcomer] = degree - 1
        free[near] -= 1
        if not free[near]:
            del free[near]
    return links
