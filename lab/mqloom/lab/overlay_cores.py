"""Publications through brokers whose processors are the bottleneck: one core each, which does one thing at a time.

The overlays are those of `OverlayNet`. A publication waits in its broker's queue, without a limit, until the core has
done with those before it. Then it is matched, and where it goes is decided. To write a copy is one operation; to match
with `MATCHED` subscriptions is one too, and with more in proportion, as if each were looked at, whoever has it. A copy
takes `LATENCY_S` on its way.
"""

import heapq
import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Tell
from mqloom.lab.overlay_flow import LATENCY_S, Flow, Sent
from mqloom.lab.overlay_hops import DELTA
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import BEGIN_S, TELL_EACH, Load
from mqloom.lab.overlay_workload import Workload

PROBED: Final = 3_000
"""Publications by which S0's operations are counted."""

MATCHED: Final = 6_552
"""As many subscriptions are matched while a copy is written: the paper's C1."""

THIRD: Final = 1 / 3
"""The share of the publications at which the busiest core is full under S0, where nothing else is said."""

WARM: Final = Load(per_s=3.0, length_s=100.0)
QUICK_WARM: Final = Load(per_s=3.0, length_s=60.0)
"""What is published before anything counts: so little that nobody is busy, for some periods of weaving."""


@dataclass(frozen=True, slots=True)
class Busiest:
    """What the busiest broker does under S0, for each publication in the federation."""

    operations: float
    copies: float


def busiest_under_s0(workload: Workload, matching: float, seed: int) -> Busiest:
    """Count what brokers do under S0, where nothing waits; to match a publication is so many operations."""
    net = OverlayNet(workload.links, {gateway: {} for gateway in workload.gateways})
    net.start()
    publications = workload.publications(random.Random(f"{seed} overlay probe"))  # noqa: S311 - no secret
    matched, copies = Counter[GatewayId](), Counter[GatewayId]()
    for _ in range(PROBED):
        journey = net.publish(*next(publications))
        matched.update(journey.reached)
        copies.update(source for source, _ in journey.hops)

    def operations(gateway: GatewayId) -> float:
        return matching * matched[gateway] + copies[gateway]

    most = max(workload.gateways, key=operations)
    return Busiest(operations(most) / PROBED, copies[most] / PROBED)


class Core(NamedTuple):
    """How long one takes, in seconds."""

    match_s: float
    copy_s: float


def serve(net: OverlayNet, workload: Workload, loads: tuple[Load, ...], core: Core, seed: int, tell: Tell) -> Flow:
    """Let publications flow under one load after the other; return what came within the time of the last one.

    What is under way when the time is over is not delivered any more.
    """
    run = _Run(net, core, BEGIN_S + sum(load.length_s for load in loads[:-1]), loads[-1])
    drawn = workload.publications(random.Random(f"{seed} overlay publications"))  # noqa: S311 - no secret
    total = sum(load.publications for load in loads)
    net.start()
    for number, at in enumerate(_times(loads)):
        run.until(at)
        run.publish(*next(drawn), at)
        if number % TELL_EACH == 0:
            tell(number / total, f"{number:,} published")
    run.until(run.ends_at)
    for overlay in net.overlays.values():
        overlay.check()
    return run.flow


def _times(loads: tuple[Load, ...]) -> Iterator[float]:
    begin = BEGIN_S
    for load in loads:
        yield from (begin + number / load.per_s for number in range(load.publications))
        begin += load.length_s


class Waiting(NamedTuple):
    """A publication in the queue of a broker."""

    sent: Sent
    source: GatewayId | None
    hops: int


class _Run:
    def __init__(self, net: OverlayNet, core: Core, counts_from: float, load: Load) -> None:
        self.flow = Flow()
        self.ends_at = counts_from + load.length_s
        self._net = net
        self._core = core
        self._counts_from = counts_from
        self._period_s = load.period_s
        self._queues: dict[GatewayId, deque[Waiting]] = {gateway: deque() for gateway in net.overlays}
        """The first of each is with the core."""
        self._events: list[tuple[float, int, GatewayId, Waiting | None]] = []
        """What comes where; None: the core has done."""
        self._order = count()

    def publish(self, origin: GatewayId, wanting: frozenset[GatewayId], at: float) -> None:
        if at >= self._counts_from:
            self.flow.publications += 1
            self.flow.wanted += len(wanting) - (origin in wanting)
        self._take(origin, Waiting(Sent(at, wanting), None, 0), at)

    def until(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            at, _, here, came = heapq.heappop(self._events)
            if came is not None:
                if at >= self._counts_from:
                    self._count(here, came, at)
                if came.source is not None:
                    self._net.sent[came.source] += 1
                self._take(here, came, at)
                continue
            self._queues[here].popleft()
            if self._queues[here]:
                self._begin(here, at)

    def _count(self, here: GatewayId, came: Waiting, at: float) -> None:
        if here in came.sent.wanting:
            self.flow.deliver(came.sent, came.hops, at, int((at - self._counts_from) / self._period_s))
        else:
            self.flow.pure_forwards += 1

    def _take(self, here: GatewayId, came: Waiting, at: float) -> None:
        self._queues[here].append(came)
        if len(self._queues[here]) == 1:
            self._begin(here, at)

    def _begin(self, here: GatewayId, at: float) -> None:
        self._net.run(at)
        sent, source, hops = self._queues[here][0]
        targets = self._net.route(here, sent.wanting, source)
        self.flow.sent[here] += len(targets)
        done_at = at + self._core.match_s
        for target in targets:
            done_at += self._core.copy_s
            self._later(done_at + LATENCY_S, target, Waiting(sent, here, hops + 1))
        self._later(done_at, here, None)

    def _later(self, at: float, here: GatewayId, came: Waiting | None) -> None:
        if at <= self.ends_at:
            heapq.heappush(self._events, (at, next(self._order), here, came))


class Overload:
    """One federation under one load, which is too much for S0; each run is another strategy, fanout or capacity.

    For SH, and for the load that overlays tell, an uplink is what the busiest core sends under S0 when it is full.
    """

    def __init__(self, workload: Workload, subscriptions: int, loads: tuple[Load, ...], seed: int) -> None:
        self._workload = workload
        self._matching = subscriptions / MATCHED
        self._loads = loads
        self._seed = seed
        self._busiest = busiest_under_s0(workload, self._matching, seed)

    def run(self, strategy: str, fanout: int, saturated_at: float, tell: Tell) -> Flow:
        """Let it run on cores of which the busiest is full under S0 at this share of the publications."""
        per_s = saturated_at * self._loads[-1].per_s
        uplink_per_s = per_s * self._busiest.copies
        settings = {"strategy": strategy, "delta": DELTA, "fanout": fanout, "uplink_per_s": uplink_per_s}
        net = OverlayNet(self._workload.links, dict.fromkeys(self._workload.gateways, settings))
        copy_s = 1 / (per_s * self._busiest.operations)
        core = Core(match_s=self._matching * copy_s, copy_s=copy_s)
        return serve(net, self._workload, self._loads, core, self._seed, tell)
