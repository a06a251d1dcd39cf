"""Who wants what: topics of Zipf-distributed popularity, and a publication is wanted by a wished share of brokers.

Paper 001 (section 5) and paper 004 say how large a share of the brokers wants a publication, on average over the
publications, and let popularity follow Zipf's law; how many subscriptions that takes follows. Here it is the other way
round, too: a broker with `draws` subscribers, each asking for one topic by popularity, wants topic t with probability
1 - (1 - p(t)) ** draws. `draws` need not be whole, and is found by bisection. Which brokers they are is then left to
chance, how many of them is not: what rounding a popular topic to whole brokers leaves over goes to the next topic.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mqloom.lab.zipf import Zipf

TOLERANCE = 0.05
"""The share is missed by no more of itself, or ValueError is raised."""


@dataclass(frozen=True, slots=True)
class Interests:
    """Which topics each broker wants, topics being ranks of popularity; `wanted[broker]` is in rising order."""

    wanted: tuple[tuple[int, ...], ...]
    popularity: Zipf

    @property
    def subscriptions(self) -> int:
        """How many there are, one for each topic at each broker that wants it."""
        return sum(map(len, self.wanted))

    def brokers_of(self, topic: int) -> list[int]:
        """Return who wants a topic."""
        return [broker for broker, topics in enumerate(self.wanted) if topic in topics]

    def share(self) -> float:
        """Return the share of brokers that want a publication, on average over publications by popularity."""
        shares = self.popularity.shares
        return sum(shares[topic] for topics in self.wanted for topic in topics) / len(self.wanted)

    def publications(self, randomness: random.Random) -> Iterator[int]:
        """Return topics by their popularity, without end."""
        while True:
            yield self.popularity.draw(randomness)


def zipf_interests(
    randomness: random.Random, *, brokers: int, topics: int, share: float, exponent: float = 1.0
) -> Interests:
    """Return interests such that a publication is wanted by this share of the brokers, on average.

    Raises ValueError for a share that is not over 0 and at most 1, or one that so few brokers and topics cannot give.
    """
    if not 0 < share <= 1 or brokers < 1:
        raise ValueError(f"a share of {share} of {brokers} brokers: a share is over 0 and at most 1")
    popularity = Zipf(topics, exponent)
    wanted: list[list[int]] = [[] for _ in range(brokers)]
    for topic, count in enumerate(_counts(popularity.shares, brokers, share)):
        for broker in randomness.sample(range(brokers), count):
            wanted[broker].append(topic)
    interests = Interests(tuple(map(tuple, wanted)), popularity)
    if abs(interests.share() - share) > TOLERANCE * share:
        raise ValueError(
            f"a share of {share} cannot be had with {brokers} brokers and {topics} topics: {interests.share():.3g} is"
            " the nearest; take more of either"
        )
    return interests


def _counts(shares: Sequence[float], brokers: int, share: float) -> Iterator[int]:
    """Return how many brokers want each topic."""
    draws = _draws(shares, share)
    left_over = 0.0  # in brokers, weighted with popularity
    for probability in shares:
        exact = brokers * _wanted(probability, draws) + left_over / probability
        count = min(max(round(exact), 0), brokers)
        left_over = (exact - count) * probability
        yield count


def _wanted(probability: float, draws: float) -> float:
    return float(1 - (1 - probability) ** draws)


def _draws(shares: Sequence[float], share: float) -> float:
    """Return how many draws by popularity make a broker want a publication with this probability."""

    def reached(draws: float) -> float:
        return sum(each * _wanted(each, draws) for each in shares)

    low, high = 0.0, 1.0
    while reached(high) < share * (1 - 1e-9) and high < 1e12:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < share else (low, middle)
    return high
