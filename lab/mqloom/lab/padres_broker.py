"""A broker of paper 000's simulation: an input queue, a matching engine, an output queue; no more than its arithmetic.

Publications are matched one after the other, and their copies sent one after the other. Both are worked out when
somebody wants to know how things stand: `advance(now)` begins everything that has begun by then. What a broker does to
a publication that it has matched, `handle` says: the federation has it.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from mqloom.core.ids import GatewayId
from mqloom.core.load import Load
from mqloom.lab.padres_setups import MEMORY_EACH, BrokerSetup, DelayLaw

NOTHING_SENT: Final = 2.0
"""The output utilisation of a window in which something waited and nothing was sent: overloaded, not idle."""


class Item(Protocol):
    """What waits in an input queue: a publication, or a mark that comes after all before it."""

    @property
    def is_mark(self) -> bool:
        """Whether it is a mark, and takes no time."""
        ...


class ModelBroker:
    """One broker. Times never run backwards: what is put in must arrive behind what was put in before."""

    def __init__(
        self,
        name: GatewayId,
        setup: BrokerSetup,
        law: DelayLaw,
        message_bytes: int,
        handle: "Callable[[ModelBroker, Item, float], int]",
    ) -> None:
        self.name = name
        self.setup = setup
        self.subscriptions = 0
        """How many stand in the matching engine."""
        self.sent_by = 0.0
        """When all copies made so far are sent."""
        self._law = law
        self._size = message_bytes
        self._handle = handle
        self._queue: deque[tuple[float, Item]] = deque()
        self._free_at = 0.0
        self._last_arrival = 0.0
        self._meter = _Meter(setup.bytes_s)

    @property
    def delay_s(self) -> float:
        """What a publication takes to match now."""
        return self._law.at(self.subscriptions, self.setup.speed)

    def put(self, item: Item, arrives_at: float) -> None:
        """Let something arrive."""
        self._last_arrival = arrives_at = max(arrives_at, self._last_arrival)
        self._queue.append((arrives_at, item))
        if not item.is_mark:
            self._meter.arrivals.append(arrives_at)

    def advance(self, now: float) -> None:
        """Begin to match whatever its turn has come for."""
        queue = self._queue
        while queue:
            arrives_at, item = queue[0]
            start = max(self._free_at, arrives_at)
            if start > now:
                return
            queue.popleft()
            if not item.is_mark:
                delay_s = self._law.at(self.subscriptions, self.setup.speed)
                self._free_at = start + delay_s
                self._meter.matched(delay_s)
            copies = self._handle(self, item, start)
            if copies:
                self.sent_by = self._meter.sends(self._free_at, self.sent_by, copies * self._size)

    def begins_sending(self) -> float:
        """Return when the first copy of what has just been matched begins to be sent; for `handle`."""
        return max(self._free_at, self.sent_by)

    def waiting_bytes(self, now: float) -> float:
        """Return what waits in both queues."""
        return len(self._queue) * self._size + max(0.0, self.sent_by - now) * self.setup.bytes_s

    def sample(self, now: float) -> Load:
        """Return the load since the last sample; `advance(now)` has been called."""
        rate, delay_s, output, bytes_s = self._meter.window(now, self.delay_s)
        memory = self.subscriptions * MEMORY_EACH + self.waiting_bytes(now)
        return Load(
            input_ratio=rate * delay_s,
            delay_s=delay_s,
            output_ratio=output,
            input_rate=rate,
            output_bytes_s=bytes_s,
            output_bytes_s_max=self.setup.bytes_s,
            subscriptions=self.subscriptions,
            cpu_ratio=min(1.0, rate * delay_s),
            memory_ratio=memory / self.setup.memory_bytes,
        )


class _Meter:
    """What has happened since the last sample: equations 1 and 3."""

    def __init__(self, bytes_s: float) -> None:
        self.arrivals: deque[float] = deque()
        self._bytes_s = bytes_s
        self._since = 0.0
        self._delays_s, self._matched = 0.0, 0
        self._sends: deque[tuple[float, float, float]] = deque()
        """Of batches of copies: when they were queued, and when they begin and end to be sent."""

    def matched(self, delay_s: float) -> None:
        self._delays_s += delay_s
        self._matched += 1

    def sends(self, queued_at: float, free_at: float, length: float) -> float:
        start = max(queued_at, free_at)
        end = start + length / self._bytes_s
        self._sends.append((queued_at, start, end))
        return end

    def window(self, now: float, delay_s: float) -> tuple[float, float, float, float]:
        """Return publications a second, their mean delay, the output utilisation, and bytes a second."""
        since, self._since = self._since, now
        window = now - since
        arrived = 0
        while self.arrivals and self.arrivals[0] <= now:
            self.arrivals.popleft()
            arrived += 1
        if self._matched:
            delay_s = self._delays_s / self._matched
        self._delays_s, self._matched = 0.0, 0
        queued_s = busy_s = 0.0
        for queued_at, start, end in self._sends:
            if since < queued_at <= now:
                queued_s += end - start
            if start < now:
                busy_s += min(end, now) - max(start, since)
        while self._sends and self._sends[0][2] <= now:
            self._sends.popleft()
        output = busy_s / window * (queued_s / busy_s) if busy_s else NOTHING_SENT if queued_s else 0.0
        return arrived / window, delay_s, output, busy_s / window * self._bytes_s
