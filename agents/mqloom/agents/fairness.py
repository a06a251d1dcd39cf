"""Who may be moved: nobody twice within a while, and all together not more than a budget.

Beyond the paper. A move costs a client a connection, so one that has just come is not sent on; and a mistaken decision,
be it by wrong figures, does not move everybody at once.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import ClientId

RESTING_MAX: Final = 100_000
"""Clients that are known to rest; of more, those who have rested for longest may be moved again."""

BUDGET_S: Final = 60.0


class Fairness:
    """The moves of one broker, to others and from others."""

    def __init__(self, settings: BalanceSettings) -> None:
        self._rest_s = settings.rest_s
        self._moves_max = settings.moves_per_min
        self._resting: dict[ClientId, float] = {}  # until when; who has rested for longest first
        self._spent: deque[tuple[float, int]] = deque()

    def moved(self, clients: Iterable[ClientId], now: float) -> None:
        """These have moved, from here or to here: they rest."""
        if not self._rest_s:
            return
        for client in clients:
            self._resting.pop(client, None)
            if len(self._resting) >= RESTING_MAX:
                del self._resting[next(iter(self._resting))]
            self._resting[client] = now + self._rest_s

    def ordered(self, number: int, now: float) -> None:
        """So many are being moved away: they count in the budget, also those who will stay."""
        self._forget(now)
        self._spent.append((now, number))

    def left(self, now: float) -> int:
        """Return how many may be moved away now."""
        self._forget(now)
        return max(0, self._moves_max - sum(number for _, number in self._spent))

    def rested(self, clients: Collection[ClientId], now: float) -> list[ClientId]:
        """Return those who may be moved, in an order that depends on nothing else: by their names."""
        self._forget(now)
        return sorted(client for client in clients if client not in self._resting)

    def rested_at(self, clients: Collection[ClientId], now: float) -> float | None:
        """Return when the first of these may be moved, of whom none may now; None: nobody knows."""
        if not self.left(now):
            return self._spent[0][0] + BUDGET_S if self._spent else None
        return min((self._resting[client] for client in clients if client in self._resting), default=None)

    def _forget(self, now: float) -> None:
        while self._resting and next(iter(self._resting.values())) <= now:
            del self._resting[next(iter(self._resting))]
        while self._spent and self._spent[0][0] + BUDGET_S <= now:
            self._spent.popleft()
