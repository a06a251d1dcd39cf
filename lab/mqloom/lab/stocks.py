"""Stock quotes and the subscriptions to them, after paper 000, section 6.2; random, and the same for the same seed.

What a subscription means is worked out here in plain Python, without the filter language: the check of a run must not
lean on what it checks.
"""

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Quote = Mapping[str, object]
Comparator = Literal["=", "<", ">"]
Wanted = tuple[str, Comparator, str | int | float]
"""Attribute, comparison, value."""

SYMBOLS: Final = (
    *("AAPL", "ADBE", "AMAT", "AMGN", "AMZN", "BIDU", "CSCO", "DELL", "EBAY", "EXPE", "GOOG", "INTC"),
    *("INTU", "JAVA", "LOGI", "MSFT", "NTAP", "NVDA", "ORCL", "QCOM", "RIMM", "SBUX", "SNDK", "YHOO"),
    *("ABT", "ADSK", "AIG", "AKAM", "ALTR", "APOL", "ATVI", "AXP", "BAC", "BBBY", "BMC", "BRCM", "CA"),
    *("CAT", "CELG", "CEPH", "CHKP", "CHRW", "CMCS", "COST", "CTAS", "CTSH", "CTXS", "CVX", "DIS", "DISH"),
    *("ERTS", "ESRX", "FAST", "FISV", "FLEX", "FWLT", "GE", "GENZ", "GILD", "GM", "GRMN", "HD", "HOLX"),
    *("HON", "HPQ", "IBM", "INFY", "ISRG", "JNJ", "JNPR", "JOYG", "JPM", "KLAC", "KO", "LBTY", "LINE"),
    *("LLTC", "MCD", "MMM", "MRK", "MRVL", "MXIM", "NIHD", "ORLY", "PAYX", "PCAR", "PDCO", "PFE", "PG"),
    *("ROST", "RYAAY", "SHLD", "SIAL", "SIRI", "SPLS", "STX", "SYMC", "TEVA", "VRSN", "XOM"),
)

TEMPLATES: Final[dict[str, int]] = {"high": 20, "low": 20, "volume": 20, "symbol": 34, "any volume": 5, "all": 1}
"""The paper's six templates of subscriptions, and how many of a hundred are of each."""

_COMPARE: Final[dict[Comparator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Interest:
    """A content subscription: all of its parts have to hold."""

    parts: tuple[Wanted, ...]

    @property
    def where(self) -> str:
        """It in the filter language."""
        return " AND ".join(f"{path} {comparator} {_literal(value)}" for path, comparator, value in self.parts)

    def wants(self, quote: Quote) -> bool:
        """Its meaning."""
        return all(_COMPARE[comparator](quote[path], value) for path, comparator, value in self.parts)


@dataclass(slots=True)
class Market:
    """Quotes of some companies, each of any company with the same probability."""

    randomness: random.Random
    symbols: Sequence[str] = SYMBOLS

    def quote(self, number: int) -> dict[str, object]:
        """Return the next quote of some company; `id` tells quotes apart."""
        symbol = self.randomness.choice(self.symbols)
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


def interest(randomness: random.Random, symbols: Sequence[str] = SYMBOLS) -> Interest:
    """Return a random subscription by the paper's six templates, with the paper's shares of them."""
    template = randomness.choices(tuple(TEMPLATES), tuple(TEMPLATES.values()))[0]
    # Thresholds are "a randomly chosen value of the same attribute from the stock's publication set": every other
    # quote of the company passes one.
    quote = Market(randomness, symbols).quote(0)
    parts: list[Wanted] = [("class", "=", "STOCK")]
    if template not in ("any volume", "all"):
        parts.append(("symbol", "=", _value(quote, "symbol")))
    match template:
        case "high":
            parts.append(("high", ">", _value(quote, "high")))
        case "low":
            parts.append(("low", "<", _value(quote, "low")))
        case "volume" | "any volume":
            parts.append(("volume", ">", _value(quote, "volume")))
    return Interest(tuple(parts))


def _value(quote: Quote, path: str) -> str | int | float:
    value = quote[path]
    assert isinstance(value, str | int | float)
    return value


def _literal(value: str | float) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
