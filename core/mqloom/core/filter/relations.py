"""Whether one filter covers another: everything that matches the one also matches the other.

A yes is always right. A no may be a "not seen" where patterns are compared or where only several alternatives
together cover; for conjunctions of equalities and ranges both answers are exact.
"""

from typing import Final

from mqloom.core.filter.restrictions import Box, Restriction

POINTS_MAX: Final = 64
"""An alternative is taken apart into the values of one attribute if there are no more of them than that."""


def boxes_cover(wide: tuple[Box, ...], narrow: tuple[Box, ...]) -> bool:
    """Say whether surely everything in one of the `narrow` boxes is in one of the `wide`."""
    return all(_is_covered(box, wide) for box in narrow)


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
    listed = [(path, restriction.points()) for path, restriction in box.items()]
    return [(path, points) for path, points in listed if points and 1 < len(points) <= POINTS_MAX]


def _is_covered_by_points(box: Box, path: str, points: list[Restriction], wide: tuple[Box, ...]) -> bool:
    """Say whether the box is covered value by value: x IN (1, 2) by x = 1 OR x = 2."""
    candidates = [other[path] for other in wide if path in other and _includes(other, box, but_for=path)]
    return all(any(candidate.includes(point) for candidate in candidates) for point in points)
