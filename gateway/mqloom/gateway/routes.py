"""The routing table: who wants what, on which side of this gateway, and how far the news of it has come.

Theory of operation. A subscription enters at its gateway and travels away from it over the overlay. Each gateway that
takes it in tells the neighbours further out (`Announcements` withholds what is covered) and answers `Established` to
where it came from as soon as all of those have answered. So the answer comes back from the leaves to the subscriber,
and when it is there every gateway routes towards it.

An entry waits for a neighbour until it, or the announcement under which it is withheld, is answered. When only those
are left that are out of reach (`give_up_on`), or that have said this of somebody behind them, it is answered, but not
as complete: a federation with a broker missing must go on. It is answered once more when it is complete.

After a break in a link both sides announce everything again, then say Synced. What a neighbour had announced before
is kept meanwhile, marked stale, and what it did not name again is removed at Synced: no moment without a route. So a
gateway says Synced only when it has heard everything itself, from all its other neighbours.

In a network with cycles a subscription comes from several sides: the first counts, the others are remembered (`Rivals`)
for when that one goes. One that has ended while it was still on its way round would follow itself for ever, its end
behind it: so each counts the links that it crossed, and goes no further after more than the federation can have on one
way. With several cycles what goes round doubles where two meet: with 64 links for each, 12 changes at seven gateways
had been 300,000 messages, and are 9,000.
"""

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.limits import HOPS_MAX
from mqloom.core.messages import Announce, Established, Synced, Withdraw
from mqloom.core.poset import Poset
from mqloom.core.subscription import Subscription
from mqloom.gateway.anchorings import Anchoring, Anchorings
from mqloom.gateway.announcements import Announcements
from mqloom.gateway.groups import Groups
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import Matcher
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.mentions import Mentions
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.rivals import Rival, Rivals

HOPS_FEW: Final = 16
"""An announcement may cross so many links in the smallest federation: it may be about to grow."""

ENTRIES_MAX: Final = 1_000_000
"""Subscriptions in the table; an announcement past that is refused, counted, and never answered."""


@dataclass(slots=True)
class Entry:
    """One subscription, from which side it came (None: here), and which neighbours have not answered yet."""

    subscription: Subscription
    source: GatewayId | None
    anchoring: Anchoring
    waiting: set[GatewayId]
    hops: int = 0
    """Links it has crossed from its gateway to here."""
    stale: bool = False
    told_partly: bool = False
    """It was answered, but not as complete."""


