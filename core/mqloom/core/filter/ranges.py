r"""Sets of numbers and sets of strings, as predicates on one attribute describe them.

A set is a frozenset of points, or a range with some points left out. The functions `numbers` and `strings` return
whichever it is: a range in their results always has two members at least, and its ends are as tight as can be.

Numbers are what a publication can carry: doubles, and integers of any size. So next after 1 comes
1.0000000000000002, and from 2**53 on one integer comes after the other. The infinities are numbers, and they are the
last ones in their direction, but no literal can name them.

Strings are ordered by code point and are not dense: next after 'a' comes 'a\0'. So every range of them can be, and
is, written with its first member and the first string behind it. `LIKE 'ab%'` is the range from 'ab' up to 'ac'.
"""

import math
from dataclasses import dataclass
from typing import Final

from mqloom.core.filter.patterns import Pattern

Number = int | float
PATTERNS_MAX: Final = 8
"""Of more patterns than that on one attribute, the others are not searched for contradictions."""

_CODE_POINT_MAX: Final = "\U0010ffff"
_INTEGERS_ONLY: Final = 2**53
"""From here on, and below its negative, every number is an integer."""


@dataclass(frozen=True, slots=True)
class NumberRange:
    """All numbers from `low` to `high`, None being no bound, but for the `excluded`, which lie within."""

    low: Number | None = None
    high: Number | None = None
    low_open: bool = False
    high_open: bool = False
    excluded: frozenset[Number] = frozenset()

    def __contains__(self, value: Number) -> bool:
        low, high = self.low, self.high
        if low is not None and (value < low or (self.low_open and value == low)):
            return False
        if high is not None and (value > high or (self.high_open and value == high)):
            return False
        return value not in self.excluded

    def includes(self, other: "NumberRange") -> bool:
        """Say whether every member of `other` is one of this."""
        first, last = self.first, self.last
        if first is not None and ((its_first := other.first) is None or its_first < first):
            return False
        if last is not None and ((its_last := other.last) is None or its_last > last):
            return False
        return not any(value in other for value in self.excluded)

    def members(self, limit: int) -> frozenset[Number] | None:
        """Return all members, or None if there are more than `limit`."""
        value, last = self.first, self.last
        if value is None or last is None or _count_between(value, last) > limit + len(self.excluded):
            return None
        found = []
        while value <= last:
            if value not in self.excluded:
                found.append(value)
            value = number_after(value)
        return frozenset(found) if len(found) <= limit else None

    @property
    def first(self) -> Number | None:
        """The least member, or None if there is no bound."""
        return number_after(self.low) if self.low_open and self.low is not None else self.low

    @property
    def last(self) -> Number | None:
        """The greatest member, or None if there is no bound."""
        return number_before(self.high) if self.high_open and self.high is not None else self.high

    def meet(self, other: "NumberRange") -> "Numbers":
        """Return what both have in common."""
        low, low_open = self.low, self.low_open
        if low is None or (other.low is not None and (other.low, other.low_open) > (low, low_open)):
            low, low_open = other.low, other.low_open
        high, high_open = self.high, self.high_open
        if high is None or (other.high is not None and (other.high, not other.high_open) < (high, not high_open)):
            high, high_open = other.high, other.high_open
        return numbers(low, high, low_open, high_open, self.excluded | other.excluded)


@dataclass(frozen=True, slots=True)
class StringRange:
    """All strings from `low` to before `end`, None being no bound, of which some are left out.

    They are not among the `excluded`, match all of `likes` and none of `unlikes`.
    """

    low: str = ""
    end: str | None = None
    excluded: frozenset[str] = frozenset()
    likes: tuple[Pattern, ...] = ()
    unlikes: tuple[Pattern, ...] = ()

    def __contains__(self, value: str) -> bool:
        if value < self.low or (self.end is not None and value >= self.end) or value in self.excluded:
            return False
        return all(like.matches(value) for like in self.likes) and not any(
            unlike.matches(value) for unlike in self.unlikes
        )

    def includes(self, other: "StringRange") -> bool:
        """Say whether every member of `other` is surely one of this."""
        if other.low < self.low:
            return False
        if self.end is not None and (other.end is None or other.end > self.end):
            return False
        if any(value in other for value in self.excluded):
            return False
        return all(other.is_like(pattern) for pattern in self.likes) and all(
            other.is_unlike(pattern) for pattern in self.unlikes
        )

    def members(self, limit: int) -> frozenset[str] | None:
        """Return all members, or None if there are more than `limit`, or patterns."""
        # Only such a range has a last member: there is always a string between 'a' and 'b'.
        count = len(self.end) - len(self.low) if self.end is not None else 0
        if not 0 < count <= limit + len(self.excluded) or self.end != self.low + "\0" * count:
            return None
        if self.likes or self.unlikes:
            return None
        found = frozenset(self.low + "\0" * number for number in range(count)) - self.excluded
        return found if len(found) <= limit else None

    def is_like(self, pattern: Pattern) -> bool:
        """Say whether surely every member matches."""
        if any(pattern.covers(known) for known in self.likes):
            return True
        head = self.head
        return bool(head) and pattern.covers(Pattern.prefix(head))

    def is_unlike(self, pattern: Pattern) -> bool:
        """Say whether surely no member matches."""
        if any(known.covers(pattern) for known in self.unlikes):
            return True
        end = after_prefix(pattern.head)
        if (self.end is not None and self.end <= pattern.head) or (end is not None and end <= self.low):
            return True
        return any(known.excludes(pattern) for known in (Pattern.prefix(self.head), *self.likes))

    @property
    def head(self) -> str:
        """What every member begins with."""
        if self.end is None:
            return ""
        pairs = enumerate(zip(self.low, self.end, strict=False))
        common = next((index for index, (one, other) in pairs if one != other), len(self.low))
        longer = self.low[: common + 1]
        return longer if after_prefix(longer) == self.end else self.low[:common]

    def meet(self, other: "StringRange") -> "Strings":
        """Return what both have in common."""
        end = self.end
        if end is None or (other.end is not None and other.end < end):
            end = other.end
        return strings(
            max(self.low, other.low),
            end,
            self.excluded | other.excluded,
            self.likes + other.likes,
            self.unlikes + other.unlikes,
        )


