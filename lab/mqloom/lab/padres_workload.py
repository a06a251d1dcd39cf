"""Who publishes and who subscribes in the experiments of paper 000 (6.2); random, and the same for the same seed.

Each publisher has one company and a set of its quotes, which it publishes over and over, evenly or as a Poisson
process. A subscriber has one subscription by the paper's six templates, with thresholds from the set of quotes of its
company; one that sinks nothing wants a company that nobody publishes. What a quote matches is worked out once for all
subscribers.
"""

import dataclasses
import random
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mqloom.core.ids import GatewayId
from mqloom.core.subscription import Subscription
from mqloom.lab.padres_setups import Setup
from mqloom.lab.stocks import SYMBOLS, TEMPLATES, Interest, Market, Quote, Wanted

QUOTES: Final = 100
"""How many quotes a publisher has; after the last it begins again."""

TOPICS: Final = "stocks/#"


class Stay(NamedTuple):
    """Where and when a subscriber joins, and when it leaves."""

    joins_at: float
    leaves_at: float
    broker: GatewayId


@dataclasses.dataclass(frozen=True, slots=True)
class Publishing:
    """All publications in the order of their times: when, and which of all quotes."""

    times: NDArray[np.float64]
    quotes: NDArray[np.int64]


class AnyWorkload(Protocol):
    """What the model needs of a workload."""

    setup: Setup
    quotes: list[Quote]
    publishing: Publishing
    stays: list[Stay]
    subscriptions: list[Subscription]

    def matching(self, quote: int) -> NDArray[np.int64]:
        """Return the numbers of the subscribers that want a quote, whether they are there or not."""
        ...