class Routes:
    """The routing table of one gateway."""

    def __init__(
        self,
        neighbours: Sequence[GatewayId],
        matcher: Matcher,
        overlay: GuardedOverlay,
        outbox: Outbox,
        journal: Journal,
        peers: Collection[GatewayId] = (),
    ) -> None:
        """Begin with nothing. `peers` are the other gateways, if they are known, and may change."""
        self._peers = peers
        self._matcher = matcher
        self._overlay = overlay
        self._outbox = outbox
        self._journal = journal
        self._announcements = {neighbour: Announcements() for neighbour in neighbours}
        self._anchorings = Anchorings(overlay)
        self._awaited = set(neighbours)
        self._entries: dict[SubscriptionKey, Entry] = {}
        self._rivals = Rivals()
        self._own: Poset[SubscriptionKey] | None = None
        """Subscriptions of our own clients, once somebody has asked for their covering set."""
        self._groups: Groups | None = None
        self._established_here: list[tuple[SubscriptionKey, bool]] = []
        self.mentions = Mentions()

    def _hops_max(self) -> int:
        """Twice as many links as a way can have, for those who have not heard yet how large the federation is."""
        return min(HOPS_MAX, max(HOPS_FEW, 2 * len(self._peers))) if self._peers else HOPS_MAX

    def add(
        self,
        key: SubscriptionKey,
        subscription: Subscription,
        source: GatewayId | None,
        named: GatewayId | None = None,
        hops: int = 0,
    ) -> bool:
        """Take in a subscription from a neighbour, or from here (`source` None); whether it is in the table then.

        The neighbour has named an anchor, or means itself. On its way here it has crossed so many links.
        """
        if hops > self._hops_max():
            text = f"{source} announced {key}, which crossed {hops} links: is there a cycle in the primary network?"
            self._journal.refuse("subscriptions_refused", "hops", text)
            return False
        known = self._entries.get(key)
        if known is not None and not self._add_again(key, known, Rival(subscription, named, hops), source):
            return True
        if source is not None and len(self._entries) >= ENTRIES_MAX:
            self._journal.refuse("subscriptions_refused", "too many", f"{source} announced {key} past {ENTRIES_MAX}")
            return False
        try:
            self._journal.guard("matcher", self._matcher.add, key, subscription)
        except PluginFailed:
            return False
        # A rival may come into the table before the overlay knows that a neighbour has gone.
        targets = [each for each in self._overlay.spread_wishes(source) if each in self._announcements]
        entry = Entry(subscription, source, self._anchorings.join(key, source, named), set(targets), hops)
        self._entries[key] = entry
        if source is None:
            self._keep_own(key, subscription)
        self.mentions.add(subscription.where)
        for target in targets:
            announcements = self._announcements[target]
            self._tell(
                target, announcements.add(key, subscription, self._anchorings.announced(entry.anchoring, target))
            )
            self._journal.counters.add("announcements_withheld", amount=announcements.is_withheld(key))
            if announcements.is_established(key):
                entry.waiting.discard(target)
        self._answer_if_due(key, entry)
        return True

    def _add_again(
        self,
        key: SubscriptionKey,
        known: Entry,
        rival: Rival,
        source: GatewayId | None,
    ) -> bool:
        """A neighbour names an announcement again after a break; anybody else who uses the key is refused.

        But our own keys are ours: a neighbour that had one makes way. Returns whether it is to be added after all.
        """
        named = rival.named
        if known.source != source or known.subscription != rival.subscription:
            if source is not None and source != known.source and known.source is not None:
                self._rivals.keep(key, source, rival)
            self._journal.refuse(
                "subscriptions_refused",
                "conflict",
                f"{source} announced {key} differently from {known.source}: is there a cycle in the primary network?",
            )
            if source is not None:
                return False
            self._rivals.drop_all(key)
            return self.remove(key, known.source)
        known.stale = known.told_partly = False
        known.hops = rival.hops
        if known.anchoring.named != named:
            self._anchorings.leave(key, known.anchoring)
            known.anchoring = self._anchorings.join(key, source, named)
            self._announce_again(key, known.anchoring)
        self._answer_if_due(key, known)
        return False

    def anchor_again(self) -> None:
        """The map has changed: see how far it reaches, and announce again what that concerns."""
        for anchoring in self._anchorings.ask_again():
            for key in anchoring.keys:
                self._announce_again(key, anchoring)

    def _announce_again(self, key: SubscriptionKey, anchoring: Anchoring) -> None:
        for target, announcements in self._announcements.items():
            if key not in announcements:
                continue
            anchor = self._anchorings.announced(anchoring, target)
            if announcements.anchor_of(key) != anchor:
                orphans = announcements.held_under(key)
                self._tell(target, announcements.move(key, anchor))
                self._served(target, [each for each in (key, *orphans) if announcements.is_established(each)])

    def remove(self, key: SubscriptionKey, source: GatewayId | None) -> bool:
        """Forget a subscription; whether it was known from there. If a rival announced it too, that one counts now."""
        entry = self._entries.get(key)
        if entry is None or entry.source != source:
            if source is not None:
                self._rivals.drop(key, source)
            return False
        del self._entries[key]
        if source is None:
            self._forget_own(key)
        self._anchorings.leave(key, entry.anchoring)
        with contextlib.suppress(PluginFailed):
            self._journal.guard("matcher", self._matcher.remove, key)
        self.mentions.remove(entry.subscription.where)
        for target, announcements in self._announcements.items():
            orphans = announcements.held_under(key)
            self._tell(target, announcements.remove(key))
            # One that is now withheld under something answered already is served by that.
            self._served(target, [orphan for orphan in orphans if announcements.is_established(orphan)])
        self._take_next(key)
        return True

    def _take_next(self, key: SubscriptionKey) -> None:
        while (found := self._rivals.take(key)) is not None:
            neighbour, rival = found
            if self.add(key, rival.subscription, neighbour, rival.named, rival.hops):
                self._entries[key].stale = rival.stale
                return

    def establish(self, key: SubscriptionKey, neighbour: GatewayId, *, complete: bool = True) -> None:
        """A neighbour answered an announcement: if complete, whoever waited for it there does so no more."""
        announcements = self._announcements[neighbour]
        if complete:
            self._served(neighbour, announcements.establish(key))
            return
        for each in announcements.establish_partly(key):
            self._answer_if_due(each, self._entries[each])

    def anchor_of(self, key: SubscriptionKey) -> GatewayId | None:
        """Return the gateway towards which publications for a known subscription go; None is here."""
        return self._entries[key].anchoring.anchor

    def subscription_of(self, key: SubscriptionKey) -> Subscription:
        """Return what a known subscription wants."""
        return self._entries[key].subscription

    def covering_set_here(self) -> list[Subscription]:
        """Return the most general of our own clients' subscriptions; it is kept up from the first time on."""
        if len(self._announcements) == 1:  # what its neighbour is told is of these alone
            (announcements,) = self._announcements.values()
            return announcements.covering_set()
        if self._own is None:
            self._own = Poset()
            for key, entry in self._entries.items():
                if entry.source is None:
                    self._own.add(key, entry.subscription)
        return [self._own[key] for key in self._own.covering_set()]

    @property
    def groups(self) -> Groups:
        """Our own clients' subscriptions that want the same; they are kept up from the first time on."""
        if self._groups is None:
            own = ((key, entry.subscription) for key, entry in self._entries.items() if entry.source is None)
            self._groups = Groups(own)
        return self._groups

    def _keep_own(self, key: SubscriptionKey, subscription: Subscription) -> None:
        if self._own is not None:
            self._own.add(key, subscription)
        if self._groups is not None:
            self._groups.add(key, subscription)

    def _forget_own(self, key: SubscriptionKey) -> None:
        if self._own is not None:
            self._own.remove(key)
        if self._groups is not None:
            self._groups.remove(key)

    def source_of(self, key: SubscriptionKey) -> GatewayId | None:
        """Return the side from which a known subscription came; None is here."""
        return self._entries[key].source

    def standing_of(self, key: SubscriptionKey) -> bool | None:
        """Return whether a subscription is established completely; None if not at all."""
        entry = self._entries[key]
        return True if not entry.waiting else False if self._is_partly(key, entry) else None

    def established_here(self) -> list[tuple[SubscriptionKey, bool]]:
        """Return the local subscriptions established since the last call, and still there; and whether completely."""
        keys, self._established_here = self._established_here, []
        return [(key, complete) for key, complete in keys if key in self._entries]

    def add_neighbour(self, neighbour: GatewayId) -> None:
        """A gateway is a neighbour from now on; what is established stays so."""
        announcements = self._announcements[neighbour] = Announcements()
        self._anchorings.forget(neighbour)
        self._awaited.add(neighbour)
        for key, entry in self._entries.items():
            if neighbour in self._overlay.spread_wishes(entry.source):
                announcements.add(key, entry.subscription, self._anchorings.announced(entry.anchoring, neighbour))

    def drop_neighbour(self, neighbour: GatewayId) -> None:
        """A gateway is no neighbour any more: forget what it wants, and whoever waits for it."""
        self._rivals.sweep(neighbour, all_of_them=True)
        del self._announcements[neighbour]
        self._anchorings.forget(neighbour)
        self._awaited.discard(neighbour)
        for key in [key for key, entry in self._entries.items() if entry.source == neighbour]:
            self.remove(key, neighbour)
        for key, entry in self._entries.items():
            if neighbour in entry.waiting:
                entry.waiting.discard(neighbour)
                self._answer_if_due(key, entry)

    def open_link(self, neighbour: GatewayId) -> None:
        """A conversation begins: tell the neighbour everything."""
        self._awaited.add(neighbour)
        self._tell(neighbour, self._announcements[neighbour].open())
        self._journal.counters.add("announcements_withheld", amount=self._announcements[neighbour].withheld)
        # Answers given while the link was not up were lost: give them again.
        for key, entry in self._entries.items():
            if entry.source == neighbour:
                entry.told_partly = False
                self._answer_if_due(key, entry)

    def say_synced(self, neighbour: GatewayId) -> None:
        """Everything has been announced that there is."""
        self._outbox.post(neighbour, [Synced()])

    def close_link(self, neighbour: GatewayId) -> None:
        """A conversation is over: the neighbour must be told everything again, and may have forgotten what it was."""
        self._announcements[neighbour].close()

    def give_up_on(self, neighbour: GatewayId) -> None:
        """A neighbour stays out of reach: what waits for nobody else is answered without it."""
        self._awaited.discard(neighbour)
        for key, entry in self._entries.items():
            if neighbour in entry.waiting:
                self._answer_if_due(key, entry)

    def doubt(self, neighbour: GatewayId) -> None:
        """A neighbour begins anew: what it announced before counts until it says Synced."""
        for entry in self._entries.values():
            if entry.source == neighbour:
                entry.stale = True
        self._rivals.doubt(neighbour)

    def sweep(self, neighbour: GatewayId) -> None:
        """A neighbour has said everything: forget what it did not name again."""
        self._rivals.sweep(neighbour)
        gone = [key for key, entry in self._entries.items() if entry.stale and entry.source == neighbour]
        for key in gone:
            self.remove(key, neighbour)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def only_here(self, keys: Iterable[SubscriptionKey]) -> list[SubscriptionKey]:
        """Return those that are of this gateway's own clients; there may be thousands."""
        entries = self._entries
        return [key for key in keys if (entry := entries.get(key)) is not None and entry.source is None]

    def here(self) -> int:
        """How many subscriptions are from this gateway's own clients."""
        return sum(entry.source is None for entry in self._entries.values())

    def check(self) -> None:
        """State the invariants: each neighbour's announcements are of the entries that travel to it, and no others."""
        self._anchorings.check()
        assert all(neighbour in self._announcements for _, neighbour in self._rivals)
        assert all(self._entries[key].source not in (None, neighbour) for key, neighbour in self._rivals)
        for key, entry in self._entries.items():
            assert key in entry.anchoring.keys
            assert entry.anchoring.source == entry.source
            for target, announcements in self._announcements.items():
                assert key not in announcements or announcements.anchor_of(key) == entry.anchoring.announced[target]
        if self._own is not None:
            assert set(self._own) == {key for key, entry in self._entries.items() if entry.source is None}
        for target, announcements in self._announcements.items():
            announcements.check()
            travelling = sum(target in self._overlay.spread_wishes(entry.source) for entry in self._entries.values())
            assert len(announcements) == travelling, (target, len(announcements), travelling)

    def _served(self, neighbour: GatewayId, keys: Iterable[SubscriptionKey]) -> None:
        for key in keys:
            entry = self._entries[key]
            if neighbour in entry.waiting:
                entry.waiting.discard(neighbour)
                self._answer_if_due(key, entry)

    def _answer_if_due(self, key: SubscriptionKey, entry: Entry) -> None:
        """Answer when nobody is waited for; and once, not as complete, when nobody else is whom waiting would help."""
        complete = not entry.waiting
        if not complete and (entry.told_partly or not self._is_partly(key, entry)):
            return
        entry.told_partly = not complete
        if entry.source is None:
            self._established_here.append((key, complete))
        else:
            self._outbox.post(entry.source, [Established(key, complete)])

    def _is_partly(self, key: SubscriptionKey, entry: Entry) -> bool:
        return all(
            neighbour not in self._awaited or self._announcements[neighbour].is_partly_established(key)
            for neighbour in entry.waiting
        )

    def _tell(self, target: GatewayId, messages: Sequence[Announce | Withdraw]) -> None:
        withdrawn = sum(isinstance(message, Withdraw) for message in messages)
        self._journal.counters.add("announcements_sent", amount=len(messages) - withdrawn)
        self._journal.counters.add("withdrawals_sent", amount=withdrawn)
        self._outbox.post(target, [self._counted(message) for message in messages])

    def _counted(self, message: Announce | Withdraw) -> Announce | Withdraw:
        """Say how many links an announcement has crossed, if it is not our own."""
        hops = self._entries[message.key].hops if isinstance(message, Announce) else 0
        return replace(message, hops=hops) if hops else message
