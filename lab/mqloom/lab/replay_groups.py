"""Groups of subscribers in a recording as a workload: who wants which kinds of publications, and how often these come.

Theory of operation. What a publication matched is not recorded, only how often each group matched. So publications are
of kinds. If one group covers another, all that the narrower one gets the wider one gets too: groups make a forest, each
below the narrowest that covers it (by traffic), and the kind of a group is what nobody below it wants. Groups that
overlap and do not cover each other have kinds of their own: a publication that matched both counts twice, and how much
that makes is told. Kinds are numbered along the forest, so that what a group wants is a range of numbers, and load
agents find the same covering among them as there was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mqloom.core.errors import RemoteError
from mqloom.core.subscription import Subscription

COVERING_MAX: Final = 400
"""Groups among which covering is looked for, those with most traffic; the others stand alone."""

TOPICS: Final = "replay"
KIND: Final = "kind"

Series = NDArray[np.float64]
GroupKey = tuple[str, str]
"""Topic filter and WHERE."""


@dataclass(slots=True)
class Kind:
    """One group, and what of its publications nobody below it wants."""

    group: GroupKey
    rate: Series
    """Publications a second that the group matched, by time."""
    below: list["Kind"] = field(default_factory=list)
    number: int = 0
    last: int = 0
    """The highest number below it, its own included."""
    total: Series = field(default_factory=lambda: np.empty(0))
    own: Series = field(default_factory=lambda: np.empty(0))

    @property
    def subscription(self) -> Subscription:
        """What stands for the group in the replay."""
        if self.number == self.last:
            return Subscription.parse(TOPICS, f"{KIND} = {self.number}")
        return Subscription.parse(TOPICS, f"{KIND} >= {self.number} AND {KIND} <= {self.last}")


def kinds_of(rates: Mapping[GroupKey, Series]) -> list[Kind]:
    """Return the kinds of publications, by their numbers."""
    ordered = sorted(rates, key=lambda group: (-float(rates[group].sum()), group))
    kinds = [Kind(group, rates[group]) for group in ordered]
    roots = _planted(kinds)
    found: list[Kind] = []
    for root in roots:
        _number(root, found)
    return found


def _planted(kinds: Sequence[Kind]) -> list[Kind]:
    """Put each below the narrowest that covers it; those that come later have less traffic, and cannot cover it."""
    known = [_parsed(kind.group) for kind in kinds[:COVERING_MAX]]
    roots: list[Kind] = []
    for place, kind in enumerate(kinds):
        own = known[place] if place < COVERING_MAX else None
        above = None
        for other in range(min(place, COVERING_MAX) - 1, -1, -1):
            wider = known[other]
            if own is not None and wider is not None and wider.covers(own):
                above = kinds[other]
                break
        (roots if above is None else above.below).append(kind)
    return roots


def _parsed(group: GroupKey) -> Subscription | None:
    try:
        return Subscription.parse(*group)
    except RemoteError:  # it was cut, because it is too long to be told
        return None


def _number(kind: Kind, found: list[Kind]) -> None:
    kind.number = len(found)
    found.append(kind)
    for each in kind.below:
        _number(each, found)
    kind.last = len(found) - 1
    below = sum((each.total for each in kind.below), start=np.zeros_like(kind.rate))
    kind.total = np.maximum(kind.rate, below)
    kind.own = kind.total - below


def intake_of(kinds: Sequence[Kind]) -> Series:
    """Return how many publications a second all kinds make together."""
    return np.asarray(sum((kind.own for kind in kinds), start=np.zeros_like(kinds[0].rate)))
