"""What telemetry counts of the traffic of one gateway, by link and by group of subscribers: nothing until asked for.

Theory of operation. What came in over links is counted exactly, a batch at a time. What of it went where is looked at
in samples, because a look at every publication costs more than telemetry may: some batches are looked at, and each
stands for those since the one before. While there are few publications, that is every batch, and all is exact. When a
window has had SAMPLES_MAX samples, half as many batches are looked at from then on, and the next window begins so that
it would have had about SAMPLES_MAX: so the cost of a window is bounded, whatever the load. How many are passed over
varies, as if by chance, or batches that come in turns would be looked at always, or never.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.core.records import PaintedLink
from mqloom.gateway.groups import GroupTold
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.links import Link
from mqloom.gateway.portraits import as_it_stands
from mqloom.gateway.routes import Routes

SAMPLES_MAX: Final = 2_000
"""Publications of a window that are looked at before only every other one is."""

OF_BATCH: Final = 8
"""So many publications of a batch are looked at, its first, unless all are: as many of more batches tell more."""


@dataclass(slots=True)
class LinkTally:
    """What went over one link since the window began."""

    sent: float = 0
    pure_forwards: float = 0
    sent_bytes: float = 0
    received: int = 0
    received_unwanted: int = 0


class Tallied(NamedTuple):
    """What a window has seen."""

    links: Sequence[tuple[PaintedLink, LinkTally]]
    groups: Sequence[GroupTold]


class Tally:
    """What is counted of one gateway's traffic."""

    def __init__(self, routes: Routes, overlay: GuardedOverlay, links: Mapping[GatewayId, Link]) -> None:
        self._routes = routes
        self._overlay = overlay
        self._neighbours = links
        self._links: dict[GatewayId, LinkTally] = {}
        self._stride = 1
        self._chance = 1
        self._passed = 0
        """Publications since the last sample."""
        self._pass_over = 0
        """So many are passed over before the next."""
        self._samples = 0
        self._seen = 0
        self.is_on = False
        """Whether anything is counted."""

    def routed(
        self,
        publications: Sequence[Publication],
        split: Sequence[tuple[Collection[SubscriptionKey], Sequence[GatewayId]]],
        source: GatewayId | None,
        unwanted: int,
    ) -> None:
        """Publications from one side went to these subscriptions of our own clients, and over these links.

        Of those from another gateway so many were for nobody here.
        """
        if not self.is_on:
            return
        count = len(publications)
        self._seen += count
        self._passed += count
        if source is not None:
            link = self._links.setdefault(source, LinkTally())
            link.received += count
            link.received_unwanted += unwanted
        if self._passed >= self._pass_over:
            taken = count if self._stride == 1 else min(count, OF_BATCH)
            self._sample(publications[:taken], split[:taken], self._passed / taken, is_passing=source is not None)
            self._passed = 0
            self._pass_over = self._next(taken)

    def _next(self, taken: int) -> int:
        """Return how many are passed over after a sample of so many."""
        self._samples += taken
        if self._samples >= SAMPLES_MAX:
            self._samples = 0
            self._stride *= 2
        if self._stride == 1:
            return 0
        self._chance = self._chance * 48_271 % 2_147_483_647  # numbers as if drawn: the minimal standard generator
        return round(self._stride * taken * (0.5 + self._chance / 2_147_483_647))

    def _sample(
        self,
        publications: Sequence[Publication],
        split: Sequence[tuple[Collection[SubscriptionKey], Sequence[GatewayId]]],
        weight: float,
        *,
        is_passing: bool,
    ) -> None:
        links, groups = self._links, self._routes.groups
        for publication, (here, hops) in zip(publications, split, strict=True):
            if here:
                groups.matched(here, len(publication.payload), weight)
            for hop in hops:
                link = links.get(hop)
                if link is None:
                    link = links[hop] = LinkTally()
                link.sent += weight
                link.sent_bytes += weight * (len(publication.payload) + len(publication.topic))
                if is_passing and not here:
                    link.pure_forwards += weight

    def window(self, groups_max: int, window_s: float) -> Tallied:
        """Return what the window of so many seconds has seen, and begin the next; the first call begins counting."""
        if not self.is_on:
            self._routes.groups.begin()
        groups = self._routes.groups.window(groups_max, window_s)
        self._stride = max(1, self._seen // SAMPLES_MAX)
        self._seen = self._samples = 0
        self._pass_over = 0
        links, self._links = self._links, {}
        painted = {link.gateway: as_it_stands(link, self._neighbours) for link in self._overlay.paint()[1]}
        for gateway in links:  # what came from a guest, or went over a link that is gone by now
            if gateway not in painted:
                painted[gateway] = PaintedLink(gateway=gateway, kind="soft", up=True, distance=1)
        self.is_on = True
        return Tallied([(link, links.get(name, LinkTally())) for name, link in painted.items()], groups)

    def stop(self) -> None:
        """Count no more."""
        self.is_on = False
        self._links, self._seen, self._passed = {}, 0, 0
