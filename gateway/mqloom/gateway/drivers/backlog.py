"""Messages that a connection has brought, and the event loop has not handled yet: bounded, and out in batches.

A broker writes message by message, and a batch costs as much as several messages. So where a connection gathers, the
next batch begins `GATHER_TIMES` as long after the last one as that took, and holds what has come meanwhile. The busier
a gateway is, the larger its batches are; one that has little to do hands over at once what comes.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from mqloom.core.limits import (
    DRIVER_BACKLOG_BYTES_MAX,
    DRIVER_BACKLOG_MAX,
    DRIVER_BATCH_MAX,
    GATHER_S_MAX,
    GATHER_TIMES,
)
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, Token


class Backlog:
    """The queue of one connection. `add` may be called by another thread, everything else by the event loop's."""

    def __init__(
        self,
        plan: ConnectionPlan,
        acknowledge: Callable[[Sequence[Token]], None],
        on_less: Callable[[], None] | None = None,
    ) -> None:
        self._plan = plan
        self._acknowledge = acknowledge
        self._on_less = on_less
        self._loop = asyncio.get_running_loop()
        self._messages: deque[Received] = deque()
        self._bytes = 0
        self._handed = 0  # messages that are in the queue no more
        self._behind: deque[tuple[int, Callable[[], None]]] = deque()
        self._lock = threading.Lock()
        self._due_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._is_paused = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is handed over."""
        return self._is_paused

    def is_over(self, share: float) -> bool:
        """Whether more than a share of what may be held is."""
        return len(self._messages) > DRIVER_BACKLOG_MAX * share or self._bytes > DRIVER_BACKLOG_BYTES_MAX * share

    def add(self, messages: Sequence[Received]) -> bool:
        """Take what has come; whether `hand_over` must be called soon. What there is no room for is dropped, and told.

        QoS 1 is always taken: its acknowledgement keeps the broker from sending ever more.
        """
        dropped = 0
        with self._lock:
            for message in messages:
                if not message.qos and self._is_full:
                    dropped += 1
                    continue
                self._messages.append(message)
                self._bytes += len(message.payload)
            is_first = bool(self._messages) and not self._is_scheduled
            self._is_scheduled = self._is_scheduled or is_first
        if dropped and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_dropped, dropped)
        return is_first

    @property
    def _is_full(self) -> bool:
        return len(self._messages) >= DRIVER_BACKLOG_MAX or self._bytes >= DRIVER_BACKLOG_BYTES_MAX

    def _tell_dropped(self, count: int) -> None:
        for _ in range(count):
            self._plan.on_drop("backlog full")

    def hand_over(self) -> None:
        """Let the next batch be handled, in its time, and come again if there are more."""
        if self._waiting is not None:
            return
        if self._loop.time() < self._due_at:
            self._waiting = self._loop.call_at(self._due_at, self._hand_over)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        self._waiting = None
        if self._is_paused:
            return
        with self._lock:
            count = min(len(self._messages), DRIVER_BATCH_MAX)
            batch = [self._messages.popleft() for _ in range(count)]
            self._handed += count
            self._bytes -= sum(len(message.payload) for message in batch)
            self._is_scheduled = is_more = bool(self._messages)
        if batch and not self._is_closed:
            began = self._loop.time()
            self._plan.on_messages(batch)
            if self._plan.gathers:
                self._due_at = began + min(GATHER_TIMES * (self._loop.time() - began), GATHER_S_MAX)
            if self._plan.acknowledges:
                self._acknowledge([message.token for message in batch if message.qos])
        self._call_behind()
        if self._on_less is not None:
            self._on_less()
        if is_more:
            self._loop.call_soon(self.hand_over)

    def in_order(self, function: Callable[[], None]) -> None:
        """Call a function behind what is in the queue now; never, if the connection breaks."""
        with self._lock:
            place = self._handed + len(self._messages)
        self._behind.append((place, function))
        self._call_behind()

    def _call_behind(self) -> None:
        while self._behind and self._behind[0][0] <= self._handed:
            self._behind.popleft()[1]()

    def pause(self) -> None:
        """Hand nothing over until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Hand over again, behind whatever the event loop is doing now."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self.hand_over)

    def forget(self, connection: int) -> None:
        """A connection broke: what it brought of QoS 1 comes again."""
        self._behind.clear()
        with self._lock:
            kept = [each for each in self._messages if not each.qos or each.token[0] > connection]
            self._handed += len(self._messages) - len(kept)
            self._messages = deque(kept)
            self._bytes = sum(len(message.payload) for message in kept)

    def close(self) -> None:
        """Hand nothing over any more."""
        self._is_closed = True
