"""Runs a workload through a federation of overlays, and counts."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import Tell
from mqloom.lab.overlay_net import Journey, OverlayNet
from mqloom.lab.overlay_workload import Workload

BEGIN_S: Final = 1.0
"""When publishing begins: all maps are told by then; of soft links there is none yet."""

TELL_EACH: Final = 500


@dataclass(slots=True)
class Tally:
    """What became of publications."""

    publications: int = 0
    deliveries: int = 0
    """Copies that came to gateways that wanted them."""
    pure_forwards: int = 0
    wrong: int = 0
    """Deliveries missing, and copies that came to a gateway a second time."""
    lengths: Counter[int] = field(default_factory=Counter)
    """How many deliveries came after so many hops."""
    over_time: list[int] = field(default_factory=list)
    """Pure forwards in each period."""

    def count(self, origin: GatewayId, wanting: frozenset[GatewayId], journey: Journey) -> None:
        """Take note of one publication."""
        depth = {origin: 0}
        for source, target in journey.hops:  # each gateway sends after it has got it
            depth.setdefault(target, depth[source] + 1)
        delivered = [depth[gateway] for gateway in wanting if gateway != origin and gateway in depth]
        self.publications += 1
        self.deliveries += len(delivered)
        self.pure_forwards += journey.pure_forwards(wanting)
        self.wrong += len(wanting - depth.keys()) + len(journey.hops) + 1 - len(depth)
        self.lengths.update(delivered)

    @property
    def share_delivered(self) -> float:
        """The system yield of section 7: deliveries among all copies."""
        return self.deliveries / (self.deliveries + self.pure_forwards)

    @property
    def mean_length(self) -> float:
        """The hops of a delivery, on average."""
        return sum(hops * count for hops, count in self.lengths.items()) / self.lengths.total()

    def curve(self) -> tuple[tuple[float, float], ...]:
        """Return what share of the deliveries came after at most so many hops, in percent."""
        total, came = self.lengths.total(), 0
        points = [(0.0, 0.0)]
        for hops in range(1, max(self.lengths) + 1):
            came += self.lengths[hops]
            points.append((float(hops), 100 * came / total))
        return tuple(points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is published: so many a second, evenly, for so long; `period_s` is how often links are judged."""

    per_s: float
    length_s: float
    period_s: float = 20.0

    @property
    def publications(self) -> int:
        """How many there are."""
        return round(self.per_s * self.length_s)


def publish_all(net: OverlayNet, workload: Workload, load: Load, seed: int, tell: Tell) -> Tally:
    """Let publications come while links are woven; all are counted, those before there is any soft link too."""
    randomness = random.Random(f"{seed} overlay publications")  # noqa: S311 - an experiment, not a secret
    tally = Tally()
    net.start()
    publications = workload.publications(randomness)
    for number in range(load.publications):
        net.run(BEGIN_S + number / load.per_s)
        origin, wanting = next(publications)
        before = tally.pure_forwards
        tally.count(origin, wanting, net.publish(origin, wanting))
        period = int(number / load.per_s / load.period_s)
        tally.over_time.extend([0] * (period + 1 - len(tally.over_time)))
        tally.over_time[period] += tally.pure_forwards - before
        if number % TELL_EACH == 0:
            tell(number / load.publications, f"{number:,} published")
    for overlay in net.overlays.values():
        overlay.check()
    return tally
