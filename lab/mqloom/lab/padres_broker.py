"""A broker of paper 000's simulation: an input queue, a matching engine, an output queue; no more than its arithmetic.

Publications are numbers. They are matched one after the other, and their copies sent one after the other. Both are
worked out when somebody wants to know how things stand, for all that have begun by then at once: with services
s1, s2, ... and their sums C, the end of the i-th is C(i) + max(free, a(1), a(2) - C(1), ..., a(i) - C(i-1)), where a is
when it came and `free` when the one before was done.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.load import Load, output_utilisation
from mqloom.lab.padres_setups import MEMORY_EACH, BrokerSetup, DelayLaw

Times = NDArray[np.float64]
Numbers = NDArray[np.int64]
"""Of publications; a negative number is a mark, which takes no time, and comes after all before it."""


class Begun(NamedTuple):
    """What a broker has begun to match: which, and when they begin and are done."""

    items: Numbers
    starts: Times
    ends: Times


class ModelBroker:
    """One broker; what is put in arrives behind what was put in before."""

    def __init__(self, name: GatewayId, setup: BrokerSetup, law: DelayLaw, message_bytes: int) -> None:
        self.name = name
        self.setup = setup
        self.subscriptions = 0
        """How many stand in the matching engine."""
        self.sent_by = 0.0
        """When all copies made so far are sent."""
        self.each_s = message_bytes / setup.bytes_s
        """What it takes to send one copy."""
        self._law = law
        self._size = message_bytes
        self._free_at = 0.0
        self._last_arrival = 0.0
        self._items: list[Numbers] = []
        self._arrivals: list[Times] = []
        self._meter = _Meter(setup.bytes_s)

    @property
    def delay_s(self) -> float:
        """What a publication takes to match now."""
        return self._law.at(self.subscriptions, self.setup.speed)

    def put(self, items: Numbers, arrivals: Times) -> None:
        """Let something arrive, in order."""
        if len(items):
            arrivals = np.maximum(arrivals, self._last_arrival)
            self._last_arrival = float(arrivals[-1])
            self._items.append(items)
            self._arrivals.append(arrivals)
            self._meter.arrivals.append(arrivals[items >= 0])

    def begin(self, now: float) -> Begun | None:
        """Begin to match whatever its turn has come for by now."""
        if not self._items:
            return None
        items, arrivals = np.concatenate(self._items), np.concatenate(self._arrivals)
        delay_s = self.delay_s
        services = np.where(items >= 0, delay_s, 0.0)
        starts, ends = _served(arrivals, services, self._free_at)
        count = int(np.searchsorted(starts, now, side="right"))
        self._items = [items[count:]] if count < len(items) else []
        self._arrivals = [arrivals[count:]] if count < len(items) else []
        if not count:
            return None
        self._free_at = float(ends[count - 1])
        self._meter.matched(int(np.count_nonzero(items[:count] >= 0)), delay_s)
        return Begun(items[:count], starts[:count], ends[:count])

    def send(self, queued_at: Times, copies: Numbers) -> Times:
        """Send so many copies of each of what was matched; returns when the first of each begins to be sent."""
        starts, ends = _served(queued_at, copies.astype(np.float64) * self.each_s, self.sent_by)
        self.sent_by = max(self.sent_by, float(ends[-1]))
        self._meter.sends.append(np.stack([queued_at, starts, ends]))
        return starts

    def waiting_bytes(self, now: float) -> float:
        """Return what waits in both queues."""
        return sum(map(len, self._items)) * self._size + max(0.0, self.sent_by - now) * self.setup.bytes_s

    def sample(self, now: float) -> Load:
        """Return the load since the last sample; everything that has begun by now must have been."""
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
        self.arrivals: list[Times] = []
        self.sends: list[Times] = []
        """Of batches of copies: when each was queued, and when it begins and ends to be sent."""
        self._bytes_s = bytes_s
        self._since = 0.0
        self._delays_s, self._matched = 0.0, 0

    def matched(self, count: int, delay_s: float) -> None:
        self._delays_s += count * delay_s
        self._matched += count

    def window(self, now: float, delay_s: float) -> tuple[float, float, float, float]:
        """Return publications a second, their mean delay, the output utilisation, and bytes a second."""
        since, self._since = self._since, now
        window_s = now - since
        arrivals = np.concatenate(self.arrivals) if self.arrivals else np.empty(0)
        arrived = int(np.searchsorted(arrivals, now, side="right"))
        self.arrivals = [arrivals[arrived:]]
        if self._matched:
            delay_s = self._delays_s / self._matched
        self._delays_s, self._matched = 0.0, 0
        queued_at, starts, ends = np.concatenate(self.sends, axis=1) if self.sends else np.empty((3, 0))
        is_new = (queued_at > since) & (queued_at <= now)
        queued_s = float(np.sum(ends[is_new] - starts[is_new]))
        busy_s = float(np.sum(np.maximum(0.0, np.minimum(ends, now) - np.maximum(starts, since))))
        is_open = (ends > now) | (queued_at > now)
        self.sends = [np.stack([queued_at[is_open], starts[is_open], ends[is_open]])]
        output = output_utilisation(busy_s, window_s, queued_s * self._bytes_s, busy_s * self._bytes_s)
        return arrived / window_s, delay_s, output, busy_s / window_s * self._bytes_s


def _served(arrivals: Times, services: Times, free_at: float) -> tuple[Times, Times]:
    """Return when each begins and ends to be served, one after the other."""
    sums = np.cumsum(services)
    before = sums - services
    starts = before + np.maximum(np.maximum.accumulate(arrivals - before), free_at)
    return starts, starts + services
