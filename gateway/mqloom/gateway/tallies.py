"""What telemetry counts of the traffic of one gateway, by link and by group of subscribers: nothing until asked for.

Theory of operation. Links are counted exactly. Groups are counted on samples, for a publication may match thousands of
subscriptions: every `stride`th publication that somebody here wants is looked at, and stands for so many. While there
are few, that is every one. When a window has had SAMPLES_MAX samples the stride is doubled, and the next window begins
with a stride by which it would have had about as many: so the cost of a window is bounded, whatever the load.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.core.records import PaintedLink
from mqloom.gateway.groups import Group
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.links import Link
from mqloom.gateway.portraits import as_it_stands
from mqloom.gateway.routes import Routes

SAMPLES_MAX: Final = 2_000
"""Publications of a window that are looked at for groups, before only every other one is."""


@dataclass(slots=True)
class LinkTally:
    """What went over one link since the window began."""

    sent: int = 0
    pure_forwards: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_unwanted: int = 0


class Tallied(NamedTuple):
    """What a window has seen."""

    links: Sequence[tuple[PaintedLink, LinkTally]]
    groups: Sequence[Group]


class Tally:
    """What is counted of one gateway's traffic."""

    def __init__(self, routes: Routes, overlay: GuardedOverlay, links: Mapping[GatewayId, Link]) -> None:
        self._routes = routes
        self._overlay = overlay
        self._neighbours = links
        self._links: dict[GatewayId, LinkTally] = {}
        self._stride = 1
        self._skipped = 0
        self._samples = 0
        self._seen = 0
        self._is_on = False

    def routed(
        self,
        publications: Sequence[Publication],
        split: Sequence[tuple[Collection[SubscriptionKey], Sequence[GatewayId]]],
        source: GatewayId | None,
    ) -> None:
        """Publications from one side went to these subscriptions of our own clients, and over these links."""
        if not self._is_on:
            return
        links, skipped, wanted, is_passing = self._links, self._skipped, 0, source is not None
        for publication, (here, hops) in zip(publications, split, strict=True):  # some tenths of a microsecond for each
            if here:
                wanted += 1
                skipped += 1
                if skipped >= self._stride:
                    self._sample(publication, here, skipped)
                    skipped = 0
            for hop in hops:
                link = links.get(hop)
                if link is None:
                    link = links[hop] = LinkTally()
                link.sent += 1
                link.sent_bytes += len(publication.payload) + len(publication.topic)
                if is_passing and not here:
                    link.pure_forwards += 1
        self._skipped = skipped
        self._seen += wanted
        if source is not None:
            link = links.setdefault(source, LinkTally())
            link.received += len(publications)
            link.received_unwanted += len(publications) - wanted

    def _sample(self, publication: Publication, here: Collection[SubscriptionKey], weight: int) -> None:
        self._routes.groups.matched(here, len(publication.payload), weight)
        self._samples += 1
        if self._samples % SAMPLES_MAX == 0:
            self._stride *= 2

    def window(self, groups_max: int) -> Tallied:
        """Return what the window has seen, and begin the next; from the first call on there is counting."""
        groups = self._routes.groups.window(groups_max)
        self._stride = max(1, self._seen // SAMPLES_MAX)
        self._seen = self._samples = 0
        links, self._links = self._links, {}
        painted = {link.gateway: as_it_stands(link, self._neighbours) for link in self._overlay.paint()[1]}
        for gateway in links:  # what came from a guest, or went over a link that is gone by now
            if gateway not in painted:
                painted[gateway] = PaintedLink(gateway=gateway, kind="soft", up=True, distance=1)
        self._is_on = True
        return Tallied([(link, links.get(name, LinkTally())) for name, link in painted.items()], groups)

    def stop(self) -> None:
        """Count no more."""
        self._is_on = False
        self._links, self._seen = {}, 0
