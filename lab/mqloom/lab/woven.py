"""Parts of a gateway with soft links, each alone, played by hand: an overlay, a routing table, the links."""

from collections.abc import Collection, Sequence

from mqloom.core.counters import Counters
from mqloom.core.effects import Effect, SendFrame
from mqloom.core.ids import Conversation, GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Message
from mqloom.core.publication import Publication
from mqloom.core.subscription import Subscription
from mqloom.core.wire import Ack, Frame, decode
from mqloom.gateway.custody import Duty, FromBroker
from mqloom.gateway.departures import Entry
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import LinkStood, OpenSoftLink, OverlayEffect, OverlayEvent, OverlayStarted
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.routes import Routes
from mqloom.gateway.soft_links import SoftLinks, SoftState
from mqloom.lab.gate import FIRST, US, A, B
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

C, FAR = GatewayId("C"), GatewayId("FAR")
SECOND = Conversation(1, 1)
UP, DOWN = LinkStood(FAR, up=True), LinkStood(FAR, up=False)


class WaysOverlay(TreeOverlay):
    """Knows for each gateway the way to it, opens the soft links it was told to, and goes as far as it can."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbours: Sequence[GatewayId],
        ways: dict[GatewayId, tuple[GatewayId, ...]],
        opens: Sequence[GatewayId] = (),
    ) -> None:
        super().__init__(gateway, neighbours)
        self.ways = {each: (each,) for each in neighbours} | ways
        self.opens = opens
        self.standing: set[GatewayId] = set()
        self.answers: list[OverlayEffect] = []
        self.primary = set(neighbours)

    def route(self, wanted: Collection[GatewayId], source: GatewayId | None) -> list[GatewayId]:
        """Return the farthest gateways on the ways to whom it is for, without those behind others."""
        side = self.ways[source][0] if source is not None else None
        ways = [self.ways[each] for each in wanted if each in self.ways and self.ways[each][0] != side]
        hops = {next(each for each in reversed(way) if each in self.standing | self.primary) for way in ways}
        return sorted(hop for hop in hops if not hops.intersection(self.ways[hop][:-1]))

    def knows(self, gateway: GatewayId) -> bool:
        """Whether there is a way to a gateway."""
        return gateway in self.ways

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """Keep an anchor to which there is a way."""
        return anchor if anchor in self.ways else neighbour

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Name the anchor as it is."""
        assert anchor is not None
        return anchor

    def handle(self, event: OverlayEvent, now: float) -> list[OverlayEffect]:
        """Open what is to be opened; answer what was prepared when a soft link stands or falls."""
        if isinstance(event, OverlayStarted):
            return [OpenSoftLink(each) for each in self.opens]
        if isinstance(event, LinkStood) and event.gateway not in self.primary:
            (self.standing.add if event.up else self.standing.discard)(event.gateway)
            answers, self.answers = self.answers, []
            return answers
        return []


def each(neighbours: str, messages: list[Message]) -> dict[str, list[Message]]:
    """Return the same messages for each of the neighbours, which have names of one letter."""
    return {neighbour: list(messages) for neighbour in neighbours}


class RouteTable:
    """Routes with three neighbours, and what they are told."""

    def __init__(self, *, opened: bool = True) -> None:
        self.counters = Counters()
        self.outbox = Outbox()
        self.matcher = ScanMatcher()
        neighbours = [A, B, C]
        journal = Journal(self.counters)
        overlay = GuardedOverlay(US, TreeOverlay(US, neighbours), neighbours, journal)
        self.routes = Routes(neighbours, self.matcher, overlay, self.outbox, journal)
        if opened:
            for neighbour in neighbours:
                self.routes.open_link(neighbour)
            self.told()

    def told(self) -> dict[str, list[Message]]:
        """Return what neighbours were told since the last call."""
        self.routes.check()
        return {neighbour: messages for neighbour, messages in self.outbox.drain().items() if messages}


def announce(which: SubscriptionKey, wish: Subscription) -> Announce:
    """Return the announcement of a wish."""
    return Announce(which, wish.topics, str(wish.where))


class Weft:
    """The soft links of one gateway, tended as the node does after every event."""

    def __init__(self, *peers: GatewayId) -> None:
        self.counters = Counters()
        self.links = SoftLinks(US, 1, Journal(self.counters))
        self.now = 0.0
        self.frames: list[Frame] = []  # of the last event
        self.effects: list[Effect] = []
        self.changes: list[LinkStood] = []
        self.returned: list[Entry] = []
        self.posted = 0
        for peer in peers:
            self.links.open(peer)
        self.tend()

    def tend(self) -> "Weft":
        """Do what a node does after every event."""
        self.links.check()
        self.links.sweep(self.now)
        self.changes = self.links.stood()
        self.returned = [entry for _, entry in self.links.returned()]
        self.effects = self.links.drain(self.now)
        self.frames = [decode(each.frame) for each in self.effects if isinstance(each, SendFrame)]
        self.links.check()
        return self

    def connected(self, peer: GatewayId = FAR) -> "Weft":
        """Let the connection of a link stand."""
        self.links.connected(peer, self.now)
        return self.tend()

    def lost(self, peer: GatewayId = FAR) -> "Weft":
        """Let the connection of a link be lost."""
        self.links.lost(peer)
        return self.tend()

    def ack(
        self, received: int, done: int = 0, *, conversation: Conversation = FIRST, ahead: tuple[int, ...] = ()
    ) -> list[Entry]:
        """Let FAR acknowledge; return what it has taken care of."""
        taken = list(self.links.acknowledged(FAR, Ack(FAR, conversation, received, done, ahead), self.now))
        self.tend()
        return taken

    def post(self, count: int = 1, qos: int = 1, peer: GatewayId = FAR) -> list[Entry]:
        """Give a link so many publications to carry, and return them."""
        entries = []
        for _ in range(count):
            duty = Duty(FromBroker(self.posted)) if qos else None
            entries.append(Entry(Publication(US, 1, self.posted, 0, 1, "t", b"", qos), duty))
            self.posted += 1
        for entry in entries:
            self.links.post(peer, entry)
        self.tend()
        return entries

    def close(self, peer: GatewayId = FAR) -> "Weft":
        """Have a link closed."""
        self.links.close(peer, self.now)
        return self.tend()

    def wait(self, seconds: float) -> "Weft":
        """Let time pass."""
        self.now += seconds
        self.links.wake(self.now)
        return self.tend()

    @property
    def state(self) -> SoftState | None:
        """How the link to FAR stands."""
        return self.links.states().get(FAR)


def opening() -> Weft:
    """Return a link that waits for its connection."""
    return Weft(FAR)


def greeting() -> Weft:
    """Return a link that waits for the answer to its greeting."""
    return opening().connected()


def up() -> Weft:
    """Return a link that stands."""
    weft = greeting()
    weft.ack(1)
    assert weft.changes == [UP]
    return weft


def publications_in(frames: Sequence[Frame]) -> list[int]:
    """Return the numbers of the publications in frames."""
    return [each.sequence for frame in frames for each in frame.messages if isinstance(each, Publication)]
