"""Looking for the highest rate that is held: steps up, halves between, then the whole time; no clock and no IO.

Theory of operation. Short probes first: from the start, four times as fast after each that is held, a quarter after
each that is not, until one is held and one is not. Between the two the geometric middle is probed until they are
`precision` apart. Then the highest that was held is tried for the whole time. If it is not held for so long, one lower
by the precision is, then by its square, its cube, and so on; and when one is held at last, the middle between that and
the lowest that was not, REFINEMENTS_MAX times at most. A try that fails is repeated once before it counts, because what
else a machine does should not decide; one at the floor that fails twice ends the search with nothing.
"""

import math
from dataclasses import dataclass
from typing import Final

FLOOR_PER_S: Final = 5.0
CEILING_PER_S: Final = 200_000.0
STEP: Final = 4.0
TRIES: Final = 2
"""How often a rate is tried before it counts as not held."""
REFINEMENTS_MAX: Final = 2
"""Rates that are tried for the whole time after one was held."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to try next: a rate, for the whole time or for that of a probe."""

    rate: float
    is_whole: bool


class Search:
    """One search; ask for `step`, then `tell` how it went, until there is none."""

    def __init__(self, start: float, precision: float, floor: float = FLOOR_PER_S) -> None:
        self._precision = precision
        self._floor = floor
        self._low = 0.0  # the highest that was held, by probes
        self._high = math.inf  # the lowest that was not
        self._rate = start
        self._tries = 0
        self._holds = 0
        self._best = 0.0  # the highest that was held for the whole time
        self._lowest = math.inf  # the lowest that was not
        self._refinements = 0
        self._is_hurried = False
        self.held: float | None = None
        """The answer, when it is known; 0: not even the floor."""

    @property
    def step(self) -> Step | None:
        """What is to be tried now; None when the answer is known."""
        if self.held is not None:
            return None
        return Step(self._rate, is_whole=self._holds > 0)

    def tell(self, *, held: bool) -> None:
        """Take in how the step went."""
        assert self.held is None
        self._tries += 1
        if not held and self._tries < TRIES and not self._is_hurried:
            return
        self._tries = 0
        if self._holds:
            self._told_whole(held=held)
        elif held:
            self._low = self._rate
        else:
            self._high = self._rate
        if self.held is None and not self._holds:
            self._choose()

    def hurry(self) -> None:
        """Time is nearly over: try what was held so far for the whole time, and nothing twice."""
        if not self._is_hurried:
            self._is_hurried = True
            if not self._holds:
                self._begin_holding()

    def _choose(self) -> None:
        if self._low == 0:
            if self._rate <= self._floor:
                self.held = 0.0
            self._rate = max(self._floor, self._high / STEP)
        elif self._high == math.inf and self._low < CEILING_PER_S:
            self._rate = min(CEILING_PER_S, self._low * STEP)
        elif self._high / self._low <= self._precision or self._low >= CEILING_PER_S:
            self._begin_holding()
        else:
            self._rate = math.sqrt(self._low * self._high)

    def _begin_holding(self) -> None:
        self._holds = 1
        self._rate = max(self._floor, self._low)

    def _told_whole(self, *, held: bool) -> None:
        if held:
            self._best = self._rate
        else:
            self._lowest = self._rate
        if self._best:
            is_near = self._lowest / self._best <= self._precision
            if is_near or self._lowest == math.inf or self._refinements == REFINEMENTS_MAX or self._is_hurried:
                self.held = self._best
            self._refinements += 1
            self._rate = math.sqrt(self._best * self._lowest)
        elif self._rate <= self._floor:
            self.held = 0.0
        else:
            self._rate = max(self._floor, self._rate / self._precision**self._holds)
            self._holds += 1
