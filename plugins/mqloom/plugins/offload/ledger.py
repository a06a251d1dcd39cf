"""Who has been moved so far, and what that does to both brokers.

What the offloading broker no longer receives are the samples that nobody left there wants, and that do not come anyway
(beyond the paper, where who publishes is elsewhere, and every subscriber can be moved). What the accepting one
receives in addition are those that it did not want before; its row is OR-ed with what was moved (4.1). A group that is
gone for good uncovers what hung below it there, and covers it elsewhere.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.ids import ClientId
from mqloom.gateway.offload_interfaces import Bits, OffloadChoice, OffloadTask, ReportCard
from mqloom.plugins.offload.outlook import Floats, Ints, Mask, Outlook

NOBODY = np.zeros(1, dtype=np.int64)


def unpack(bits: Bits, samples: int) -> Mask:
    """Return rows of words as rows of yes and no."""
    octets = np.ascontiguousarray(bits.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=samples, bitorder="little").astype(np.bool_)


class Ledger:
    """A session's books. Arrays have a place for each group."""

    def __init__(self, task: OffloadTask) -> None:
        groups, profile = task.profile.groups, task.profile
        self.groups = groups
        self.local: BrokerEstimate = task.local
        self.remote: BrokerEstimate = task.remote
        self.moves_left = task.bounds.moves_max
        self.subscribers: Ints = np.array([group.subscribers for group in groups], dtype=np.int64)
        self.movable: Ints = np.array([len(group.clients) for group in groups], dtype=np.int64)
        self.maximal: Mask = np.array([group.is_maximal for group in groups], dtype=np.bool_)
        self.covered: Mask = np.array([group.is_covered for group in groups], dtype=np.bool_)
        """Whether the accepting broker's covering set covers it, as that is by now."""
        self._each: Ints = np.array([group.subscriptions for group in groups], dtype=np.int64)
        self._above: Ints = np.zeros(len(groups), dtype=np.int64)
        for below in (below for group in groups for below in group.covers):
            self._above[below] += 1
        self._rate, self._samples = profile.input_rate, max(1, profile.samples)
        self._wanted = unpack(profile.bits, profile.samples)
        self._there = unpack(profile.accepting, profile.samples)
        self._wanting: Ints = self._wanted[self.subscribers > 0].sum(axis=0, dtype=np.int64)
        if profile.staying is not None:
            self._wanting += unpack(profile.staying, profile.samples)
        bytes_each: Floats = np.array([group.bytes_each for group in groups], dtype=np.float64)
        self.bytes_s: Floats = self._rate_of(np.ones_like(self._there)) * bytes_each
        self._gets: Floats = self._rate_of(np.ones_like(self._there)) * profile.deliveries_factor
        self.added: Floats = self._rate_of(~self._there)
        """What would come in at the accepting broker, if any of the group went there."""
        self.reduced: Floats = self._rate_of(self._wanting == 1)
        """What would no longer come in here, if all of the group went."""
        self._clients: list[ClientId] = []
        self._cards: list[ReportCard] = []

    def _rate_of(self, samples: Mask) -> Floats:
        """Return the rate at which each group gets such publications (equation 6)."""
        numbers: Ints = self._wanted[:, samples].sum(axis=1, dtype=np.int64)
        rates: Floats = self._rate * numbers / self._samples
        return rates

    def now(self) -> tuple[Outlook, Outlook]:
        """Return how both brokers stand."""
        nothing = NOBODY.astype(np.float64)
        return (
            Outlook(self.local, nothing, NOBODY, nothing, nothing),
            Outlook(self.remote, nothing, NOBODY, nothing, nothing),
        )

    def trial(self, groups: Ints, number: Ints) -> tuple[Outlook, Outlook]:
        """Return what both brokers would be like if so many went of each of these groups, of each by itself."""
        reduced = np.where(number == self.subscribers[groups], self.reduced[groups], 0.0)
        subscriptions = number * self._each[groups]
        bytes_s = number * self.bytes_s[groups]
        gets = number * self._gets[groups]
        local = Outlook(self.local, -reduced, -subscriptions, -bytes_s, -gets)
        return local, Outlook(self.remote, self.added[groups], subscriptions, bytes_s, gets)

    def move(self, group: int, number: int, difference: float, clients: Sequence[ClientId] | None = None) -> None:
        """Enter that so many of a group go: the first of those left, or these."""
        own = self.groups[group]
        is_last = number == self.subscribers[group]
        card = ReportCard(
            group=group,
            number=number,
            difference=difference,
            is_covered=bool(self.covered[group]),
            rate_reduced=float(self.reduced[group]) if is_last else 0.0,
            rate_added=float(self.added[group]),
            bytes_s_each=float(self.bytes_s[group]),
        )
        gone = len(own.clients) - int(self.movable[group])
        self._clients += own.clients[gone : gone + number] if clients is None else clients
        self._cards.append(card)
        subscriptions, bytes_s = number * own.subscriptions, number * card.bytes_s_each
        gets = number * float(self._gets[group])
        self.local = self.local.after(
            rate=-card.rate_reduced, subscriptions=-subscriptions, bytes_s=-bytes_s, deliveries_s=-gets
        )
        self.remote = self.remote.after(
            rate=card.rate_added, subscriptions=subscriptions, bytes_s=bytes_s, deliveries_s=gets
        )
        self.moves_left -= number
        self.movable[group] -= number
        self.subscribers[group] -= number
        self._arrive(group)
        if is_last:
            self._leave(group)

    def _arrive(self, group: int) -> None:
        self.covered[[group, *self._below(group)]] = True
        new = self._wanted[group] & ~self._there
        if new.any():
            self._there |= new
            self.added = self._rate_of(~self._there)

    def _leave(self, group: int) -> None:
        """Take out a group that is gone: others may now be the only ones to want something, or covered by nobody."""
        wanted = self._wanted[group]
        self._wanting[wanted] -= 1
        if (self._wanting[wanted] <= 1).any():
            self.reduced = self._rate_of(self._wanting == 1)
        for below in self.groups[group].covers:
            self._above[below] -= 1
            self.maximal[below] |= self._above[below] == 0

    def _below(self, group: int) -> Iterator[int]:
        """Yield whatever hangs below a group, however deep."""
        seen, waiting = {group}, list(self.groups[group].covers)
        while waiting:
            below = waiting.pop()
            if below not in seen:
                seen.add(below)
                waiting += self.groups[below].covers
                yield below

    def choice(self, reason: str) -> OffloadChoice:
        """Close the books."""
        return OffloadChoice(self._clients, self._cards, self.local, self.remote, reason)
