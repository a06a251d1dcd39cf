"""Which of our own clients' subscriptions want the same: groups, whose traffic telemetry tells.

Two are in one group when topic filter and WHERE are written the same way after parsing. Kept up with every subscription
that comes and goes, since going through all of them once in a window would hold up publications. Alerts are in none:
every gateway carries them, whether or not somebody listens, and nobody's subscribers would move with them.

A group that loses its last subscriber is told once more, without any: else whoever reads would have it here for ever,
and again where its subscribers went.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mqloom.core import layout
from mqloom.core.ids import SubscriptionKey
from mqloom.core.limits import GROUPS_GONE_MAX
from mqloom.core.subscription import Subscription


@dataclass(slots=True, eq=False)
class Group:
    """Subscriptions that want the same, and what they got since the window began."""

    subscription: Subscription
    subscribers: int = 0
    publications: float = 0
    payload_bytes: float = 0


class Groups:
    """The groups of one gateway."""

    def __init__(self, subscriptions: Iterable[tuple[SubscriptionKey, Subscription]]) -> None:
        self._of: dict[SubscriptionKey, Group] = {}
        self._groups: dict[Subscription, Group] = {}
        self._silent_from = 0
        self._busy: dict[Group, None] = {}
        self._gone: dict[Subscription, Group] = {}
        for key, subscription in subscriptions:
            self.add(key, subscription)

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """A subscription of one of our own clients stands from now on."""
        if subscription.topics == layout.alerts():
            return
        group = self._groups.get(subscription)
        self._gone.pop(subscription, None)
        if group is None:
            group = self._groups[subscription] = Group(subscription)
        group.subscribers += 1
        self._of[key] = group

    def remove(self, key: SubscriptionKey) -> None:
        """It stands no more; what its group got is told nevertheless."""
        group = self._of.pop(key, None)
        if group is None:  # it was for alerts
            return
        group.subscribers -= 1
        if not group.subscribers:
            if len(self._gone) < GROUPS_GONE_MAX:
                self._gone[group.subscription] = group
            if not group.publications:
                del self._groups[group.subscription]

    def matched(self, keys: Collection[SubscriptionKey], payload_bytes: int, weight: float) -> None:
        """A publication, which stands for so many, went to these subscriptions."""
        of = self._of
        for group in {of[key] for key in keys if key in of}:
            group.publications += weight
            group.payload_bytes += payload_bytes * weight
            self._busy[group] = None

    def window(self, most: int) -> list[Group]:
        """Return the groups to tell of, and begin a window: those that are gone, those with most traffic, then others.

        Their figures are to be read at once; with the next call they are of the next window.
        """
        gone = list(islice(self._gone.values(), most))
        for group in gone:
            del self._gone[group.subscription]
        others = [group for group in self._busy if group.subscribers]
        busy = sorted(others, key=lambda group: -group.publications)[: most - len(gone)]
        silent = list(islice(self._silent(), most - len(gone) - len(busy)))
        found = [
            Group(each.subscription, each.subscribers, each.publications, each.payload_bytes)
            for each in (*gone, *busy, *silent)
        ]
        for group in self._busy:
            group.publications = group.payload_bytes = 0
            if not group.subscribers:
                del self._groups[group.subscription]
        self._busy = {}
        return found

    def _silent(self) -> Iterator[Group]:
        """Yield groups without traffic, each window further ones, so that every one is told of in its turn."""
        groups = list(self._groups.values())
        if not groups:
            return
        begin = self._silent_from % len(groups)
        for place in range(begin, begin + len(groups)):
            self._silent_from = place + 1
            group = groups[place % len(groups)]
            if not group.publications:
                yield group
