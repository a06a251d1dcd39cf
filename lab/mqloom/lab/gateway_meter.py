"""The meter of a gateway in virtual time: the production's, fed by what work costs in the model.

Where a gateway has a station for its intake, that says how busy it is; else each publication costs `message_s`. What it
puts out for its clients takes its turn on a line of `bytes_s`: only so far as to be measured, nobody waits for it.
"""

from collections.abc import Callable

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.events import LoadMeasured
from mqloom.core.ids import GatewayId
from mqloom.gateway.meters import Figures, Meter
from mqloom.gateway.node import Node
from mqloom.lab.capacity import Capacity, Station
from mqloom.lab.clock import Clock, Timer


class GatewayMeter:
    """The meter of one life of a gateway, from its start to `stop`."""

    def __init__(
        self,
        gateway: GatewayId,
        node: Node,
        clock: Clock,
        work: Capacity,
        station: Station | None,
        window_s: float,
        handle: Callable[[LoadMeasured], None],
    ) -> None:
        self._node = node
        self._clock = clock
        self._work = work
        self._station = station
        self._window_s = window_s
        self._handle = handle
        self._meter = Meter(clock.now, work.bytes_s)
        self._for_clients = layout.for_clients(gateway)
        self._publications = 0
        self._busy_s = 0.0 if station is None else station.busy_s
        self._waiting = 0.0
        self._timer: Timer = clock.timer_at(clock.now + window_s, self._sample)

    def stop(self) -> None:
        """The gateway has crashed."""
        self._timer.cancel()

    def published(self, effect: PublishLocally) -> None:
        """Something was published on our own broker."""
        if effect.topic.startswith(self._for_clients):
            self._meter.queued_bytes += len(effect.topic) + len(effect.payload)

    def _sample(self) -> None:
        counters = self._node.counters
        publications = counters.total("publications_in") + counters.total("publications_received")
        if self._station is None:
            self._meter.busy_s += (publications - self._publications) * self._work.message_s
        else:
            self._meter.busy_s += self._station.busy_s - self._busy_s
            self._busy_s = self._station.busy_s
        self._publications = publications
        sent = self._work.bytes_s * self._window_s
        self._waiting = max(0.0, self._waiting + self._meter.queued_bytes - sent) if sent else 0.0
        figures = Figures(publications, self._node.subscriptions, waiting_bytes=int(self._waiting))
        self._timer = self._clock.timer_at(self._clock.now + self._window_s, self._sample)
        self._handle(LoadMeasured(load=self._meter.sample(figures, self._clock.now)))
