"""Numbers as options of commands: read, and refused in words that say which would do."""

import argparse
import math
from collections.abc import Callable
from typing import Final

DIGITS_MAX: Final = 18
"""More are refused: nobody means so many."""


def whole_number(most: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers from 1 to a bound, for `type=`; `1,000` and `1_000` are read too."""
    allowed = "of 1 or more" if most is None else f"from 1 to {most:,}"

    def read(text: str) -> int:
        digits = text.replace(",", "").replace("_", "")
        number = int(digits) if digits.isdecimal() and len(digits) <= DIGITS_MAX else 0
        if number >= 1 and (most is None or number <= most):
            return number
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {allowed}")

    return read


def positive_number(most: float | None = None) -> Callable[[str], float]:
    """Return a reader of numbers over 0 and up to a bound, for `type=`."""
    allowed = "over 0" if most is None else f"over 0 and at most {most:,}"

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if 0 < number < math.inf and (most is None or number <= most):
            return number
        raise argparse.ArgumentTypeError(f"{text!r} is not a number {allowed}")

    return read
