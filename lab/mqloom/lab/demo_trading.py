"""Quotes that are published in a demonstration, and what has arrived of them against what should have.

What should have arrived is worked out by trying every quote against every subscription in plain Python, without the
filter language, matchers and routes that are being shown.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from mqloom.lab.demo_parts import DemoPublisher, DemoSubscriber

QUIET_S: Final = 10.0
"""What has not come when nothing has come for so long counts as lost: a slow machine may have much to make up for."""
SETTLE_S_MAX: Final = 300.0
"""How long after the last quote deliveries are waited for at most."""


class QuoteSource(Protocol):
    """Where quotes come from."""

    def quote(self, number: int) -> dict[str, object]:
        """Return the next quote, with this `id`."""
        ...


class Arrived(NamedTuple):
    """What came of all that was published."""

    expected: int
    delivered: int
    lost: int
    duplicated: int
    unasked: int
    delays_ms: list[float]
    """In their order by size."""

    def delay_ms(self, percent: int) -> float | None:
        """Return the delay that so many of a hundred deliveries were within."""
        delays = self.delays_ms
        return round(delays[len(delays) * percent // 100], 1) if delays else None


@dataclass(slots=True)
class Trading:
    """Publishers, subscribers, and all quotes so far."""

    subscribers: Sequence[DemoSubscriber]
    publishers: Sequence[DemoPublisher]
    market: QuoteSource
    quotes: dict[int, tuple[dict[str, object], float]] = field(default_factory=dict)
    _wanted: list[set[int]] = field(default_factory=list)
    _tried: int = 0

    def publish_one(self, now: float) -> bool:
        """Let the next publisher publish the next quote; whether it was taken."""
        number = len(self.quotes)
        quote = self.market.quote(number)
        is_taken = self.publishers[number % len(self.publishers)].publish(quote)
        if is_taken:
            self.quotes[number] = (quote, now)
        return is_taken

    def arrived(self) -> Arrived:
        """Try every quote against every subscription, and compare with what has arrived."""
        expected = delivered = lost = duplicated = unasked = 0
        delays_ms: list[float] = []
        for subscriber, wanted in zip(self.subscribers, self._all_wanted(), strict=True):
            got = set(subscriber.received)
            came = wanted & got
            expected += len(wanted)
            delivered += len(came)
            lost += len(wanted - got)
            unasked += len(got - wanted)
            duplicated += sum(subscriber.received.values()) - len(got)
            delays_ms += [(subscriber.received_at[number] - self.quotes[number][1]) * 1000 for number in came]
        return Arrived(expected, delivered, lost, duplicated, unasked, sorted(delays_ms))

    def look(self, now: float) -> None:
        """Note what is to be seen now; called some times a second."""

    def verdict(self) -> dict[str, object]:
        """Return what has arrived, for whoever reads JSON."""
        arrived = self.arrived()
        return {
            "published": len(self.quotes),
            "expected": arrived.expected,
            "delivered": arrived.delivered,
            "lost": arrived.lost,
            "duplicated": arrived.duplicated,
            "unasked": arrived.unasked,
            "delay_ms_p50": arrived.delay_ms(50),
            "delay_ms_p99": arrived.delay_ms(99),
        }

    def is_settled(self) -> bool:
        """Whether everything expected has arrived."""
        pairs = zip(self.subscribers, self._all_wanted(), strict=True)
        return all(wanted <= subscriber.received.keys() for subscriber, wanted in pairs)

    def _all_wanted(self) -> list[set[int]]:
        """Return for each subscriber the quotes that it wants; each quote is tried once."""
        if not self._wanted:
            self._wanted = [set() for _ in self.subscribers]
        for number in range(self._tried, len(self.quotes)):
            quote, _ = self.quotes[number]
            for subscriber, wanted in zip(self.subscribers, self._wanted, strict=True):
                if subscriber.interest.wants(quote):
                    wanted.add(number)
        self._tried = len(self.quotes)
        return self._wanted


async def settled(trading: Trading) -> None:
    """Return when everything has arrived, or nothing comes any more."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLE_S_MAX
    came, came_at = -1, loop.time()
    while not trading.is_settled() and loop.time() < min(end, came_at + QUIET_S):
        count = sum(subscriber.received.total() for subscriber in trading.subscribers)
        if count != came:
            came, came_at = count, loop.time()
        await asyncio.sleep(0.05)


def told(verdict: dict[str, object]) -> str:
    """Return what has arrived, for people."""
    arrived = f"{verdict['delivered']:,} arrived, {verdict['lost']:,} lost, {verdict['duplicated']:,} duplicated"
    return "\n".join(
        (
            f"{verdict['published']:,} quotes published; by trying each against each subscription",
            f"{verdict['expected']:,} deliveries were expected: {arrived}, {verdict['unasked']:,} unasked",
        )
    )


def is_good(verdict: dict[str, object]) -> bool:
    """Tell whether everything that was asked for has come, once, and nothing else."""
    return not (verdict["lost"] or verdict["duplicated"] or verdict["unasked"])


def last_word(verdict: dict[str, object]) -> str:
    """Return the verdict in a few words."""
    return "All is well." if is_good(verdict) else "SOMETHING IS WRONG."
