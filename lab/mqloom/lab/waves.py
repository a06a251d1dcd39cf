"""The waves of one gateway by themselves, for tests of them alone and of many joined."""

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.messages import Message
from mqloom.gateway.flushes import Flushes
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.soft_links import SoftLinks
from mqloom.plugins.tree_overlay import TreeOverlay


class Waves:
    """The waves of one gateway, and what its neighbours are told."""

    def __init__(self, name: GatewayId, neighbours: list[GatewayId], *, reached: bool = True) -> None:
        self.name = name
        self.counters = Counters()
        self.outbox = Outbox()
        journal = Journal(self.counters)
        self.overlay = GuardedOverlay(name, TreeOverlay(name, neighbours), neighbours, journal)
        self.soft_links = SoftLinks(name, 1, journal)
        self.flushes = Flushes(name, 1, self.overlay, self.soft_links, self.outbox, journal)
        for neighbour in neighbours if reached else ():
            self.flushes.reach(neighbour)

    def told(self) -> dict[str, list[Message]]:
        """Return what each neighbour is told, since the last call."""
        self.flushes.check()
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}
