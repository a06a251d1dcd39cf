"""Popularity by Zipf's law: the n-th most popular of many is asked for in proportion to 1 / n ** exponent."""

import bisect
import random
from itertools import accumulate


class Zipf:
    """A distribution over the ranks 0, 1, ... (0 is the most popular); with exponent 0 all are alike.

    Raises ValueError if there are no ranks, or for an exponent below 0.
    """

    def __init__(self, ranks: int, exponent: float = 1.0) -> None:
        if ranks < 1 or exponent < 0:
            raise ValueError(f"{ranks} ranks with exponent {exponent}: at least one rank, and an exponent of 0 or more")
        weights: list[float] = [(rank + 1) ** -exponent for rank in range(ranks)]
        total = sum(weights)
        self.shares = tuple(weight / total for weight in weights)
        """The probability of each rank."""
        self._ends = list(accumulate(self.shares))

    def draw(self, randomness: random.Random) -> int:
        """Return a rank."""
        return min(bisect.bisect_right(self._ends, randomness.random()), len(self._ends) - 1)
