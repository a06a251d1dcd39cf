"""What one neighbour has been told of our side's wishes, and what was withheld because something told covers it.

Only the covering set goes over the link. A subscription is withheld only under another with the same anchor as sent;
on the primary tree the anchor is this gateway for all of them, so that the rule is: one such object per neighbour.
Whatever replaces an announcement is announced before that one is withdrawn, so that the neighbour's table, which
follows ours in order, covers every wish at every moment.

Finding the covering set is the costly part. So it is kept up while the link is closed, and a link that opens again
only says it again.
"""

from collections.abc import Iterable

from mqloom.core.ids import SubscriptionKey
from mqloom.core.messages import Announce, Withdraw
from mqloom.core.subscription import Subscription


class Announcements:
    """The covering set as one neighbour knows it. While closed, nothing is sent; `sent` is then what would be."""

    def __init__(self) -> None:
        self._wishes: dict[SubscriptionKey, Subscription] = {}
        self._established: dict[SubscriptionKey, bool] = {}  # of those sent
        self._sent_by_wish: dict[Subscription, SubscriptionKey] = {}  # the same set, to find equals at once
        self._cover: dict[SubscriptionKey, SubscriptionKey] = {}  # withheld -> sent
        self._withheld: dict[SubscriptionKey, dict[SubscriptionKey, None]] = {}  # sent -> withheld, in order
        self._open = False

    def open(self) -> list[Announce | Withdraw]:
        """Begin: return the announcements of the covering set."""
        assert not self._open
        self._open = True
        return [self._announcement(key) for key in self._established]

    def close(self) -> None:
        """End: the neighbour may have forgotten, or missed, anything."""
        self._open = False
        self._established = dict.fromkeys(self._established, False)

    def add(self, key: SubscriptionKey, wish: Subscription) -> list[Announce | Withdraw]:
        """Take in a wish; return what the neighbour must be told."""
        assert key not in self._wishes
        self._wishes[key] = wish
        messages = self._announce([key])
        return messages if self._open else []

    def remove(self, key: SubscriptionKey) -> list[Announce | Withdraw]:
        """Forget a wish, if it is known; return what the neighbour must be told."""
        wish = self._wishes.pop(key, None)
        if wish is None:
            return []
        cover = self._cover.pop(key, None)
        if cover is not None:
            del self._withheld[cover][key]
            return []
        messages = [*self._announce(self._unsend(key, wish)), Withdraw(key)]
        return messages if self._open else []

    def establish(self, key: SubscriptionKey) -> list[SubscriptionKey]:
        """Note the neighbour's answer; return the wishes that it serves. A stale answer serves none."""
        if not self._open or self._established.get(key) is not False:
            return []
        self._established[key] = True
        return [key, *self._withheld[key]]

    def is_established(self, key: SubscriptionKey) -> bool:
        """Whether the neighbour has answered for this wish, or for the one under which it is withheld."""
        return self._established.get(self._cover.get(key, key), False)

    def is_withheld(self, key: SubscriptionKey) -> bool:
        """Whether something that was sent stands in for this wish."""
        return self._open and key in self._cover

    @property
    def sent(self) -> int:
        """How many announcements stand at the neighbour."""
        return len(self._established)

    @property
    def withheld(self) -> int:
        """How many wishes are covered by what was sent."""
        return len(self._cover)

    def __len__(self) -> int:
        return len(self._wishes)

    def check(self) -> None:
        """State the invariants: every wish is either sent or withheld under a sent one."""
        sent, withheld = set(self._established), set(self._cover)
        assert not sent & withheld
        assert sent | withheld == set(self._wishes)
        assert self._open or not any(self._established.values())
        assert {key for held in self._withheld.values() for key in held} == withheld
        assert set(self._withheld) == sent == set(self._sent_by_wish.values())
        for key, cover in self._cover.items():
            assert key in self._withheld[cover]

    def _announce(self, keys: Iterable[SubscriptionKey]) -> list[Announce | Withdraw]:
        """Send or withhold wishes that are neither yet: first find the widest of them, so that none is sent in vain."""
        widest: dict[SubscriptionKey, Subscription] = {}
        under: dict[SubscriptionKey, list[SubscriptionKey]] = {}
        for key in keys:
            wish = self._wishes[key]
            cover = self._find_cover(wish)
            if cover is not None:
                self._withhold(key, cover)
                continue
            above = next((other for other, known in widest.items() if known.covers(wish)), None)
            if above is not None:
                under[above].append(key)
                continue
            narrower = [other for other, known in widest.items() if wish.covers(known)]
            under[key] = [held for other in narrower for held in (other, *under.pop(other))]
            for other in narrower:
                del widest[other]
            widest[key] = wish
        messages: list[Announce | Withdraw] = []
        for key, wish in widest.items():
            messages += self._send(key, wish)
            for held in under[key]:
                self._withhold(held, key)
        return messages

    def _find_cover(self, wish: Subscription) -> SubscriptionKey | None:
        equal = self._sent_by_wish.get(wish)
        if equal is not None:
            return equal
        return next((key for key in self._established if self._wishes[key].covers(wish)), None)

    def _send(self, key: SubscriptionKey, wish: Subscription) -> list[Announce | Withdraw]:
        """Announce a wish that nothing sent covers, then withdraw what it covers itself."""
        narrower = [other for other in self._established if wish.covers(self._wishes[other])]
        self._established[key] = False
        self._sent_by_wish[wish] = key
        self._withheld[key] = {}
        messages: list[Announce | Withdraw] = [self._announcement(key)]
        for other in narrower:
            for held in (*self._unsend(other, self._wishes[other]), other):
                self._withhold(held, key)
            messages.append(Withdraw(other))
        return messages

    def _announcement(self, key: SubscriptionKey) -> Announce:
        wish = self._wishes[key]
        return Announce(key, wish.topics, str(wish.where))

    def _unsend(self, key: SubscriptionKey, wish: Subscription) -> list[SubscriptionKey]:
        """Take a wish out of the sent ones; return those that were withheld under it."""
        del self._established[key]
        del self._sent_by_wish[wish]
        orphans = list(self._withheld.pop(key))
        for orphan in orphans:
            del self._cover[orphan]
        return orphans

    def _withhold(self, key: SubscriptionKey, cover: SubscriptionKey) -> None:
        self._cover[key] = cover
        self._withheld[cover][key] = None
