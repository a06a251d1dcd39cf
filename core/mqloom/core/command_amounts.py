"""Lengths of time and sizes as options of commands, as people write them: `36h`, `30d`, `500MB`, `10GB`."""

import argparse
import re
from typing import Final

SECONDS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
BYTES: Final = {"B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}

_AMOUNT: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]+)")


def time_span(text: str) -> float:
    """Return a length of time in seconds, for `type=`."""
    return _amount(text, SECONDS, "a length of time", "36h or 30d")


def size(text: str) -> int:
    """Return a size in bytes, for `type=`."""
    return round(_amount(text, BYTES, "a size", "500MB or 10GB"))


def _amount(text: str, units: dict[str, int], what: str, examples: str) -> float:
    found = _AMOUNT.fullmatch(text.strip())
    unit = None if found is None else next((unit for unit in units if unit.lower() == found[2].lower()), None)
    if found is None or unit is None or not float(found[1]):
        known = ", ".join(units)
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}, such as {examples}; units are {known}")
    return float(found[1]) * units[unit]


def in_units(amount: float) -> str:
    """Return a number of bytes as people read it."""
    for unit, least in reversed(BYTES.items()):
        if amount >= least:
            return f"{amount / least:,.1f} {unit}" if least > 1 else f"{amount:,.0f} {unit}"
    return f"{amount:,.0f} B"
