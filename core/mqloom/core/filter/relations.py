"""Whether one filter covers another (all that matches the one matches the other), and whether two intersect.

That one covers is only said if it is so: saying it wrongly would lose publications. That two do not intersect
is only said if it is so, for the same reason. The other answer may be a "not seen": where patterns other than prefixes
are compared, and for covering where only several alternatives together cover. For conjunctions of equalities, ranges,
IN and prefixes both answers are exact.
"""

from typing import Final

from mqloom.core.filter.restrictions import NOTHING, Box, Restriction

POINTS_MAX: Final = 64
"""An alternative is taken apart into the values of one attribute if there are no more of them than that."""


def boxes_cover(wide: tuple[Box, ...], narrow: tuple[Box, ...]) -> bool:
    """Say whether surely everything in one of the `narrow` boxes is in one of the `wide`."""
    return all(_is_covered(box, wide) for box in narrow)


def boxes_intersect(ones: tuple[Box, ...], others: tuple[Box, ...]) -> bool:
    """Say whether perhaps something is in one of the `ones` and in one of the `others`; a no is sure."""
    return any(_meet(one, other) for one in ones for other in others)


def _meet(one: Box, other: Box) -> bool:
    """Say whether two boxes perhaps have something in common: for each attribute by itself, as in a box."""
    for path, restriction in one.items():
        known = other.get(path)
        if known is not None and restriction.meet(known) == NOTHING:
            return False
    return True


def _is_covered(box: Box, wide: tuple[Box, ...]) -> bool:
    for other in wide:
        if _includes(other, box):
            return True
    if len(wide) < 2:
        return False
    return any(_is_covered_by_points(box, path, points, wide) for path, points in _listable(box))


def _includes(wide: Box, narrow: Box, but_for: str | None = None) -> bool:
    """Say whether each set of `wide`, but for that of one attribute, includes the one of `narrow`.

    An attribute that only `wide` restricts may have any value in `narrow`: then there is one outside.
    """
    for path, restriction in wide.items():
        if path != but_for:
            known = narrow.get(path)
            if known is None or not restriction.includes(known):
                return False
    return True


def _listable(box: Box) -> list[tuple[str, list[Restriction]]]:
    """Return the attributes that can have a few values only, with these."""
    listed = [(path, restriction.points(POINTS_MAX)) for path, restriction in box.items()]
    return [(path, points) for path, points in listed if points is not None and len(points) > 1]


def _is_covered_by_points(box: Box, path: str, points: list[Restriction], wide: tuple[Box, ...]) -> bool:
    """Say whether the box is covered value by value: x IN (1, 2) by x = 1 OR x = 2."""
    candidates = [other[path] for other in wide if path in other and _includes(other, box, but_for=path)]
    return all(any(candidate.includes(point) for candidate in candidates) for point in points)
