"""Clients that have moved away and left word where they are, on our broker: for how long that stays there.

Whoever comes back to us while it stays goes on to where it was moved. Whoever comes back later begins anew with us: it
is served with what it subscribes to then, and what its other broker has kept for it stays there, until its lease there
and the broker's own limit on sessions are over. So a word that goes before its time is counted.
"""

import heapq

from mqloom.core.ids import ClientId
from mqloom.core.limits import POINTERS_MAX


class Pointers:
    """Words of clients, each until its lease is over; past POINTERS_MAX the oldest is pushed out."""

    def __init__(self) -> None:
        self._until: dict[ClientId, float] = {}  # the one noted longest ago comes first
        self._heap: list[tuple[float, ClientId]] = []  # entries of those that were noted anew are skipped

    def __len__(self) -> int:
        return len(self._until)

    def note(self, client: ClientId, until: float) -> None:
        """A client has left word, or left it again."""
        self._until.pop(client, None)
        self._until[client] = until
        if len(self._heap) > 2 * len(self._until) + 1_024:
            self._heap = [(at, known) for known, at in self._until.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (until, client))

    def forget(self, client: ClientId) -> None:
        """A client has written something else, or nothing, in its place."""
        self._until.pop(client, None)

    def pushed_out(self) -> list[ClientId]:
        """Return whose word has to go for others, each once: those that were noted longest ago."""
        clients = []
        while len(self._until) > POINTERS_MAX:
            client = next(iter(self._until))
            del self._until[client]
            clients.append(client)
        return clients

    def expired(self, now: float) -> list[ClientId]:
        """Return whose word is over, each once."""
        clients = []
        while self._heap and self._heap[0][0] <= now:
            until, client = heapq.heappop(self._heap)
            if self._until.get(client) == until:
                del self._until[client]
                clients.append(client)
        return clients

    @property
    def deadline(self) -> float | None:
        """When `pushed_out` and `expired` must be called."""
        if len(self._until) > POINTERS_MAX:
            return 0.0
        while self._heap and self._until.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