Numbers = frozenset[Number] | NumberRange
Strings = frozenset[str] | StringRange


def numbers(
    low: Number | None = None,
    high: Number | None = None,
    low_open: bool = False,
    high_open: bool = False,
    excluded: frozenset[Number] = frozenset(),
) -> Numbers:
    """Return the set of numbers in the range without the excluded ones."""
    if excluded:
        low, low_open, high, high_open = _tightened(low, low_open, high, high_open, excluded)
    if low is not None and high is not None:
        first, last = number_after(low) if low_open else low, number_before(high) if high_open else high
        if first >= last:
            return frozenset((first,)) if first == last else frozenset()
    if excluded:
        excluded = frozenset(value for value in excluded if value in NumberRange(low, high, True, True))
    return NumberRange(low, high, low_open, high_open, excluded)


def strings(
    low: str = "",
    end: str | None = None,
    excluded: frozenset[str] = frozenset(),
    likes: tuple[Pattern, ...] = (),
    unlikes: tuple[Pattern, ...] = (),
) -> Strings:
    """Return the set of strings in the range that are not excluded, match all of `likes` and none of `unlikes`."""
    for like in likes:
        low = max(low, like.head)
        behind = after_prefix(like.head)
        end = behind if end is None else end if behind is None else min(end, behind)
    # A pattern that asks for a prefix only is said by the range.
    likes = tuple(dict.fromkeys(like for like in likes if not like.is_prefix))
    while low in excluded:
        low += "\0"
    while end and end.endswith("\0") and end[:-1] in excluded:
        end = end[:-1]
    if end is not None and low >= end:
        return frozenset()
    whole = StringRange(low, end, frozenset(), likes, tuple(dict.fromkeys(unlikes)))
    if end == low + "\0":
        return frozenset((low,)) if low in whole else frozenset()
    if _is_surely_empty(whole):
        return frozenset()
    return StringRange(low, end, frozenset(value for value in excluded if value in whole), likes, whole.unlikes)


def number_after(value: Number) -> Number:
    """Return the next greater number."""
    if -_INTEGERS_ONLY <= value < _INTEGERS_ONLY:
        return math.nextafter(value, math.inf)
    return int(value) + 1


def number_before(value: Number) -> Number:
    """Return the next smaller number."""
    return -number_after(-value)


def after(value: str) -> str:
    """Return the next string in order."""
    return value + "\0"


def after_prefix(prefix: str) -> str | None:
    """Return the first string behind all that begin with the prefix, or None if there is none."""
    stem = prefix.rstrip(_CODE_POINT_MAX)
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


def _count_between(low: Number, high: Number) -> float:
    """Return how many numbers lie between two at least: no two are further apart than those of the greatest size."""
    size = max(abs(low), abs(high))
    return int(high) - int(low) if size >= _INTEGERS_ONLY else (high - low) / math.ulp(size)


def _tightened(
    low: Number | None, low_open: bool, high: Number | None, high_open: bool, excluded: frozenset[Number]
) -> tuple[Number | None, bool, Number | None, bool]:
    """Return the bounds of a range so that no excluded number is its first member or its last."""
    if low is not None:
        low_open = low_open or low in excluded
        while low_open and number_after(low) in excluded:
            low = number_after(low)
    if high is not None:
        high_open = high_open or high in excluded
        while high_open and number_before(high) in excluded:
            high = number_before(high)
    return low, low_open, high, high_open


def _is_surely_empty(whole: StringRange) -> bool:
    patterns = (Pattern.prefix(whole.head), *whole.likes[:PATTERNS_MAX])
    return any(one.excludes(other) for one in patterns for other in patterns[1:]) or any(
        unlike.covers(pattern) for unlike in whole.unlikes[:PATTERNS_MAX] for pattern in patterns
    )
