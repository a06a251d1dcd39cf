"""What matchers are measured with: subscriptions and events, random, and the same for the same seed.

stock   paper 000, section 6.2: quotes of 100 companies, and the paper's six templates (`mqloom.lab.stocks`).
box     paper 002, section IV.B: four ranges a subscription, a point an event.
mixed   stock, but for a tenth of the filters, which use the rest of the language.

The events do not depend on how many subscriptions there are, so sizes can be compared.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mqloom.core.filter import And, Comparison, Filter
from mqloom.lab.stocks import SYMBOLS, Market, interest

Event = dict[str, object]

SPARE: Final = 3_000
"""Subscriptions beside those of the workload, for measuring what an insert costs."""

# Paper 002, section IV.B: four dimensions of length 1,000, ranges of 250, a standard deviation of 250, the hot spots
# of the dimensions spread evenly over the range.
BOX_LENGTH: Final = 1_000
BOX_WIDTH: Final = 250
BOX_DEVIATION: Final = 250.0
BOX_HOT_SPOTS: Final = {"w": 200, "x": 400, "y": 600, "z": 800}

MIXED_SHARE: Final = 0.1
EXCHANGES: Final = ("AMEX", "LSE", "NASDAQ", "NYSE", "TSX")


@dataclass(frozen=True, slots=True)
class Workload:
    """Subscription number n has the n-th filter; ids of `spare` go on from there."""

    name: str
    filters: list[Filter]
    spare: list[Filter]
    events: list[Event]


def build_workload(name: str, subscriptions: int, events: int, seed: int, spare: int = SPARE) -> Workload:
    """Return a workload by its name, one of `WORKLOADS`."""
    make_filters, make_events = WORKLOADS[name]
    filters = make_filters(random.Random(f"{seed} subscriptions"))  # noqa: S311 - a workload, not a secret
    points = make_events(random.Random(f"{seed} events"))  # noqa: S311 - as above
    return Workload(
        name=name,
        filters=list(islice(filters, subscriptions)),
        spare=list(islice(filters, spare)),
        events=list(islice(points, events)),
    )


# ---- stock ---------------------------------------------------------------------------------------------------------


def _stock_filter(randomness: random.Random) -> Filter:
    """Return the filter that `Filter.parse` makes of an interest's text; a million need not be parsed."""
    parts = tuple(Comparison(*part) for part in interest(randomness).parts)
    return Filter(And(parts) if len(parts) > 1 else parts[0])


def _stock_filters(randomness: random.Random) -> Iterator[Filter]:
    while True:
        yield _stock_filter(randomness)


def _stock_events(randomness: random.Random) -> Iterator[Event]:
    market = Market(randomness)
    number = 0
    while True:
        yield market.quote(number)
        number += 1


# ---- box -----------------------------------------------------------------------------------------------------------


def _box_filters(randomness: random.Random) -> Iterator[Filter]:
    while True:
        parts: list[Comparison] = []
        for path, hot_spot in BOX_HOT_SPOTS.items():
            low = int(_cropped(randomness, hot_spot)) - BOX_WIDTH // 2
            parts += (Comparison(path, ">=", low), Comparison(path, "<", low + BOX_WIDTH))
        yield Filter(And(tuple(parts)))


def _cropped(randomness: random.Random, hot_spot: int) -> float:
    """Return a centre by the paper's cropped normal distribution: what falls outside the range is drawn again."""
    while not 0 <= (centre := randomness.gauss(hot_spot, BOX_DEVIATION)) < BOX_LENGTH:
        pass
    return centre


def _box_events(randomness: random.Random) -> Iterator[Event]:
    while True:
        yield {path: randomness.randrange(BOX_LENGTH) for path in BOX_HOT_SPOTS}


# ---- mixed ---------------------------------------------------------------------------------------------------------


def _mixed_filters(randomness: random.Random) -> Iterator[Filter]:
    while True:
        if randomness.random() < MIXED_SHARE:
            yield Filter.parse(f"class = 'STOCK' AND {_unusual(randomness)}")
        else:
            yield _stock_filter(randomness)


def _unusual(randomness: random.Random) -> str:
    """Return a condition with OR, NOT, LIKE, IN, presence or a nested path."""
    quote = Market(randomness).quote(0)
    symbol, high, low, volume = str(quote["symbol"]), quote["high"], quote["low"], quote["volume"]
    match randomness.choice(("or", "not", "like", "in", "presence", "nested")):
        case "or":
            return f"symbol = '{symbol}' AND (high > {high} OR volume > {volume})"
        case "not":
            return f"symbol = '{symbol}' AND NOT (low < {low} OR volume <= {volume})"
        case "like":
            pattern = randomness.choice((f"{symbol[:2]}%", f"%{symbol[-2:]}", f"%{symbol[1:3]}%"))
            return f"symbol LIKE '{pattern}' AND volume > {volume}"
        case "in":
            symbols = ", ".join(f"'{each}'" for each in randomness.sample(SYMBOLS, 3))
            return f"symbol IN ({symbols}) AND high > {high}"
        case "presence":
            return f"symbol = '{symbol}' AND halted IS {randomness.choice(('NULL', 'NOT NULL'))}"
        case _:
            exchange = randomness.choice(EXCHANGES)
            return f"symbol = '{symbol}' AND exchange.name = '{exchange}' AND exchange.delay_s < {_delay(randomness)}"


def _mixed_events(randomness: random.Random) -> Iterator[Event]:
    for quote in _stock_events(randomness):
        quote["exchange"] = {"name": randomness.choice(EXCHANGES), "delay_s": _delay(randomness)}
        if randomness.random() < 0.1:
            quote["halted"] = True
        yield quote


def _delay(randomness: random.Random) -> int:
    return randomness.randrange(60)


WORKLOADS: Final[
    dict[str, tuple[Callable[[random.Random], Iterator[Filter]], Callable[[random.Random], Iterator[Event]]]]
] = {
    "stock": (_stock_filters, _stock_events),
    "box": (_box_filters, _box_events),
    "mixed": (_mixed_filters, _mixed_events),
}
