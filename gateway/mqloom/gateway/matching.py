"""Who wants a publication: which of our own clients, and which neighbours lead to all others.

A neighbour from which we have not heard, in this life, everything that is wanted behind it may want anything: until it
says Synced, every publication of QoS 1 goes there, or into the park for it. What comes out of the park is sifted.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.gateway.contents import Contents
from mqloom.gateway.custody import Duty
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.guarded_matcher import GuardedMatcher
from mqloom.gateway.interfaces import Matcher
from mqloom.gateway.journal import Journal
from mqloom.gateway.routes import Routes


class Matching:
    """What one gateway knows about who wants what, asked for batches of publications."""

    def __init__(
        self,
        matcher: Matcher,
        contents: Contents,
        routes: Routes,
        overlay: GuardedOverlay,
        unheard: Iterable[GatewayId],
        set_aside: Callable[[Publication, Duty | None], None],
        journal: Journal,
    ) -> None:
        self._matcher = GuardedMatcher(matcher, routes, journal)
        self._contents = contents
        self._routes = routes
        self._overlay = overlay
        self._set_aside = set_aside
        self.unheard = set(unheard)
        """The neighbours that have not said everything yet."""

    def match(self, publications: Sequence[Publication], duties: Sequence[Duty | None]) -> list[list[SubscriptionKey]]:
        """Return which subscriptions want each; those on which the matcher fails twice are set aside."""
        found = self._matcher.match(self._contents.decode(publications))
        for publication, duty, keys in zip(publications, duties, found, strict=True):
            if keys is None:
                self._set_aside(publication, duty)
        return [keys or [] for keys in found]

    def split(
        self, keys: Sequence[SubscriptionKey], source: GatewayId | None, qos: int
    ) -> tuple[list[SubscriptionKey], Sequence[GatewayId]]:
        """Part the matched subscriptions into those of our own clients and the neighbours that lead to the rest."""
        here: list[SubscriptionKey] = []
        wanted: set[GatewayId] = set(self.unheard) if qos else set()
        for key in keys:
            anchor = self._routes.anchor_of(key)
            if anchor is None:
                here.append(key)
            else:
                wanted.add(anchor)
        return here, self._overlay.route(wanted, source, partial(self._sides, keys, qos)) if wanted else ()

    def sift(self, publications: Sequence[Publication], duty: Duty, neighbour: GatewayId) -> Sequence[Publication]:
        """Return those that a neighbour wants, or may want."""
        if neighbour in self.unheard:
            return publications
        found = self.match(publications, [duty] * len(publications))
        return [
            publication
            for publication, keys in zip(publications, found, strict=True)
            if any(self._routes.source_of(key) == neighbour for key in keys)
        ]

    def wanted_by(self, publication: Publication) -> list[SubscriptionKey]:
        """Return which subscriptions want a publication, for people: nothing is done with it. Raises PluginFailed."""
        return self._matcher.ask(self._contents.decode([publication]))[0]

    def _sides(self, keys: Sequence[SubscriptionKey], qos: int) -> set[GatewayId]:
        """Return the neighbours from which the matched subscriptions came."""
        sides = {side for key in keys if (side := self._routes.source_of(key)) is not None}
        return sides | self.unheard if qos else sides