class Workload:
    """Publishers and subscribers of one setup, drawn from a seed."""

    def __init__(self, setup: Setup, seed: int, stays: Sequence[Stay] | None = None) -> None:
        randomness = random.Random(f"{seed} padres {setup.draws or setup.name}")  # noqa: S311 - an experiment, not a secret
        self.setup = setup
        self.symbols = SYMBOLS[: setup.publishers]
        self.quotes: list[Quote] = [quote for symbol in self.symbols for quote in _quotes_of(symbol, randomness)]
        """Those of the first publisher, then those of the next."""
        self.publishing = self._publishing(randomness)
        self.stays = list(stays) if stays is not None else self._joins(randomness)
        self.interests = [self._interest(randomness) for _ in self.stays]
        self.subscriptions = [Subscription.parse(TOPICS, each.where) for each in self.interests]
        self._matches = _Matches(self.interests, self.symbols)
        self._known: dict[int, NDArray[np.int64]] = {}

    def matching(self, quote: int) -> NDArray[np.int64]:
        """Return the numbers of the subscribers that want a quote, whether they are there or not."""
        found = self._known.get(quote)
        if found is None:
            found = self._known[quote] = self._matches.of(self.quotes[quote])
        return found

    def _joins(self, randomness: random.Random) -> list[Stay]:
        setup = self.setup
        times = sorted(randomness.uniform(0.0, setup.join_s) for _ in range(setup.subscribers))
        return [Stay(at, float("inf"), setup.join_at) for at in times]

    def _interest(self, randomness: random.Random) -> Interest:
        sinks_nothing = randomness.random() < self.setup.zero_share
        names, shares = tuple(TEMPLATES), tuple(TEMPLATES.values())
        template = randomness.choices(names, shares)[0]
        publisher = randomness.randrange(self.setup.publishers)
        quote = self.quotes[publisher * QUOTES + randomness.randrange(QUOTES)]
        symbol = self.symbols[publisher]
        if sinks_nothing:
            symbol = SYMBOLS[self.setup.publishers + randomness.randrange(len(SYMBOLS) - self.setup.publishers)]
            template = "symbol" if template in ("any volume", "all") else template
        parts: list[Wanted] = [("class", "=", "STOCK")]
        if template not in ("any volume", "all"):
            parts.append(("symbol", "=", symbol))
        if template == "high":
            parts.append(("high", ">", _number(quote, "high")))
        elif template == "low":
            parts.append(("low", "<", _number(quote, "low")))
        elif template in ("volume", "any volume"):
            parts.append(("volume", ">", _number(quote, "volume")))
        return Interest(tuple(parts))

    def _publishing(self, randomness: random.Random) -> Publishing:
        setup = self.setup
        faster = set(randomness.sample(range(setup.publishers), setup.publishers // 2))
        change_at = setup.change_at if setup.change_at is not None else setup.length_s
        times, quotes = [], []
        for publisher in range(setup.publishers):
            before = _times(0.0, min(change_at, setup.length_s), setup.per_min / 60, setup.is_poisson, randomness)
            rate = setup.per_min / 60 * (2 if publisher in faster else 1)
            after = _times(min(change_at, setup.length_s), setup.length_s, rate, setup.is_poisson, randomness)
            own = np.concatenate([before, after])
            times.append(own)
            quotes.append(publisher * QUOTES + np.arange(len(own)) % QUOTES)
        every_time, every_quote = np.concatenate(times), np.concatenate(quotes)
        order = np.argsort(every_time, kind="stable")
        return Publishing(every_time[order], every_quote[order])


class _Matches:
    """All subscriptions as columns of numbers."""

    def __init__(self, interests: Sequence[Interest], symbols: Sequence[str]) -> None:
        count = len(interests)
        self._number = {symbol: number for number, symbol in enumerate(symbols)}
        self._symbol = np.full(count, -1, dtype=np.int64)
        self._above = {path: np.full(count, -np.inf) for path in ("high", "volume")}
        self._below = {"low": np.full(count, np.inf)}
        for at, interest in enumerate(interests):
            for path, comparator, value in interest.parts:
                if path == "symbol":
                    self._symbol[at] = self._number.get(str(value), -2)
                elif comparator == ">":
                    self._above[path][at] = float(value)
                elif comparator == "<":
                    self._below[path][at] = float(value)

    def of(self, quote: Quote) -> NDArray[np.int64]:
        wanted = (self._symbol == self._number[str(quote["symbol"])]) | (self._symbol == -1)
        for path, limits in self._above.items():
            wanted &= limits < _number(quote, path)
        for path, limits in self._below.items():
            wanted &= limits > _number(quote, path)
        return np.flatnonzero(wanted)


def churn(setup: Setup, seed: int, *, per_min: int, stay_s: tuple[float, float], is_grouped: bool) -> list[Stay]:
    """Return subscribers that come and go: evenly, to a random edge, all of one minute to the same one if grouped."""
    randomness = random.Random(f"{seed} padres churn {is_grouped}")  # noqa: S311 - an experiment, not a secret
    stays = []
    for minute in range(int(setup.length_s // 60)):
        edge = randomness.choice(setup.edges)
        for number in range(per_min):
            at = 60.0 * (minute + number / per_min)
            where = edge if is_grouped else randomness.choice(setup.edges)
            stays.append(Stay(at, at + randomness.uniform(*stay_s), where))
    return stays


def _quotes_of(symbol: str, randomness: random.Random) -> list[Quote]:
    market = Market(randomness, (symbol,))
    return [market.quote(number) for number in range(QUOTES)]


def _times(start: float, end: float, per_s: float, is_poisson: bool, randomness: random.Random) -> NDArray[np.float64]:
    if end <= start:
        return np.empty(0)
    if not is_poisson:
        first = start + randomness.random() / per_s
        return first + np.arange(max(0, int(np.ceil((end - first) * per_s)))) / per_s
    times, at = [], start
    while (at := at + randomness.expovariate(per_s)) < end:
        times.append(at)
    return np.array(times)


def _number(quote: Quote, path: str) -> float:
    value = quote[path]
    assert isinstance(value, int | float)
    return value
