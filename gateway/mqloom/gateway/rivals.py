"""Announcements of subscriptions that the table has from another neighbour: kept until that one takes its own back.

Where the primary network has no cycle there are none. In a cycle a subscription comes from two sides, and the first
counts. When the first is taken back, by a withdrawal or because its neighbour goes, the subscriber may still be there,
by the other way: the cycle was cut. The neighbour on that way does not say so again, for it has said it; so it must be
remembered. If the subscriber is gone, what is remembered is about nobody, and goes round until it has crossed HOPS_MAX
links, or everybody has heard of the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqloom.core.ids import GatewayId, SubscriptionKey
from mqloom.core.subscription import Subscription

RIVALS_MAX: Final = 100_000
"""Announcements that are remembered; more are only refused, and counted: after the cycle is cut, they are missing until
the link over which they came is opened anew."""


@dataclass(slots=True)
class Rival:
    """One announcement."""

    subscription: Subscription
    named: GatewayId | None
    """The anchor."""
    hops: int
    stale: bool = False


class Rivals:
    """All of them, at one gateway."""

    def __init__(self) -> None:
        self._rivals: dict[SubscriptionKey, dict[GatewayId, Rival]] = {}
        self._count = 0

    def keep(self, key: SubscriptionKey, neighbour: GatewayId, rival: Rival) -> None:
        """Remember what a neighbour announced, in the place of what it announced before."""
        self.drop(key, neighbour)
        if self._count < RIVALS_MAX:
            self._rivals.setdefault(key, {})[neighbour] = rival
            self._count += 1

    def drop(self, key: SubscriptionKey, neighbour: GatewayId) -> None:
        """A neighbour takes an announcement back, or it counts now."""
        of_key = self._rivals.get(key, {})
        if of_key.pop(neighbour, None) is not None:
            self._count -= 1
            if not of_key:
                del self._rivals[key]

    def drop_all(self, key: SubscriptionKey) -> None:
        """Nobody but us may announce this one."""
        self._count -= len(self._rivals.pop(key, {}))

    def take(self, key: SubscriptionKey) -> tuple[GatewayId, Rival] | None:
        """Return the one that counts next, the nearest, and remember it no more."""
        of_key = self._rivals.get(key)
        if not of_key:
            return None
        neighbour = min(of_key, key=lambda name: (of_key[name].hops, name))
        rival = of_key[neighbour]
        self.drop(key, neighbour)
        return neighbour, rival

    def doubt(self, neighbour: GatewayId) -> None:
        """A neighbour begins anew."""
        for _, rival in self._of(neighbour):
            rival.stale = True

    def sweep(self, neighbour: GatewayId, *, all_of_them: bool = False) -> None:
        """A neighbour has said everything, or is none any more: forget what it did not name again."""
        for key in [key for key, rival in self._of(neighbour) if rival.stale or all_of_them]:
            self.drop(key, neighbour)

    def _of(self, neighbour: GatewayId) -> Iterator[tuple[SubscriptionKey, Rival]]:
        for key, of_key in self._rivals.items():
            if neighbour in of_key:
                yield key, of_key[neighbour]

    def __iter__(self) -> Iterator[tuple[SubscriptionKey, GatewayId]]:
        return ((key, neighbour) for key, of_key in self._rivals.items() for neighbour in of_key)

    def __len__(self) -> int:
        return self._count
