"""Clients that have moved away and left word where they are, on our broker: for how long that stays there."""

import heapq

from mqloom.core.ids import ClientId
from mqloom.core.limits import POINTERS_MAX


class Pointers:
    """Words of clients, each until its lease is over; past POINTERS_MAX the oldest is over at once."""

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

    def expired(self, now: float) -> list[ClientId]:
        """Return whose word is over, each once."""
        clients = []
        while len(self._until) > POINTERS_MAX:
            client = next(iter(self._until))
            del self._until[client]
            clients.append(client)
        while self._heap and self._heap[0][0] <= now:
            until, client = heapq.heappop(self._heap)
            if self._until.get(client) == until:
                del self._until[client]
                clients.append(client)
        return clients

    @property
    def deadline(self) -> float | None:
        """When `expired` must be called."""
        while self._heap and self._until.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
