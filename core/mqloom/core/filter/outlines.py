"""Outlines: as little of a filter as tells at once which others it surely does not cover.

An outline has a span for each attribute that a conjunction restricts: of which kinds the values are, the value if
there is only one, and else two numbers between which they lie, and of strings two more, for how they end. One holds
another if each of its spans does.

A filter has many cells and one witness. The cells together hold whatever matches it: one for each alternative, and
where an alternative lists the values of an attribute, as IN does, one for each value. The witness is a part of one
alternative, with one value of each attribute whose values are listed. So if a filter covers another, it covers
the other's witness, and as `covers` goes by alternatives and by values, one cell by itself holds that witness.

Outlines of the same form differ in values and bounds only. Filters in use have few forms, as they are written
by programs for publications of a few classes. So an index asks once which form can hold which, and then looks up
values and bounds.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from mqloom.core.filter.ranges import Number, NumberRange, StringRange, after_prefix
from mqloom.core.filter.relations import POINTS_MAX
from mqloom.core.filter.restrictions import Box, Restriction
from mqloom.core.filter.syntax import Scalar

CELLS_MAX: Final = 256
"""Cells of one filter; of an alternative that would exceed that, the listed values share one cell."""

_MISSING, _OTHER, _FALSE, _TRUE, _NUMBERS, _STRINGS = (1 << bit for bit in range(6))

_CHARACTERS: Final = 6
"""By how many characters strings are put in order: 48 bits, which a float holds."""


class Span(NamedTuple):
    """Where the values of one attribute lie."""

    kinds: int
    """Bits: missing, of no kind, false, true, numbers, strings."""
    value: Scalar | None
    """The only one, if it is a number or a string; of the others the kind says which it is."""
    single: bool
    low: float = -math.inf
    high: float = math.inf
    tail_low: float = -math.inf
    tail_high: float = math.inf
    """Of strings: the same for the strings read backwards."""


_EVERYWHERE: Final = Span((1 << 6) - 1, None, False)


class Trait(NamedTuple):
    """What a form says of one attribute: the kinds, whether there is one value only, and where it has bounds."""

    kinds: int
    single: bool
    low: bool
    high: bool


@dataclass(frozen=True, slots=True)
class Form:
    """What outlines that differ in values and bounds only have in common."""

    traits: tuple[tuple[str, Trait], ...]
    empty: bool = False
    """Whether nothing matches. Not empty and without traits is the form of what matches everything."""
    by_path: dict[str, Trait] = field(init=False, repr=False, compare=False)
    values: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The attributes with one value."""
    bounds: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The others; those with bounds on both sides come first."""

    def __post_init__(self) -> None:
        bounds = [(path, trait) for path, trait in self.traits if not trait.single]
        bounds.sort(key=lambda pair: not (pair[1].low and pair[1].high))
        object.__setattr__(self, "by_path", dict(self.traits))
        object.__setattr__(self, "values", tuple(path for path, trait in self.traits if trait.single))
        object.__setattr__(self, "bounds", tuple(path for path, _ in bounds))

    def key(self, spans: dict[str, Span]) -> tuple[Scalar | None, ...]:
        """Return the values where this form asks for one; an outline that this form holds has the same."""
        return tuple([spans[path].value for path in self.values])

    def point(self, spans: dict[str, Span]) -> tuple[float, ...]:
        """Return the bounds, so that those of an outline that holds another are nowhere above the other's.

        High bounds are negated. What the spans do not restrict holds all.
        """
        point: list[float] = []
        for path in self.bounds:
            _, _, _, low, high, tail_low, tail_high = spans.get(path, _EVERYWHERE)
            point += (low, -high)
            if self.by_path[path].kinds == _STRINGS:
                point += (tail_low, -tail_high)
        return tuple(point)

    def may_hold(self, narrow: "Form") -> bool:
        """Say whether an outline of this form can hold one of the other at all."""
        if narrow.empty or self.empty:
            return narrow.empty
        others = narrow.by_path
        for path, (kinds, single, low, high) in self.traits:
            other = others.get(path)
            if other is None:
                return False
            if other.kinds & ~kinds or single > other.single or low > other.low or high > other.high:
                return False
        return True


class Outline(NamedTuple):
    """A form, and what it leaves open."""

    form: Form
    spans: dict[str, Span]


NOWHERE: Final = Outline(Form((), empty=True), {})
"""Of what nothing matches: everything holds it."""


def cells_of(boxes: tuple[Box, ...]) -> tuple[Outline, ...]:
    """Return the cells of a filter, given its boxes."""
    cells: list[Outline] = []
    for left, box in zip(range(len(boxes), 0, -1), boxes, strict=True):
        path, points = _listed(box, CELLS_MAX - len(cells) - left + 1)
        if path is None:
            cells.append(_outline(box))
        else:
            cells += [_outline({**box, path: point}) for point in points]
    return tuple(cells) or (NOWHERE,)


def witness_of(boxes: tuple[Box, ...]) -> Outline:
    """Return the witness of a filter, given its boxes."""
    if not boxes:
        return NOWHERE
    box = max(boxes, key=len)  # the more it asks, the fewer cells hold it
    return _outline_of({path: _span_of_one(box[path]) for path in sorted(box)})


def _listed(box: Box, limit: int) -> tuple[str | None, list[Restriction]]:
    """Return the attribute with the fewest listed values, but more than one, and these.

    A short range is not a list here: with a pattern, a part of it need not be known to have one value.
    """
    best: tuple[str | None, list[Restriction]] = None, []
    for path, restriction in box.items():
        if isinstance(restriction.numbers, NumberRange) or isinstance(restriction.strings, StringRange):
            continue
        points = restriction.points(min(limit, POINTS_MAX))
        if points is not None and len(points) > 1 and (best[0] is None or len(points) < len(best[1])):
            best = path, points
    return best


def _outline(box: Box) -> Outline:
    return _outline_of({path: _span(box[path]) for path in sorted(box)})


def _outline_of(spans: dict[str, Span]) -> Outline:
    return Outline(_form(tuple((path, _trait(span)) for path, span in spans.items())), spans)


@lru_cache(maxsize=1024)
def _form(traits: tuple[tuple[str, Trait], ...]) -> Form:
    return Form(traits)


def _trait(span: Span) -> Trait:
    return Trait(span.kinds, span.single, span.single or span.low > -math.inf, span.single or span.high < math.inf)


def _span_of_one(allowed: Restriction) -> Span:
    """Return the span of the first value, if the values are listed, else that of all."""
    span = _span(allowed)
    points = None if span.single else allowed.points(POINTS_MAX)
    return _span(points[0]) if points else span


def _span(allowed: Restriction) -> Span:
    kinds = (
        _MISSING * allowed.missing
        | _OTHER * allowed.other
        | _FALSE * (False in allowed.booleans)
        | _TRUE * (True in allowed.booleans)
        | _NUMBERS * bool(allowed.numbers)
        | _STRINGS * bool(allowed.strings)
    )
    if kinds == _NUMBERS:
        return _span_of_numbers(allowed)
    if kinds == _STRINGS:
        return _span_of_strings(allowed)
    return Span(kinds, None, kinds in (_MISSING, _FALSE, _TRUE))


def _span_of_numbers(allowed: Restriction) -> Span:
    values = allowed.numbers
    if isinstance(values, NumberRange):
        first, last = values.first, values.last
        low = -math.inf if first is None else _float(first)
        return Span(_NUMBERS, None, False, low, math.inf if last is None else _float(last))
    single = len(values) == 1
    return Span(_NUMBERS, min(values) if single else None, single, _float(min(values)), _float(max(values)))


def _span_of_strings(allowed: Restriction) -> Span:
    values = allowed.strings
    if isinstance(values, StringRange):
        high = math.inf if values.end is None else _place(values.end)
        tails = [tail[::-1] for like in values.likes if (tail := like.tail)]
        tail_low = max(map(_place, tails), default=-math.inf)
        tail_high = min((_place(end) for tail in tails if (end := after_prefix(tail)) is not None), default=math.inf)
        return Span(_STRINGS, None, False, _place(values.low), high, tail_low, tail_high)
    single = len(values) == 1
    ends = [_place(value[: -_CHARACTERS - 1 : -1]) for value in values]
    low, high = _place(min(values)), _place(max(values))
    return Span(_STRINGS, min(values) if single else None, single, low, high, min(ends), max(ends))


def _float(value: Number) -> float:
    """Return the nearest float: of two numbers, never in the wrong order."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _place(text: str) -> float:
    """Return where a string stands among all: of two strings, never in the wrong order.

    Eight bits for each of the first characters; from one that needs more on, all bits.
    """
    start, filler = text[:_CHARACTERS], b"\0"
    try:
        known = start.encode("latin-1")
    except UnicodeEncodeError as error:
        known, filler = start[: error.start].encode("latin-1"), b"\xff"
    return float(int.from_bytes(known.ljust(_CHARACTERS, filler), "big"))
