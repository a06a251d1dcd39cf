"""When publishers publish: Poisson and periodic, at a rate that may change.

Both are made at one a unit of time, and time is then stretched so that the rate comes out: so a rate that changes
between two publications is right for either, and a rate of nothing is a pause.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise


@dataclass(frozen=True, slots=True)
class Rate:
    """Publications a second over time: each step is the time from which on it holds, and the rate.

    Raises ValueError for times that do not rise, a first one that is not 0, or a rate below 0.
    """

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.steps or self.steps[0][0] != 0:
            raise ValueError("the first rate holds from time 0 on")
        if any(later <= earlier for (earlier, _), (later, _) in pairwise(self.steps)):
            raise ValueError("the times from which on rates hold must rise")
        if any(not 0 <= rate < math.inf for _, rate in self.steps):
            raise ValueError("a rate is 0 or more")

    def at(self, time: float) -> float:
        """Return the rate that holds at a time."""
        return [rate for start, rate in self.steps if start <= time][-1]

    def expected(self, time: float) -> float:
        """Return how many publications there are to be expected until a time."""
        return sum(rate * (min(end, time) - start) for start, end, rate in self.stretches() if start < time)

    def stretches(self) -> Iterator[tuple[float, float, float]]:
        """Yield from when until when which rate holds."""
        for (start, rate), (end, _) in pairwise((*self.steps, (math.inf, 0.0))):
            yield start, end, rate


def constant(rate: float) -> Rate:
    """Return a rate that does not change."""
    return Rate(((0.0, rate),))


def periodic(rate: Rate, phase: float = 0.0) -> Iterator[float]:
    """Return times that are evenly apart, the first one after `phase` periods, a number from 0 to 1.

    Ends when the rate is 0 for good.
    """
    return _stretched(rate, (number + phase for number in count()))


def poisson(rate: Rate, randomness: random.Random) -> Iterator[float]:
    """Return times with independent, exponentially distributed intervals; ends as `periodic` does."""
    return _stretched(rate, _unit_poisson(randomness))


def _unit_poisson(randomness: random.Random) -> Iterator[float]:
    time = 0.0
    while True:
        time += randomness.expovariate(1.0)
        yield time


def _stretched(rate: Rate, times: Iterator[float]) -> Iterator[float]:
    """Return when so many publications as the times say are expected; the times rise."""
    passed = 0.0  # expected before this step
    time = next(times)
    for start, end, now in rate.stretches():
        while now and (at := start + (time - passed) / now) < end:
            yield at
            time = next(times)
        if end < math.inf:
            passed += now * (end - start)
