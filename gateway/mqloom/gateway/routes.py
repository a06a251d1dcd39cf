"""The routing table: who wants what, on which side of this gateway, and how far the news of it has come.

Theory of operation. A subscription enters at its gateway and travels away from it over the overlay. Each gateway that
takes it in tells the neighbours further out (`Announcements` withholds what is covered) and answers `Established` to
where it came from as soon as all of those have answered. So the answer comes back from the leaves to the subscriber,
and when it is there every gateway routes towards it.

An entry waits for a neighbour until it, or the announcement under which it is withheld, is answered. A neighbour out
of reach is waited for only for a while (`give_up_on`): a federation with a broker missing must go on.

After a break in a link both sides announce everything again, then say Synced. What a neighbour had announced before
is kept meanwhile, marked stale, and what it did not name again is removed at Synced: no moment without a route.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Established, Synced, Withdraw
from mqloom.core.subscription import Subscription
from mqloom.gateway.announcements import Announcements
from mqloom.gateway.interfaces import Matcher, Overlay
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.mentions import Mentions
from mqloom.gateway.outbox import Outbox

ENTRIES_MAX: Final = 1_000_000
"""Subscriptions in the table; an announcement past that is refused, counted, and never answered."""


@dataclass(slots=True)
class Entry:
    """One subscription, from which side it came (None: here), and which neighbours have not answered yet."""

    subscription: Subscription
    source: GatewayId | None
    waiting: set[GatewayId]
    stale: bool = False


class Routes:
    """The routing table of one gateway."""

    def __init__(
        self, neighbours: Sequence[GatewayId], matcher: Matcher, overlay: Overlay, outbox: Outbox, journal: Journal
    ) -> None:
        self._matcher = matcher
        self._overlay = overlay
        self._outbox = outbox
        self._journal = journal
        self._announcements = {neighbour: Announcements() for neighbour in neighbours}
        self._awaited = set(neighbours)
        self._entries: dict[SubscriptionKey, Entry] = {}
        self._established_here: list[SubscriptionKey] = []
        self.mentions = Mentions()

    def add(self, key: SubscriptionKey, subscription: Subscription, source: GatewayId | None) -> bool:
        """Take in a subscription from a neighbour, or from here (`source` None); whether it is in the table then."""
        known = self._entries.get(key)
        if known is not None and not self._add_again(key, known, subscription, source):
            return True
        if source is not None and len(self._entries) >= ENTRIES_MAX:
            self._journal.refuse("subscriptions_refused", "too many", f"{source} announced {key} past {ENTRIES_MAX}")
            return False
        try:
            self._journal.guard("matcher", self._matcher.add, key, subscription)
        except PluginFailed:
            return False
        targets = self._overlay.spread(source)
        entry = Entry(subscription, source, {target for target in targets if target in self._awaited})
        self._entries[key] = entry
        self.mentions.add(subscription.where)
        for target in targets:
            announcements = self._announcements[target]
            self._tell(target, announcements.add(key, subscription))
            self._journal.counters.add("announcements_withheld", amount=announcements.is_withheld(key))
            if announcements.is_established(key):
                entry.waiting.discard(target)
        if not entry.waiting:
            self._answer(key, entry)
        return True

    def _add_again(
        self, key: SubscriptionKey, known: Entry, subscription: Subscription, source: GatewayId | None
    ) -> bool:
        """A neighbour names an announcement again after a break; anybody else who uses the key is refused.

        But our own keys are ours: a neighbour that had one makes way. Returns whether it is to be added after all.
        """
        if known.source != source or known.subscription != subscription:
            self._journal.refuse(
                "subscriptions_refused",
                "conflict",
                f"{source} announced {key} differently from {known.source}: is there a cycle in the primary network?",
            )
            return source is None and self.remove(key, known.source)
        known.stale = False
        if not known.waiting:
            self._answer(key, known)
        return False

    def remove(self, key: SubscriptionKey, source: GatewayId | None) -> bool:
        """Forget a subscription; whether it was known from there."""
        entry = self._entries.get(key)
        if entry is None or entry.source != source:
            return False
        del self._entries[key]
        with contextlib.suppress(PluginFailed):
            self._journal.guard("matcher", self._matcher.remove, key)
        self.mentions.remove(entry.subscription.where)
        for target, announcements in self._announcements.items():
            orphans = announcements.held_under(key)
            self._tell(target, announcements.remove(key))
            # One that is now withheld under something answered already is served by that.
            self._served(target, [orphan for orphan in orphans if announcements.is_established(orphan)])
        return True

    def establish(self, key: SubscriptionKey, neighbour: GatewayId) -> None:
        """A neighbour answered an announcement: whoever waited for it there does so no more."""
        self._served(neighbour, self._announcements[neighbour].establish(key))

    def source_of(self, key: SubscriptionKey) -> GatewayId | None:
        """Return the side from which a known subscription came; None is here."""
        return self._entries[key].source

    def is_established(self, key: SubscriptionKey) -> bool:
        """Whether nobody is waited for."""
        return not self._entries[key].waiting

    def established_here(self) -> list[SubscriptionKey]:
        """Return the local subscriptions established since the last call, and still there."""
        keys, self._established_here = self._established_here, []
        return [key for key in keys if key in self._entries]

    def open_link(self, neighbour: GatewayId) -> None:
        """A conversation begins: tell the neighbour everything."""
        self._awaited.add(neighbour)
        self._tell(neighbour, self._announcements[neighbour].open())
        self._journal.counters.add("announcements_withheld", amount=self._announcements[neighbour].withheld)
        self._outbox.post(neighbour, [Synced()])
        # Answers given while the link was not up were lost: give them again.
        answered = [key for key, entry in self._entries.items() if entry.source == neighbour and not entry.waiting]
        self._outbox.post(neighbour, [Established(key) for key in answered])

    def close_link(self, neighbour: GatewayId) -> None:
        """A conversation is over: the neighbour must be told everything again."""
        self._announcements[neighbour].close()

    def give_up_on(self, neighbour: GatewayId) -> None:
        """A neighbour stays out of reach: nobody waits for it any longer."""
        self._awaited.discard(neighbour)
        self._served(neighbour, [key for key, entry in self._entries.items() if neighbour in entry.waiting])

    def doubt(self, neighbour: GatewayId) -> None:
        """A neighbour begins anew: what it announced before counts until it says Synced."""
        for entry in self._entries.values():
            if entry.source == neighbour:
                entry.stale = True

    def sweep(self, neighbour: GatewayId) -> None:
        """A neighbour has said everything: forget what it did not name again."""
        gone = [key for key, entry in self._entries.items() if entry.stale and entry.source == neighbour]
        for key in gone:
            self.remove(key, neighbour)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def here(self) -> int:
        """How many subscriptions are from this gateway's own clients."""
        return sum(entry.source is None for entry in self._entries.values())

    def check(self) -> None:
        """State the invariants: each neighbour's announcements are of the entries that travel to it, and no others."""
        for target, announcements in self._announcements.items():
            announcements.check()
            travelling = sum(target in self._overlay.spread(entry.source) for entry in self._entries.values())
            assert len(announcements) == travelling, (target, len(announcements), travelling)

    def _served(self, neighbour: GatewayId, keys: Iterable[SubscriptionKey]) -> None:
        for key in keys:
            entry = self._entries[key]
            if neighbour in entry.waiting:
                entry.waiting.discard(neighbour)
                if not entry.waiting:
                    self._answer(key, entry)

    def _answer(self, key: SubscriptionKey, entry: Entry) -> None:
        if entry.source is None:
            self._established_here.append(key)
        else:
            self._outbox.post(entry.source, [Established(key)])

    def _tell(self, target: GatewayId, messages: Sequence[Announce | Withdraw]) -> None:
        withdrawn = sum(isinstance(message, Withdraw) for message in messages)
        self._journal.counters.add("announcements_sent", amount=len(messages) - withdrawn)
        self._journal.counters.add("withdrawals_sent", amount=withdrawn)
        self._outbox.post(target, messages)
