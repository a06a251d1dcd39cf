"""To which values a conjunction restricts each attribute: the ground that relations between filters stand on.

A conjunction asks something of each of its attributes, and nothing of how they go together: the value at `a.b` may
be given by a key of that very name whatever the value at `a` is, so that no path depends on another. Hence it is
a box, with one set of values for each attribute, and one box lies in another if each of its sets does.

A set of values has five parts: missing; the booleans; the numbers; the strings; and all other values (lists, objects,
NaN, ...), which are present but never satisfy a comparison.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from mqloom.core.filter.ranges import (
    NumberRange,
    Numbers,
    StringRange,
    Strings,
    after,
    numbers,
    strings,
)
from mqloom.core.filter.syntax import Comparison, Kind, Like, Membership, Predicate, Presence, Scalar

Box = dict[str, "Restriction"]
"""A restriction for each attribute that is restricted."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """The values an attribute may have."""

    missing: bool = False
    other: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: Numbers = frozenset()
    strings: Strings = frozenset()

    def includes(self, narrow: "Restriction") -> bool:
        """Say whether surely every value that `narrow` allows is allowed here."""
        if narrow.missing > self.missing or narrow.other > self.other or not narrow.booleans <= self.booleans:
            return False
        mine, its = self.numbers, narrow.numbers
        if isinstance(its, NumberRange):
            if isinstance(mine, NumberRange):
                if not mine.includes(its):
                    return False
            elif not mine or (listed := its.members(len(mine))) is None or not listed <= mine:
                return False
        elif its and not all(number in mine for number in its):
            return False
        ours, theirs = self.strings, narrow.strings
        if isinstance(theirs, StringRange):
            if isinstance(ours, StringRange):
                return ours.includes(theirs)
            return bool(ours) and (members := theirs.members(len(ours))) is not None and members <= ours
        return not theirs or all(string in ours for string in theirs)

    def meet(self, other: "Restriction") -> "Restriction":
        """Return the restriction to the values that both allow."""
        return Restriction(
            self.missing and other.missing,
            self.other and other.other,
            self.booleans & other.booleans,
            _meet_numbers(self.numbers, other.numbers),
            _meet_strings(self.strings, other.strings),
        )

    def points(self, limit: int) -> "list[Restriction] | None":
        """Return each allowed value by itself, in order, or None if there are more than `limit`."""
        numbers, strings = self.numbers, self.strings
        listed = numbers.members(limit) if isinstance(numbers, NumberRange) else numbers
        texts = strings.members(limit) if isinstance(strings, StringRange) else strings
        if self.other or listed is None or texts is None:
            return None
        if self.missing + len(self.booleans) + len(listed) + len(texts) > limit:
            return None
        return [
            *([Restriction(missing=True)] if self.missing else []),
            *(Restriction(booleans=frozenset((value,))) for value in sorted(self.booleans)),
            *(Restriction(numbers=frozenset((number,))) for number in sorted(listed)),
            *(Restriction(strings=frozenset((text,))) for text in sorted(texts)),
        ]


NOTHING: Final = Restriction()
_BOTH: Final = frozenset((True, False))
_MISSING: Final = Restriction(missing=True)
_PRESENT: Final = Restriction(other=True, booleans=_BOTH, numbers=NumberRange(), strings=StringRange())
_ALL_OF_KIND: Final[dict[Kind, Restriction]] = {
    "boolean": Restriction(booleans=_BOTH),
    "number": Restriction(numbers=NumberRange()),
    "string": Restriction(strings=StringRange()),
}


def box_of(conjunction: Iterable[Predicate]) -> Box | None:
    """Return the box of a conjunction, or None if surely nothing satisfies it."""
    box: Box = {}
    for predicate in conjunction:
        restriction = restriction_of(predicate)
        known = box.get(predicate.path)
        if known is not None:
            restriction = known.meet(restriction)
        if restriction == NOTHING:
            return None
        box[predicate.path] = restriction
    return box


def restriction_of(predicate: Predicate) -> Restriction:
    """Return the values of which a predicate is true."""
    match predicate:
        case Presence():
            return _PRESENT if predicate.present else _MISSING
        case Comparison():
            return _of_comparison(predicate)
        case Membership():
            if not predicate.negated:
                return _of_values(predicate.values)
            kinds = set(predicate.kinds)
            # Every value is of another kind than some of mixed literals, and then NOT IN is unknown.
            return _without(kinds.pop(), predicate.values) if len(kinds) == 1 else NOTHING
        case Like():
            patterns = (predicate.pattern,)
            return Restriction(strings=strings(unlikes=patterns) if predicate.negated else strings(likes=patterns))
        case _:
            assert_never(predicate)


def _of_comparison(predicate: Comparison) -> Restriction:
    value = predicate.value
    match predicate.operator:
        case "=":
            return _of_values((value,))
        case "<>":
            return _without(predicate.kind, (value,))
        case operator:
            if isinstance(value, str):
                # The range begins with its first member, and ends before the first string behind it.
                if operator in (">", ">="):
                    return Restriction(strings=strings(low=value if operator == ">=" else after(value)))
                return Restriction(strings=strings(end=value if operator == "<" else after(value)))
            if operator in (">", ">="):
                return Restriction(numbers=numbers(low=value, low_open=operator == ">"))
            return Restriction(numbers=numbers(high=value, high_open=operator == "<"))


def _of_values(values: Iterable[Scalar]) -> Restriction:
    values = tuple(values)
    return Restriction(
        booleans=frozenset(value for value in values if isinstance(value, bool)),
        numbers=frozenset(value for value in values if isinstance(value, int | float) and not isinstance(value, bool)),
        strings=frozenset(value for value in values if isinstance(value, str)),
    )


def _without(kind: Kind, values: Iterable[Scalar]) -> Restriction:
    """Return all values of a kind but these, which are of that kind too."""
    all_of_kind, left_out = _ALL_OF_KIND[kind], _of_values(values)
    match kind:
        case "boolean":
            return replace(all_of_kind, booleans=_BOTH - left_out.booleans)
        case "number":
            assert isinstance(left_out.numbers, frozenset)
            return Restriction(numbers=numbers(excluded=left_out.numbers))
        case "string":
            assert isinstance(left_out.strings, frozenset)
            return Restriction(strings=strings(excluded=left_out.strings))


def _meet_numbers(one: Numbers, other: Numbers) -> Numbers:
    if isinstance(one, NumberRange):
        if isinstance(other, NumberRange):
            return one.meet(other)
        one, other = other, one
    return frozenset(value for value in one if value in other)


def _meet_strings(one: Strings, other: Strings) -> Strings:
    if isinstance(one, StringRange):
        if isinstance(other, StringRange):
            return one.meet(other)
        one, other = other, one
    return frozenset(value for value in one if value in other)
