"""The federation of paper 000's simulation: publications from the first head to every subscriber that wants them.

Every subscriber is a bit in the words of all brokers: those that have it in their matching engine, and those to which
the heads send what it wants. While it moves it has two, and drops what comes twice. What each should have got is known
from the moment of publishing, and is compared with what came: see `Ledger`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.poset import Change, Poset
from mqloom.core.subscription import Subscription
from mqloom.lab.clock import Clock
from mqloom.lab.padres_broker import Item, ModelBroker
from mqloom.lab.padres_ledger import Ledger
from mqloom.lab.padres_workload import Workload

Bits = NDArray[np.uint32]


@dataclass(slots=True)
class Journey:
    """One publication under way."""

    at: float
    quote: int
    version: int
    """Who was where when it was published."""
    matching: NDArray[np.int64]
    owed: NDArray[np.bool_]
    """Who of them was established when it was published."""
    got: Bits
    """From which brokers each has got it."""
    copies: int
    """How many brokers have yet to match it."""

    is_mark = False


@dataclass(slots=True)
class Mark:
    """Follows all that went before it from the first head to a broker."""

    target: GatewayId
    came: Callable[[float], None]
    """Called with the time at which all before it has been sent."""

    is_mark = True


class PadresNet:
    """Brokers, who is where, and what is under way; time passes with the clock, publications with `advance`."""

    def __init__(self, workload: Workload, clock: Clock) -> None:
        setup = workload.setup
        self.setup, self.workload, self.clock = setup, workload, clock
        self.brokers = {
            name: ModelBroker(name, setup.brokers[name], setup.law, setup.message_bytes, self._matched)
            for name in (*setup.heads, *setup.edges)
        }
        self.ledger = Ledger(len(workload.stays))
        self.messages: Counter[str] = Counter()
        """What has crossed a link or gone to a client, by kind."""
        self._bit = {edge: np.uint32(1 << number) for number, edge in enumerate(setup.edges)}
        self._head = {edge: head for head, edges in setup.clusters.items() for edge in edges}
        self._depth = {head: number for number, head in enumerate(setup.heads)}
        self._behind = self._masks()
        count = len(workload.stays)
        self._member: Bits = np.zeros(count, dtype=np.uint32)
        self._routed: Bits = np.zeros(count, dtype=np.uint32)
        self._present = np.zeros(count, dtype=np.bool_)
        self.at: dict[GatewayId, dict[int, None]] = {edge: {} for edge in setup.edges}
        """The subscribers in the matching engine of each edge, in the order in which they came."""
        self.posets: dict[GatewayId, Poset[int]] = {edge: Poset() for edge in setup.edges}
        self._maximal = dict.fromkeys(setup.edges, 0)
        """How many subscriptions of each edge cover all others."""
        self._version = 0
        """Counts the changes of who is where; what was worked out since the last one holds."""
        self._owing: dict[int, tuple[int, NDArray[np.bool_]]] = {}
        self._ways: dict[tuple[GatewayId, int], tuple[int, list[GatewayId]]] = {}
        self._wanting: dict[tuple[GatewayId, int], tuple[int, Bits, int]] = {}
        self._closed: dict[int, int] = {}
        self._published = 0
        self._root = setup.heads[0]

    def _masks(self) -> dict[GatewayId, np.uint32]:
        """Return for each head the bits of all edges of its own and farther clusters."""
        behind, mask = {}, 0
        for head in reversed(self.setup.heads):
            for edge in self.setup.clusters[head]:
                mask |= int(self._bit[edge])
            behind[head] = np.uint32(mask)
        return behind

    # ---- publications ----------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let publications flow until now."""
        now, publishing = self.clock.now, self.workload.publishing
        root = self.brokers[self._root]
        while self._published < len(publishing.times) and publishing.times[self._published] <= now:
            at = float(publishing.times[self._published])
            quote = int(publishing.quotes[self._published])
            matching = self.workload.matching(quote)
            got = np.zeros(len(matching), dtype=np.uint32)
            root.put(Journey(at, quote, self._version, matching, self._owed(quote, matching), got, 1), at)
            self._published += 1
        for broker in self.brokers.values():  # heads in the order of the chain, then edges
            broker.advance(now)

    def _owed(self, quote: int, matching: NDArray[np.int64]) -> NDArray[np.bool_]:
        known = self._owing.get(quote)
        if known is None or known[0] != self._version:
            known = self._owing[quote] = self._version, self._routed[matching] != 0
        return known[1]

    @property
    def published(self) -> int:
        """How many publications there were so far."""
        return self._published

    def mark(self, target: GatewayId, came: Callable[[float], None]) -> None:
        """Send a mark to an edge, behind everything that is on its way there; `advance` has been called."""
        self.brokers[self._root].put(Mark(target, came), self.clock.now)

    def _matched(self, broker: ModelBroker, item: Item, start: float) -> int:
        if isinstance(item, Mark):
            self._pass_on(broker, item, start)
            return 0
        assert isinstance(item, Journey)
        copies = self._route(broker, item) if broker.name in self._depth else self._deliver(broker, item)
        item.copies -= 1
        if not item.copies:
            self._close(item)
        return copies

    def _close(self, journey: Journey) -> None:
        if journey.version == self._version and self._closed.get(journey.quote) == self._version:
            self.ledger.close_alike(int(np.count_nonzero(journey.owed)))
            return
        owed = journey.owed & self._present[journey.matching]
        is_clean = self.ledger.close(journey.at, journey.matching, owed, journey.got)
        if is_clean and journey.version == self._version:  # the next one of this quote goes the same way
            self._closed[journey.quote] = self._version

    def _route(self, head: ModelBroker, journey: Journey) -> int:
        known = self._ways.get((head.name, journey.quote))
        if known is None or known[0] != self._version:
            wanted = np.bitwise_or.reduce(self._routed[journey.matching]) if len(journey.matching) else np.uint32(0)
            known = self._ways[head.name, journey.quote] = self._version, list(self._next(head.name, wanted))
        targets = known[1]
        start, each_s = head.begins_sending(), self.setup.message_bytes / head.setup.bytes_s
        for number, target in enumerate(targets, 1):
            self.brokers[target].put(journey, start + number * each_s)
        journey.copies += len(targets)
        self.messages["publications between brokers"] += len(targets)
        return len(targets)

    def _next(self, head: GatewayId, wanted: np.uint32) -> Iterator[GatewayId]:
        following = self._depth[head] + 1
        if following < len(self.setup.heads) and wanted & self._behind[self.setup.heads[following]]:
            yield self.setup.heads[following]
        for edge in self.setup.clusters[head]:
            if wanted & self._bit[edge]:
                yield edge

    def _deliver(self, edge: ModelBroker, journey: Journey) -> int:
        known = self._wanting.get((edge.name, journey.quote))
        if known is None or known[0] != self._version:
            here = self._member[journey.matching] & self._bit[edge.name]
            known = self._wanting[edge.name, journey.quote] = self._version, here, int(np.count_nonzero(here))
        _, here, copies = known
        if copies:
            journey.got |= here
            start, each_s = edge.begins_sending(), self.setup.message_bytes / edge.setup.bytes_s
            self.ledger.deliver(start + copies * each_s, copies, start + (copies + 1) / 2 * each_s - journey.at)
            self.messages["deliveries"] += copies
        return copies

    def _pass_on(self, broker: ModelBroker, mark: Mark, start: float) -> None:
        if broker.name == mark.target:
            mark.came(max(start, broker.begins_sending()))
            return
        head = self._head[mark.target]
        at = self._depth[broker.name]
        target = mark.target if head == broker.name else self.setup.heads[at + 1]
        self.brokers[target].put(mark, broker.begins_sending())

    # ---- who is where ----------------------------------------------------------------------------------------------

    def hops(self, edge: GatewayId) -> int:
        """Return how many links lie between an edge and the publishers."""
        return self._depth[self._head[edge]] + 1

    def subscription(self, subscriber: int) -> Subscription:
        """Return what a subscriber wants."""
        return self.workload.subscriptions[subscriber]

    def is_present(self, subscriber: int) -> bool:
        """Whether a subscriber has come and not left."""
        return bool(self._present[subscriber])

    def subscribe(self, subscriber: int, edge: GatewayId) -> None:
        """Put a subscriber into the matching engine of an edge; the heads know after a while, see `establish`."""
        self.advance()
        self._present[subscriber] = True
        self._member[subscriber] |= self._bit[edge]
        self.at[edge][subscriber] = None
        change = self.posets[edge].add(subscriber, self.subscription(subscriber))
        self._count(edge, change)

    def establish(self, subscriber: int, edge: GatewayId) -> None:
        """From now on the heads send what it wants."""
        self.advance()
        if self._member[subscriber] & self._bit[edge]:
            self._version += 1
            self._routed[subscriber] |= self._bit[edge]

    def unsubscribe(self, subscriber: int, edge: GatewayId) -> None:
        """Take a subscriber out of an edge."""
        self.advance()
        if subscriber not in self.at[edge]:
            return
        self._member[subscriber] &= ~self._bit[edge]
        self._routed[subscriber] &= ~self._bit[edge]
        del self.at[edge][subscriber]
        change = self.posets[edge].remove(subscriber)
        self._count(edge, change)

    def leave(self, subscriber: int) -> None:
        """Let a subscriber disconnect for good."""
        self.advance()
        self._present[subscriber] = False
        for edge in self.setup.edges:
            self.unsubscribe(subscriber, edge)

    def _count(self, edge: GatewayId, change: Change[int]) -> None:
        self._version += 1
        gained, lost = len(change.gained), len(change.lost)
        self.messages["subscriptions"] += 1 + (gained + lost) * self.hops(edge)
        self.brokers[edge].subscriptions = len(self.at[edge])
        self._maximal[edge] += gained - lost
        known = sum(self._maximal.values())
        for head in self.setup.heads:
            self.brokers[head].subscriptions = known
