"""Which of our own clients' subscriptions want the same: groups, whose traffic telemetry tells.

Two are in one group when topic filter and WHERE are written the same way after parsing. Kept up with every subscription
that comes and goes, since going through all of them once in a window would hold up publications. Alerts are in none:
every gateway carries them, whether or not somebody listens, and nobody's subscribers would move with them.

A group that loses its last subscriber is told once more, without any: else whoever reads would have it here for ever,
and again where its subscribers went.

What could not be told in its window, for want of room, is told later: each group is counted since it was told last, and
says over how long.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mqloom.core import layout
from mqloom.core.ids import SubscriptionKey
from mqloom.core.limits import GROUPS_GONE_MAX
from mqloom.core.subscription import Subscription


@dataclass(slots=True, eq=False)
class Group:
    """Subscriptions that want the same, and what they got since they were told of last."""

    subscription: Subscription
    since_s: float
    """When that was, by the windows that have passed; or when the first of them came."""
    subscribers: int = 0
    publications: float = 0
    payload_bytes: float = 0


@dataclass(frozen=True, slots=True)
class GroupTold:
    """What there is to tell of a group."""

    subscription: Subscription
    subscribers: int
    publications: float
    payload_bytes: float
    window_s: float
    """Over how long it got that."""


class Groups:
    """The groups of one gateway."""

    def __init__(self, subscriptions: Iterable[tuple[SubscriptionKey, Subscription]]) -> None:
        self._of: dict[SubscriptionKey, Group] = {}
        self._groups: dict[Subscription, Group] = {}
        self._silent_from = 0
        self._now_s = 0.0
        self._busy: dict[Group, None] = {}
        """Those with something to tell."""
        self._gone: dict[Subscription, Group] = {}
        for key, subscription in subscriptions:
            self.add(key, subscription)

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, key: SubscriptionKey, subscription: Subscription) -> None:
        """A subscription of one of our own clients stands from now on."""
        if subscription.topics == layout.alerts():
            return
        group = self._groups.get(subscription) or self._gone.pop(subscription, None)
        if group is None:
            group = Group(subscription, self._now_s)
        self._groups[subscription] = group
        if group.publications:
            self._busy[group] = None
        group.subscribers += 1
        self._of[key] = group

    def remove(self, key: SubscriptionKey) -> None:
        """It stands no more; what its group got is told nevertheless."""
        group = self._of.pop(key, None)
        if group is None:  # it was for alerts
            return
        group.subscribers -= 1
        if not group.subscribers:
            del self._groups[group.subscription]
            self._busy.pop(group, None)
            if len(self._gone) < GROUPS_GONE_MAX:
                self._gone[group.subscription] = group

    def matched(self, keys: Collection[SubscriptionKey], payload_bytes: int, weight: float) -> None:
        """A publication, which stands for so many, went to these subscriptions."""
        of = self._of
        for group in {of[key] for key in keys if key in of}:
            group.publications += weight
            group.payload_bytes += payload_bytes * weight
            self._busy[group] = None

    def begin(self) -> None:
        """Count from now on: what was before is not told."""
        for group in (*self._groups.values(), *self._gone.values()):
            self._told(group)
        self._busy = {}

    def window(self, most: int, window_s: float) -> list[GroupTold]:
        """Return what there is to tell when so many seconds more have passed, of as many groups at most.

        Those that are gone come first, then those that had most, then others in turn.
        """
        self._now_s += window_s
        gone = list(islice(self._gone.values(), most))
        busy = heapq.nlargest(most - len(gone), self._busy, key=lambda group: group.publications)
        silent = list(islice(self._silent(), most - len(gone) - len(busy)))
        for group in gone:
            del self._gone[group.subscription]
        for group in busy:
            del self._busy[group]
        return [self._told(group) for group in (*gone, *busy, *silent)]

    def _told(self, group: Group) -> GroupTold:
        """Return what there is to tell of a group, and count anew."""
        window_s, group.since_s = self._now_s - group.since_s, self._now_s
        told = GroupTold(group.subscription, group.subscribers, group.publications, group.payload_bytes, window_s)
        group.publications = group.payload_bytes = 0
        return told

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
