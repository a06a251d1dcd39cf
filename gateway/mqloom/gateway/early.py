"""What neighbours sent before we knew what our own clients want: it waits until their records are read."""

from mqloom.core.ids import GatewayId
from mqloom.core.limits import HELD_BYTES_MAX, HELD_MAX
from mqloom.core.publication import Publication
from mqloom.gateway.custody import Duty
from mqloom.gateway.journal import Journal

Held = tuple[Publication, Duty | None, GatewayId]
"""A publication, its duty if it has one, and who sent it."""


class Early:
    """What came too early to one gateway. What has a duty is bounded by the windows of the links."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held: list[Held] = []
        self._bytes = 0
        self.is_over = False
        """Whether nothing is held any more."""

    def hold(self, publication: Publication, duty: Duty | None, sender: GatewayId) -> None:
        """Keep one; of QoS 0 only while there is room."""
        size = len(publication.payload)
        if duty is None and (len(self._held) >= HELD_MAX or self._bytes + size > HELD_BYTES_MAX):
            text = "of QoS 0, came before we knew what our own clients want"
            self._journal.refuse("publications_dropped", "start", text)
            return
        self._bytes += size
        self._held.append((publication, duty, sender))

    def end(self) -> list[Held]:
        """Return what was held, in its order; from now on nothing is."""
        self.is_over = True
        held, self._held = self._held, []
        return held
