"""An overlay whose mistakes cost no more than its advice: it is counted, and the primary links serve without it."""

from collections.abc import Callable, Collection, Sequence

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import Overlay
from mqloom.gateway.journal import Journal, PluginFailed


class GuardedOverlay:
    """An overlay plugin, asked with care: what raises, or names somebody who is no neighbour, counts as a failure."""

    def __init__(self, overlay: Overlay, neighbours: Sequence[GatewayId], journal: Journal) -> None:
        self._overlay = overlay
        self._neighbours = tuple(neighbours)
        self._journal = journal

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Ask where a subscription travels on; without an answer, to everybody but the source."""
        return self._ask(lambda: self._overlay.spread(source), self._neighbours, source)

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Ask where a publication goes; without an answer, to all that want it but the source."""
        return self._ask(lambda: self._overlay.route(wanted, source), wanted, source)

    def _ask(
        self, ask: Callable[[], Sequence[GatewayId]], otherwise: Collection[GatewayId], source: GatewayId | None
    ) -> Sequence[GatewayId]:
        try:
            return self._journal.guard("overlay", self._checked, ask)
        except PluginFailed:
            return [each for each in self._neighbours if each in otherwise and each != source]

    def _checked(self, ask: Callable[[], Sequence[GatewayId]]) -> Sequence[GatewayId]:
        answer = ask()
        for each in answer:
            if each not in self._neighbours:
                raise ValueError(f"it named {each!r:.100}, which is no neighbour")
        return answer
