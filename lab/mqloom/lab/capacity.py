"""What work costs: a station takes messages in order, each for its time, and holds so many bytes at most.

A broker or gateway has one for its input (time per message: its processor) and one for its output (time per byte: its
line). Without stations work takes no time at all. When the memory is full, whoever submits drops what may be dropped
(QoS 0); the rest waits on, and `held_bytes_max` tells how far it went.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mqloom.lab.clock import Clock


@dataclass(frozen=True, slots=True)
class Capacity:
    """Seconds per message, bytes per second (0: no bound), and bytes of memory (0: no bound)."""

    message_s: float = 0.0
    bytes_s: float = 0.0
    memory_bytes: int = 0


class Station:
    """A queue and a server; first in, first out."""

    def __init__(self, clock: Clock, capacity: Capacity) -> None:
        self._clock = clock
        self._capacity = capacity
        self._free_at = 0.0
        self.waiting = 0
        self.held_bytes = 0
        self.held_bytes_max = 0
        self.served = 0
        self.busy_s = 0.0
        self.waited_s = 0.0
        self.refused = 0

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may be held; a no is counted."""
        memory = self._capacity.memory_bytes
        fits = not memory or self.held_bytes + size <= memory
        self.refused += not fits
        return fits

    def submit(self, messages: int, size: int, action: Callable[[], None]) -> None:
        """Do something when its turn has come and its time is over."""
        now = self._clock.now
        work = messages * self._capacity.message_s
        if self._capacity.bytes_s:
            work += size / self._capacity.bytes_s
        begins = max(now, self._free_at)
        self._free_at = begins + work
        self.waiting += messages
        self.held_bytes += size
        self.held_bytes_max = max(self.held_bytes_max, self.held_bytes)
        self.busy_s += work
        self.waited_s += (begins - now) * messages

        def finish() -> None:
            self.waiting -= messages
            self.served += messages
            self.held_bytes -= size
            action()

        self._clock.at(self._free_at, finish)

    @property
    def delay_s(self) -> float:
        """How long something submitted now would wait."""
        return max(0.0, self._free_at - self._clock.now)
