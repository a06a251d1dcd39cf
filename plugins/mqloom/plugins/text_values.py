"""Values written as text, in a level of a topic or in a user property: read as the type that the settings name."""

import math
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from mqloom.core.filter.limits import DIGITS_MAX

ValueType = Literal["text", "int", "float", "bool"]


class Reading(NamedTuple):
    """How a type is written, as a regular expression, and how it is read; None where that is out of range."""

    pattern: str
    read: Callable[[str], object]


def _float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


# Python's int() and float() would take blanks, underscores, digits of all scripts, `nan` and `inf` too.
READINGS: Final[Mapping[ValueType, Reading]] = {
    "text": Reading(r"[^/]*+", str),
    "int": Reading(rf"[+-]?[0-9]{{1,{DIGITS_MAX}}}+", int),
    "float": Reading(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", _float),
    "bool": Reading(r"true|false", "true".__eq__),
}
"""Every type. The patterns suit a level of a topic; a property of type text may be any text."""
