"""Virtual time: everything that happens is an entry in a heap, ordered by time and then by the order of its making.

So a run is the same whenever what it draws is the same, and an hour in which nothing happens costs nothing.
"""

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Timer:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("_action",)

    def __init__(self, action: Action) -> None:
        self._action: Action | None = action

    def cancel(self) -> None:
        """Let it not happen; harmless when it has."""
        self._action = None

    def __call__(self) -> None:
        """Let it happen, once."""
        action, self._action = self._action, None
        if action is not None:
            action()


class Clock:
    """The time of one world, in seconds; it begins at 0."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Action]] = []
        self._order = 0

    def at(self, time: float, action: Action) -> None:
        """Do something at a time; what lies in the past is done now, behind what is due already."""
        self._order += 1
        heapq.heappush(self._heap, (max(time, self.now), self._order, action))

    def timer_at(self, time: float, action: Action) -> Timer:
        """Do something at a time, unless the timer is cancelled before."""
        timer = Timer(action)
        self.at(time, timer)
        return timer

    def run_events(self, number: int) -> None:
        """Let time pass until so many events have happened since the beginning."""
        while self._heap and self.events < number:
            self.now, _, action = heapq.heappop(self._heap)
            self.events += 1
            action()

    def run(self, until: float) -> None:
        """Let time pass."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _, action = pop(heap)
            self.events += 1
            action()
        self.now = max(self.now, until)

    def __len__(self) -> int:
        """How many entries wait, those of cancelled timers included."""
        return len(self._heap)
