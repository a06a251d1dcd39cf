"""What the federation's measurement publishes, who wants what of it, and the exact account of what came.

Publications are numbered. Number n is quote n modulo QUOTES of the stock workload, with n as its `id`; so what a
subscriber has to get is known by trying its interest once on every quote that has its symbol. Numbers have eight
digits, and so all publications of one quote are of one length.
"""

import copy
import json
import math
import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.lab.stocks import Interest, Market, interest

QUOTES: Final = 10_000
FIRST_NUMBER: Final = 10_000_000
SHARE: Final = (0.005, 0.015)
"""The part of all quotes that an interest matches: about one in a hundred."""
PREFIX: Final = '{"id": '
"""What every payload begins with; the number follows."""
DATA: Final = "stocks/#"


class Quotes:
    """The quotes of one seed, and the interests of so many subscribers; `share`: in how much of the quotes, each."""

    def __init__(self, seed: int, subscribers: int, share: tuple[float, float] = SHARE) -> None:
        randomness = random.Random(seed)  # noqa: S311 - a workload, not a secret
        market = Market(randomness)
        self.quotes = [market.quote(FIRST_NUMBER + number) for number in range(QUOTES)]
        self.interests: list[Interest] = []
        self.wanted: list[frozenset[int]] = []
        """By subscriber: which quotes, by trying all that have its symbol."""
        of_symbol: dict[object, list[int]] = {}
        for index, quote in enumerate(self.quotes):
            of_symbol.setdefault(quote["symbol"], []).append(index)
        while len(self.interests) < subscribers:
            wish = interest(randomness)
            symbols = [value for path, comparator, value in wish.parts if (path, comparator) == ("symbol", "=")]
            tried = of_symbol.get(symbols[0], ()) if symbols else range(QUOTES)
            matching = frozenset(index for index in tried if wish.wants(self.quotes[index]))
            if share[0] <= len(matching) / QUOTES <= share[1]:
                self.interests.append(wish)
                self.wanted.append(matching)

    def everything(self) -> "Quotes":
        """Return the same quotes, all wanted by one subscriber."""
        other = copy.copy(self)
        other.interests = []
        other.wanted = [frozenset(range(QUOTES))]
        return other

    def packets(self) -> list[tuple[bytes, bytes]]:
        """Return the topic and the payload behind the number of each quote."""
        whole = [(f"stocks/{quote['symbol']}", json.dumps(quote)) for quote in self.quotes]
        cut = len(PREFIX) + len(str(FIRST_NUMBER))
        return [(topic.encode(), payload[cut:].encode()) for topic, payload in whole]

    @property
    def mean_bytes(self) -> float:
        """Bytes of topic and payload of a publication that anybody wants, on average."""
        anybody = self.wanted_by_anybody
        sizes = [len(topic) + len(rest) + len(PREFIX) + 8 for topic, rest in self.packets()]
        return sum(sizes[index] for index in anybody) / len(anybody) if anybody else math.nan

    @property
    def wanted_by_anybody(self) -> frozenset[int]:
        """Which quotes at least one subscriber wants."""
        return frozenset().union(*self.wanted)

    def numbers(self, indices: Iterable[int], first: int, count: int) -> set[int]:
        """Return the numbers of those quotes among the publications first, first + 1, ..., so many."""
        chosen = sorted(indices)
        start = first - first % QUOTES
        return {
            number
            for lap in range(start, first + count, QUOTES)
            for index in chosen
            if first <= (number := lap + index) < first + count
        }


@dataclass(frozen=True, slots=True)
class Sent:
    """What was published: numbers from `first` on, each with the time of its sending."""

    first: int
    times: "array[float]"
    took_s: float
    """From the first to the moment when all were sent, and acknowledged if that was asked for."""

    @property
    def last_at(self) -> float:
        """When the last was sent."""
        return self.times[-1]


@dataclass(frozen=True, slots=True)
class Came:
    """What one subscriber got and wanted: numbers, and the time of each."""

    numbers: "array[int]"
    times: "array[float]"


@dataclass(frozen=True, slots=True)
class Account:
    """What became of one run."""

    wanted: int
    """Deliveries that had to be, over all subscribers."""
    lost: int
    repeated: int
    wrong: int
    """Deliveries of what its subscriber does not want."""
    late_s: float
    """When the last came, after the last was sent."""
    delays: list[float]
    """Of each delivery, in seconds, in order of length."""


def account(quotes: Quotes, sent: Sent, came: Sequence[Came]) -> Account:
    """Compare what came with what had to come, number by number."""
    count, times = len(sent.times), sent.times
    lost = repeated = wrong = wanted = 0
    delays: list[float] = []
    last_at = 0.0
    for indices, each in zip(quotes.wanted, came, strict=True):
        expected = quotes.numbers(indices, sent.first, count)
        got = set(each.numbers)
        wanted += len(expected)
        lost += len(expected - got)
        wrong += len(got - expected)
        repeated += len(each.numbers) - len(got)
        for number, at in zip(each.numbers, each.times, strict=True):
            place = number - sent.first
            if 0 <= place < count:
                delays.append(at - times[place])
                last_at = max(last_at, at)
    return Account(wanted, lost, repeated, wrong, max(0.0, last_at - sent.last_at), sorted(delays))


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which that share of the ordered ones lies; None of nothing."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return by how much the second grows with the first, by least squares; 0 of fewer than two."""
    count = len(points)
    if count < 2:
        return 0.0
    middle = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / spread if spread else 0.0
