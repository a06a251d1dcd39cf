"""Stock quotes and the subscriptions to them, after paper 000, section 6.2; random, and the same for the same seed.

Beside each subscription's text stands what it means in plain Python, written without the filter language: the check
of a run must not lean on what it checks.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Quote = Mapping[str, object]

SYMBOLS = (
    *("AAPL", "ADBE", "AMAT", "AMGN", "AMZN", "BIDU", "CSCO", "DELL", "EBAY", "EXPE", "GOOG", "INTC"),
    *("INTU", "JAVA", "LOGI", "MSFT", "NTAP", "NVDA", "ORCL", "QCOM", "RIMM", "SBUX", "SNDK", "YHOO"),
)


@dataclass(frozen=True, slots=True)
class Interest:
    """A content subscription, and its meaning."""

    where: str
    wants: Callable[[Quote], bool]


@dataclass(slots=True)
class Market:
    """Prices that walk at random."""

    randomness: random.Random

    def quote(self, number: int) -> dict[str, object]:
        """Return the next quote of some company; `id` tells quotes apart."""
        symbol = self.randomness.choice(SYMBOLS)
        opening = round(self.randomness.uniform(10, 90), 2)
        high = round(opening * self.randomness.uniform(1, 1.1), 2)
        low = round(opening * self.randomness.uniform(0.9, 1), 2)
        return {
            "id": number,
            "class": "STOCK",
            "symbol": symbol,
            "open": opening,
            "high": high,
            "low": low,
            "close": round(self.randomness.uniform(low, high), 2),
            "volume": int(self.randomness.lognormvariate(12, 1)),
        }


def interest(randomness: random.Random) -> Interest:
    """Return a random subscription by the paper's six templates, with the paper's shares of them."""
    symbol = randomness.choice(SYMBOLS)
    price = round(randomness.uniform(20, 80), 2)
    volume = int(randomness.lognormvariate(12, 0.5))
    template = randomness.choices(("high", "low", "volume", "symbol", "any volume", "all"), (20, 20, 20, 34, 5, 1))[0]
    match template:
        case "high":
            return Interest(
                f"class = 'STOCK' AND symbol = '{symbol}' AND high > {price}",
                lambda quote: quote["symbol"] == symbol and _number(quote["high"]) > price,
            )
        case "low":
            return Interest(
                f"class = 'STOCK' AND symbol = '{symbol}' AND low < {price}",
                lambda quote: quote["symbol"] == symbol and _number(quote["low"]) < price,
            )
        case "volume":
            return Interest(
                f"class = 'STOCK' AND symbol = '{symbol}' AND volume > {volume}",
                lambda quote: quote["symbol"] == symbol and _number(quote["volume"]) > volume,
            )
        case "symbol":
            return Interest(
                f"class = 'STOCK' AND symbol = '{symbol}'",
                lambda quote: quote["symbol"] == symbol,
            )
        case "any volume":
            large = volume * 10
            return Interest(
                f"class = 'STOCK' AND volume > {large}",
                lambda quote: _number(quote["volume"]) > large,
            )
        case _:
            return Interest("class = 'STOCK'", lambda quote: True)


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value
