"""The federation of paper 000's simulation: publications from the first head to every subscriber that wants them.

Every subscriber is a word with a bit for each edge: those that have it in their matching engine, and those to which the
heads send what it wants. While it moves it has two bits, and drops what comes twice.

What each should have got is known from the moment of publishing, and is compared with what came: see `Ledger`. As long
as nobody comes, moves or goes, publications of one quote all fare alike, and how is known from counts: `_Tally`. Before
somebody does, everything that is under way is written down, subscriber by subscriber: `_Record`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.poset import Change, Poset
from mqloom.core.subscription import Subscription
from mqloom.lab.clock import Clock
from mqloom.lab.padres_broker import Begun, ModelBroker, Numbers, Times
from mqloom.lab.padres_ledger import Ledger
from mqloom.lab.padres_setups import Setup
from mqloom.lab.padres_workload import AnyWorkload

Bits = NDArray[np.uint32]
Note = Callable[[int, list[int]], None]
"""Told of a publication that was matched: which quote it is, and the subscribers here that it is for."""


@dataclass(slots=True)
class _Record:
    """A publication that was under way when somebody came, moved or went."""

    owed: NDArray[np.bool_]
    got: Bits


@dataclass(slots=True)
class _Mark:
    """Follows all that went before it from the first head to an edge."""

    target: GatewayId
    came: Callable[[float], None]
    """Called with the time at which all before it has been sent."""


class _Tally:
    """How many of those who are there want each quote, by edge; each change is entered as it happens."""

    def __init__(self, workload: AnyWorkload, bits: dict[GatewayId, int]) -> None:
        quotes = len(workload.quotes)
        self._bits = bits
        matching = [workload.matching(quote) for quote in range(quotes)]
        subscribers = np.concatenate([np.empty(0, dtype=np.int64), *matching])
        order = np.argsort(subscribers, kind="stable")
        self._wanted = np.repeat(np.arange(quotes), [len(each) for each in matching])[order]
        """The quotes that the first subscriber wants, then those of the next."""
        self._starts = np.searchsorted(subscribers[order], np.arange(len(workload.stays) + 1))
        self._member = {edge: np.zeros(quotes, dtype=np.int32) for edge in bits}
        self._routed = {edge: np.zeros(quotes, dtype=np.int32) for edge in bits}
        self._odd = np.zeros(quotes, dtype=np.int32)
        """Subscribers on their way: not at one edge, or not known there by the heads."""

    def change(self, subscriber: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        """Enter that a subscriber has other bits: in matching engines, and of edges to which the heads send."""
        wanted = self._wanted[self._starts[subscriber] : self._starts[subscriber + 1]]
        for counts, old, new in zip((self._member, self._routed), before, after, strict=True):
            for edge, bit in self._bits.items():
                if (old ^ new) & bit:
                    counts[edge][wanted] += 1 if new & bit else -1
        self._odd[wanted] += _is_odd(*after) - _is_odd(*before)

    def reached(self, quotes: Numbers) -> Numbers:
        """Return to which edges the heads send quotes, as bits."""
        found: Numbers = np.zeros(len(quotes), dtype=np.int64)
        for edge, bit in self._bits.items():
            found |= np.where(self._routed[edge][quotes] > 0, bit, 0)
        return found

    def copies(self, edge: GatewayId, quotes: Numbers) -> Numbers:
        """Return to how many subscribers an edge delivers quotes."""
        return self._member[edge][quotes].astype(np.int64)

    def fair(self, quotes: Numbers) -> Numbers:
        """Return how many are owed quotes, where each surely gets it once; else -1."""
        owed: Numbers = np.sum([counts[quotes] for counts in self._routed.values()], axis=0, dtype=np.int64)
        return np.where(self._odd[quotes] == 0, owed, -1)


def _is_odd(member: int, routed: int) -> int:
    return int(member != routed or member.bit_count() > 1)


class PadresNet:
    """Brokers, who is where, and what is under way; time passes with the clock, publications with `advance`."""

    def __init__(self, workload: AnyWorkload, clock: Clock) -> None:
        setup = workload.setup
        self.setup, self.workload, self.clock = setup, workload, clock
        self.brokers = {
            name: ModelBroker(name, setup.brokers[name], setup.law, setup.message_bytes)
            for name in (*setup.heads, *setup.edges)
        }
        self.ledger = Ledger(len(workload.stays))
        self.messages: Counter[str] = Counter()
        """What has crossed a link or gone to a client, by kind."""
        self.profiled: dict[GatewayId, Note] = {}
        """Edges whose publications are looked at, and who does."""
        self.at: dict[GatewayId, dict[int, None]] = {edge: {} for edge in setup.edges}
        """The subscribers in the matching engine of each edge, in the order in which they came."""
        self.posets: dict[GatewayId, Poset[int]] = {edge: Poset() for edge in setup.edges}
        self.published = 0
        """How many publications there were so far."""
        self._bit = {edge: 1 << number for number, edge in enumerate(setup.edges)}
        self._head = {edge: head for head, edges in setup.clusters.items() for edge in edges}
        self._depth = {head: number for number, head in enumerate(setup.heads)}
        self._behind = _masks(setup, self._bit)
        subscribers, count = len(workload.stays), len(workload.publishing.times)
        self._member: Bits = np.zeros(subscribers, dtype=np.uint32)
        self._routed: Bits = np.zeros(subscribers, dtype=np.uint32)
        self._present = np.zeros(subscribers, dtype=np.bool_)
        self._maximal = dict.fromkeys(setup.edges, 0)
        """How many subscriptions of each edge cover all others."""
        self._copies = np.zeros(count, dtype=np.int32)
        """How many brokers have yet to match each publication."""
        self._done: Bits = np.zeros(count, dtype=np.uint32)
        """The edges that have."""
        self._recorded = np.zeros(count, dtype=np.bool_)
        self._records: dict[int, _Record] = {}
        self._marks: dict[int, _Mark] = {}
        self._mark_number = 0
        self._changed_at = 0
        """How many had been published then."""
        self._tally = _Tally(workload, self._bit)

    # ---- publications ----------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let publications flow until now."""
        times, now = self.workload.publishing.times, self.clock.now
        until = int(np.searchsorted(times, now, side="right"))
        root = self.brokers[self.setup.heads[0]]
        if until > self.published:
            new = np.arange(self.published, until)
            self._copies[new] = 1
            root.put(new, times[new])
            self.published = until
        for broker in self.brokers.values():  # heads in the order of the chain, then edges
            begun = broker.begin(now)
            if begun is not None:
                self._matched(broker, begun)

    def mark(self, target: GatewayId, came: Callable[[float], None]) -> None:
        """Send a mark to an edge, behind everything that is on its way there; `advance` has been called."""
        self._mark_number -= 1
        self._marks[self._mark_number] = _Mark(target, came)
        root = self.brokers[self.setup.heads[0]]
        root.put(np.array([self._mark_number]), np.array([self.clock.now]))

    def _matched(self, broker: ModelBroker, begun: Begun) -> None:
        start = 0
        for at in (*np.flatnonzero(begun.items < 0).tolist(), len(begun.items)):
            if at > start:
                items, ends = begun.items[start:at], begun.ends[start:at]
                if broker.name in self._depth:
                    self._route(broker, items, ends)
                else:
                    self._deliver(broker, items, ends)
                self._close(items[self._copies[items] == 0])
            if at < len(begun.items):
                self._pass_on(broker, int(begun.items[at]), float(begun.starts[at]))
            start = at + 1

    def _route(self, head: ModelBroker, items: Numbers, ends: Times) -> None:
        wanted = self._tally.reached(self.workload.publishing.quotes[items])
        targets = [(edge, self._bit[edge]) for edge in self.setup.clusters[head.name]]
        following = self._depth[head.name] + 1
        if following < len(self.setup.heads):
            other = self.setup.heads[following]
            targets.insert(0, (other, self._behind[other]))
        sends = [(target, (wanted & mask) != 0) for target, mask in targets]
        copies = np.sum([goes for _, goes in sends], axis=0)
        starts, rank = head.send(ends, copies), np.zeros(len(items), dtype=np.int64)
        for target, goes in sends:
            rank += goes
            self.brokers[target].put(items[goes], starts[goes] + rank[goes] * head.each_s)
        self._copies[items] += (copies - 1).astype(np.int32)
        self.messages["publications between brokers"] += int(copies.sum())

    def _deliver(self, edge: ModelBroker, items: Numbers, ends: Times) -> None:
        quotes, bit = self.workload.publishing.quotes[items], self._bit[edge.name]
        copies = self._tally.copies(edge.name, quotes)
        starts = edge.send(ends, copies)
        delays = starts + (copies + 1) / 2 * edge.each_s - self.workload.publishing.times[items]
        self.ledger.deliver(starts + copies * edge.each_s, copies, delays)
        self.messages["deliveries"] += int(copies.sum())
        self._done[items] |= np.uint32(bit)
        self._copies[items] -= 1
        for item in items[self._recorded[items]].tolist():
            self._records[item].got |= self._member[self._matching(item)] & np.uint32(bit)
        if edge.name in self.profiled:
            self._tell(self.profiled[edge.name], items, bit)

    def _tell(self, note: Note, items: Numbers, bit: int) -> None:
        for item in items.tolist():
            matching = self._matching(item)
            here = matching[(self._member[matching] & np.uint32(bit)) != 0]
            note(int(self.workload.publishing.quotes[item]), here.tolist())

    def _pass_on(self, broker: ModelBroker, number: int, start: float) -> None:
        mark = self._marks[number]
        if broker.name == mark.target:
            del self._marks[number]
            mark.came(max(start, broker.sent_by))
            return
        is_here = self._head[mark.target] == broker.name
        target = mark.target if is_here else self.setup.heads[self._depth[broker.name] + 1]
        self.brokers[target].put(np.array([number]), np.array([max(start, broker.sent_by)]))

    def _matching(self, item: int) -> NDArray[np.int64]:
        return self.workload.matching(int(self.workload.publishing.quotes[item]))

    # ---- what everybody got ----------------------------------------------------------------------------------------

    def _close(self, items: Numbers) -> None:
        """Judge publications that no broker has yet to match."""
        recorded = self._recorded[items]
        for item in items[recorded].tolist():
            record, matching = self._records.pop(item), self._matching(item)
            owed = record.owed & self._present[matching]
            self.ledger.close(float(self.workload.publishing.times[item]), matching, owed, record.got)
        rest = items[~recorded]
        fair = self._tally.fair(self.workload.publishing.quotes[rest])
        self.ledger.close_alike(int(fair[fair >= 0].sum()))
        for item in rest[fair < 0].tolist():
            owed, got = self._alike(int(self.workload.publishing.quotes[item]))
            self.ledger.close(float(self.workload.publishing.times[item]), self._matching(item), owed, got)

    def _alike(self, quote: int) -> tuple[NDArray[np.bool_], Bits]:
        """Return who is owed a quote, and who gets it from where, as long as nobody comes, moves or goes."""
        matching = self.workload.matching(quote)
        reached = np.uint32(self._tally.reached(np.array([quote]))[0])
        return self._routed[matching] != 0, self._member[matching] & reached

    def _change(self) -> None:
        """Let publications flow until now, and write down those under way: somebody is about to come, move or go."""
        self.advance()
        new = np.arange(self._changed_at, self.published)
        for item in new[self._copies[new] > 0].tolist():
            matching = self._matching(item)
            got = self._member[matching] & self._done[item]
            self._records[item] = _Record(self._routed[matching] != 0, got)
            self._recorded[item] = True
        self._changed_at = self.published

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
        self._change()
        self._present[subscriber] = True
        self._set(subscriber, int(self._member[subscriber]) | self._bit[edge], int(self._routed[subscriber]))
        self.at[edge][subscriber] = None
        self._announce(edge, self.posets[edge].add(subscriber, self.subscription(subscriber)))

    def establish(self, subscriber: int, edge: GatewayId) -> None:
        """From now on the heads send what it wants."""
        if subscriber in self.at[edge]:
            self._change()
            self._set(subscriber, int(self._member[subscriber]), int(self._routed[subscriber]) | self._bit[edge])

    def unsubscribe(self, subscriber: int, edge: GatewayId) -> None:
        """Take a subscriber out of an edge, if it is there."""
        if subscriber in self.at[edge]:
            self._change()
            without = ~self._bit[edge]
            self._set(subscriber, int(self._member[subscriber]) & without, int(self._routed[subscriber]) & without)
            del self.at[edge][subscriber]
            self._announce(edge, self.posets[edge].remove(subscriber))

    def leave(self, subscriber: int) -> None:
        """Let a subscriber disconnect for good."""
        self._change()
        self._present[subscriber] = False
        for edge in self.setup.edges:
            self.unsubscribe(subscriber, edge)

    def _set(self, subscriber: int, member: int, routed: int) -> None:
        """Note where a subscriber is in the matching engine, and where the heads send what it wants."""
        before = int(self._member[subscriber]), int(self._routed[subscriber])
        self._member[subscriber], self._routed[subscriber] = member, routed
        self._tally.change(subscriber, before, (member, routed))

    def _announce(self, edge: GatewayId, change: Change[int]) -> None:
        gained, lost = len(change.gained), len(change.lost)
        self.messages["subscriptions"] += 1 + (gained + lost) * self.hops(edge)
        self.brokers[edge].subscriptions = len(self.at[edge])
        self._maximal[edge] += gained - lost
        known = sum(self._maximal.values())
        for head in self.setup.heads:
            self.brokers[head].subscriptions = known


def _masks(setup: Setup, bits: dict[GatewayId, int]) -> dict[GatewayId, int]:
    """Return for each head the bits of all edges of its own and farther clusters."""
    behind, mask = {}, 0
    for head in reversed(setup.heads):
        for edge in setup.clusters[head]:
            mask |= bits[edge]
        behind[head] = mask
    return behind
