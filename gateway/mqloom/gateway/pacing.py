"""A line of bounded speed: what is put in comes out in its order, no faster than so many bytes a second.

What has to wait leaves in slices of SLICE_S, many at once. One by one, each would be a waking of its own, and so would
its acknowledgement: a line that is nearly full would cost several times the processor time of one that is not. What
comes late, because whoever runs it was busy, is made up for: up to LATE_S. More than OUTPUT_QUEUE_S may take to send
is crowded: then what may be dropped is, and whoever causes the rest should pause.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

OUTPUT_QUEUE_S: Final = 1.0
"""How long what waits may take to send until the line is crowded; it is not any more at a quarter of that."""

LATE_S: Final = 0.08
"""How much time is made up for."""

SLICE_S: Final = 0.04
"""The least time between two sendings of what had to wait."""

Action = Callable[[], None]


class Pacer:
    """One line."""

    def __init__(self, bytes_s_max: float) -> None:
        assert bytes_s_max > 0
        self._bytes_s_max = bytes_s_max
        self._free_at = 0.0
        self._sent_at = 0.0
        self._queue: deque[tuple[int, Action]] = deque()
        self.waiting_bytes = 0

    def put(self, size: int, action: Action) -> None:
        """Let something wait for its turn: `action` sends it."""
        self._queue.append((size, action))
        self.waiting_bytes += size

    def send(self, now: float) -> None:
        """Send what has its turn."""
        self._sent_at = now
        while self._queue and self._free_at <= now:
            size, action = self._queue.popleft()
            self.waiting_bytes -= size
            self._free_at = max(self._free_at, now - LATE_S) + size / self._bytes_s_max
            action()

    @property
    def next_at(self) -> float | None:
        """When `send` must be called."""
        return max(self._free_at, self._sent_at + SLICE_S) if self._queue else None

    @property
    def is_crowded(self) -> bool:
        """Whether more waits than may."""
        return self.waiting_bytes > self._bytes_s_max * OUTPUT_QUEUE_S

    @property
    def has_room(self) -> bool:
        """Whether so little waits again that whoever paused may go on."""
        return self.waiting_bytes <= self._bytes_s_max * OUTPUT_QUEUE_S / 4
