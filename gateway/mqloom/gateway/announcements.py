"""What one neighbour has been told of our side's wishes, and what was withheld because something told covers it.

Only the covering set goes over the link. A subscription is withheld only under another with the same anchor as sent
(paper 001, section 4): if one far away covered a nearer one, a soft link to the far gateway would pass the nearer by.
Whatever replaces an announcement is announced before that one is withdrawn, so that the neighbour's table, which
follows ours in order, covers every wish at every moment.

The covering set is kept up while the link is closed (`Poset` does), and a link that opens again only says it again.
"""

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.messages import Announce, Withdraw
from mqloom.core.poset import Change, Poset
from mqloom.core.subscription import Subscription

Anchor = GatewayId | None
"""As in an announcement: None is its sender."""


class Announcements:
    """The covering set as one neighbour knows it. While closed, nothing is sent; `sent` is then what would be."""

    def __init__(self) -> None:
        self._new_poset: type[Poset[SubscriptionKey]] = Poset
        self._wishes: dict[Anchor, Poset[SubscriptionKey]] = {}
        self._anchors: dict[SubscriptionKey, Anchor] = {}
        self._established: dict[SubscriptionKey, bool] = {}  # of those sent: the covering set
        self._partly: set[SubscriptionKey] = set()  # of those sent: answered, but not as complete
        self._open = False

    def open(self) -> list[Announce | Withdraw]:
        """Begin: return the announcements of the covering set."""
        assert not self._open
        self._open = True
        return [self._announcement(key) for key in self._established]

    def close(self) -> None:
        """End: the neighbour may have forgotten, or missed, anything."""
        self._open = False
        self._partly.clear()
        self._established = dict.fromkeys(self._established, False)

    def add(self, key: SubscriptionKey, wish: Subscription, anchor: Anchor = None) -> list[Announce | Withdraw]:
        """Take in a wish; return what the neighbour must be told."""
        return self._follow(self._add(key, wish, anchor))

    def remove(self, key: SubscriptionKey) -> list[Announce | Withdraw]:
        """Forget a wish, if it is known; return what the neighbour must be told."""
        return self._follow(self._remove(key)) if key in self._anchors else []

    def move(self, key: SubscriptionKey, anchor: Anchor) -> list[Announce | Withdraw]:
        """Send a wish by another anchor from now on; return what the neighbour must be told."""
        wish = self._of(key)[key]
        was_established, was_partly = self._established.get(key), key in self._partly
        gone = self._remove(key)
        come = self._add(key, wish, anchor)
        lost = [each for each in gone.lost if each not in come.gained]
        # Those withheld under it go first: to the neighbour, the same key with another anchor is a withdrawal as well.
        messages = self._follow(Change([*gone.gained, *come.gained], [*come.lost, *lost]))
        if was_established is not None and key in self._established:  # it stays announced, and what was answered counts
            self._established[key] = was_established
            self._partly |= {key} if was_partly else set()
        return messages

    def anchor_of(self, key: SubscriptionKey) -> Anchor:
        """Return the anchor by which a wish is sent."""
        return self._anchors[key]

    def establish(self, key: SubscriptionKey) -> list[SubscriptionKey]:
        """Note the neighbour's complete answer; return the wishes that it serves. A stale answer serves none."""
        served = self._served(key)
        if served:
            self._established[key] = True
            self._partly.discard(key)
        return served

    def establish_partly(self, key: SubscriptionKey) -> list[SubscriptionKey]:
        """Note an answer that is not complete; return the wishes that it serves."""
        served = self._served(key)
        if served:
            self._partly.add(key)
        return served

    def is_partly_established(self, key: SubscriptionKey) -> bool:
        """Whether the neighbour has so answered for this wish, or for the one under which it is withheld."""
        return key in self._anchors and self._of(key).cover(key) in self._partly

    def _served(self, key: SubscriptionKey) -> list[SubscriptionKey]:
        if not self._open or self._established.get(key) is not False:
            return []
        return [key, *self._of(key).covered(key)]

    def is_established(self, key: SubscriptionKey) -> bool:
        """Whether the neighbour has answered for this wish, or for the one under which it is withheld."""
        return key in self._anchors and self._established[self._of(key).cover(key)]

    def held_under(self, key: SubscriptionKey) -> list[SubscriptionKey]:
        """Return the wishes withheld under an announcement; none if it is not one."""
        return list(self._of(key).covered(key)) if key in self._established else []

    def covering_set(self) -> list[Subscription]:
        """Return what is, or would be, announced."""
        return [self._of(key)[key] for key in self._established]

    def is_withheld(self, key: SubscriptionKey) -> bool:
        """Whether something that was sent stands in for this wish."""
        return self._open and key in self._anchors and key not in self._established

    @property
    def sent(self) -> int:
        """How many announcements stand at the neighbour."""
        return len(self._established)

    @property
    def withheld(self) -> int:
        """How many wishes are covered by what was sent."""
        return len(self._anchors) - len(self._established)

    def __contains__(self, key: object) -> bool:
        return key in self._anchors

    def __len__(self) -> int:
        return len(self._anchors)

    def check(self) -> None:
        """State the invariants: what is sent is the covering set, and while closed nothing is answered."""
        for anchor, wishes in self._wishes.items():
            wishes.check()
            assert len(wishes) > 0
            assert all(self._anchors[key] == anchor for key in wishes)
        assert sum(map(len, self._wishes.values())) == len(self._anchors)
        sent = {key for wishes in self._wishes.values() for key in wishes.covering_set()}
        assert set(self._established) == sent
        assert self._open or not any(self._established.values())

    def _follow(self, change: Change[SubscriptionKey]) -> list[Announce | Withdraw]:
        """Keep to the covering set: what belongs to it first, then what no longer does."""
        for key in change.gained:
            self._established[key] = False
        for key in change.lost:
            del self._established[key]
            self._partly.discard(key)
        if not self._open:
            return []
        return [*(self._announcement(key) for key in change.gained), *(Withdraw(key) for key in change.lost)]

    def _announcement(self, key: SubscriptionKey) -> Announce:
        wish = self._of(key)[key]
        return Announce(key, wish.topics, str(wish.where), self._anchors[key])

    def _of(self, key: SubscriptionKey) -> Poset[SubscriptionKey]:
        """Return the wishes of the same anchor."""
        return self._wishes[self._anchors[key]]

    def _add(self, key: SubscriptionKey, wish: Subscription, anchor: Anchor) -> Change[SubscriptionKey]:
        self._anchors[key] = anchor
        if anchor not in self._wishes:
            self._wishes[anchor] = self._new_poset()
        return self._wishes[anchor].add(key, wish)

    def _remove(self, key: SubscriptionKey) -> Change[SubscriptionKey]:
        anchor = self._anchors.pop(key)
        wishes = self._wishes[anchor]
        change = wishes.remove(key)
        if not wishes:
            del self._wishes[anchor]
        return change
