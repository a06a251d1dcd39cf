"""Publications that take time: links with a latency, and uplinks that send one copy after the other.

The overlays are those of `OverlayNet`. A gateway that gets a publication decides at once where it goes; its copies wait
in the order in which they were decided upon, without a limit, until the uplink has sent those before them.
"""

import heapq
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Tell
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import BEGIN_S, TELL_EACH, Load
from mqloom.lab.overlay_workload import Workload

LATENCY_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Sent:
    """A publication on its way."""

    at: float
    wanting: frozenset[GatewayId]


@dataclass(slots=True)
class Flow:
    """What came where within the time."""

    publications: int = 0
    wanted: int = 0
    """Deliveries that there would be if all came in time, but for those at the origin."""
    deliveries: int = 0
    pure_forwards: int = 0
    hops: int = 0
    """Of all deliveries."""
    delay_s: float = 0.0
    """Of all deliveries."""
    sent: Counter[GatewayId] = field(default_factory=Counter)
    """Copies that each gateway decided to send, in time or not."""
    over_time: list[int] = field(default_factory=list)
    """Deliveries in each period."""
    delay_over_time: list[float] = field(default_factory=list)
    """The sum of their delays."""

    def deliver(self, sent: Sent, hops: int, at: float, period: int) -> None:
        """Take note of a delivery."""
        self.deliveries += 1
        self.hops += hops
        self.delay_s += at - sent.at
        self.delay_over_time.extend([0.0] * (period + 1 - len(self.over_time)))
        self.over_time.extend([0] * (period + 1 - len(self.over_time)))
        self.over_time[period] += 1
        self.delay_over_time[period] += at - sent.at

    @property
    def mean_hops(self) -> float:
        """The hops of a delivery, on average."""
        return self.hops / self.deliveries

    @property
    def mean_delay_s(self) -> float:
        """How long a delivery took, on average."""
        return self.delay_s / self.deliveries


def flow(
    net: OverlayNet,
    workload: Workload,
    load: Load,
    uplinks_per_s: Mapping[GatewayId, float] | None,
    seed: int,
    tell: Tell,
) -> Flow:
    """Let publications flow until the time is over: what is under way then is not delivered any more.

    Without uplinks a gateway can send any number of copies at once.
    """
    randomness = random.Random(f"{seed} overlay publications")  # noqa: S311 - an experiment, not a secret
    busy_s = {gateway: 1 / uplinks_per_s[gateway] if uplinks_per_s else 0.0 for gateway in workload.gateways}
    run = _Run(net, busy_s, BEGIN_S + load.length_s, load.period_s)
    net.start()
    publications = workload.publications(randomness)
    for number in range(load.publications):
        at = BEGIN_S + number / load.per_s
        run.until(at)
        origin, wanting = next(publications)
        run.publish(origin, wanting, at)
        if number % TELL_EACH == 0:
            tell(number / load.publications, f"{number:,} published")
    run.until(run.ends_at)
    for overlay in net.overlays.values():
        overlay.check()
    return run.flow


class _Run:
    def __init__(self, net: OverlayNet, busy_s: Mapping[GatewayId, float], ends_at: float, period_s: float) -> None:
        self.flow = Flow()
        self.ends_at = ends_at
        self._net = net
        self._busy_s = busy_s
        self._period_s = period_s
        self._free_at = dict.fromkeys(busy_s, 0.0)
        self._under_way: list[tuple[float, int, GatewayId, GatewayId, Sent, int]] = []
        self._order = 0

    def publish(self, origin: GatewayId, wanting: frozenset[GatewayId], at: float) -> None:
        self._net.run(at)
        self.flow.publications += 1
        self.flow.wanted += len(wanting) - (origin in wanting)
        self._send(origin, self._net.route(origin, wanting, None), Sent(at, wanting), 0, at)

    def until(self, until: float) -> None:
        while self._under_way and self._under_way[0][0] <= until:
            at, _, here, source, sent, hops = heapq.heappop(self._under_way)
            self._net.run(at)
            self._net.sent[source] += 1
            if here in sent.wanting:
                self.flow.deliver(sent, hops, at, int((at - BEGIN_S) / self._period_s))
            else:
                self.flow.pure_forwards += 1
            self._send(here, self._net.route(here, sent.wanting, source), sent, hops, at)

    def _send(self, here: GatewayId, targets: Sequence[GatewayId], sent: Sent, hops: int, at: float) -> None:
        self.flow.sent[here] += len(targets)
        for target in targets:
            gone_at = max(at, self._free_at[here]) + self._busy_s[here]
            self._free_at[here] = gone_at
            if gone_at + LATENCY_S <= self.ends_at:
                self._order += 1
                heapq.heappush(self._under_way, (gone_at + LATENCY_S, self._order, target, here, sent, hops + 1))
