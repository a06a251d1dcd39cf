"""Subscriptions that cover each other, as in paper 001's data set DT-C: general ones have fewer predicates.

A publication has a kind and four measures, all between 0 and 1. A subscription wants one kind, by Zipf's law, and one
to three measures over a threshold each: the fewer it names, and the lower the thresholds, the more others it covers.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.subscription import Subscription
from mqloom.lab.zipf import Zipf

KINDS: Final = 20
MEASURES: Final = ("price", "size", "age", "rank")
THRESHOLDS: Final = tuple(percent / 100 for percent in range(1, 75))
NAMED: Final = (0.05, 0.25, 0.7)
"""What share of the subscriptions name one, two and three measures."""

TOPICS: Final = "quotes/#"
Content = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription: its parts as they are, and as the gateway reads them."""

    kind: int
    over: tuple[tuple[str, float], ...]
    subscription: Subscription

    @property
    def predicates(self) -> int:
        """How many there are."""
        return 1 + len(self.over)

    def evaluated(self, content: Content) -> tuple[int, bool]:
        """Return how many predicates are evaluated, up to the first that fails; and whether all hold."""
        if content["kind"] != self.kind:
            return 1, False
        for number, (measure, threshold) in enumerate(self.over):
            if not content[measure] > threshold:
                return number + 2, False
        return self.predicates, True


def draw_wishes(count: int, randomness: random.Random) -> list[Wish]:
    """Return so many subscriptions; equal ones are the same object."""
    popularity = Zipf(KINDS, 1.0)
    known: dict[tuple[int, tuple[tuple[str, float], ...]], Wish] = {}
    wishes = []
    for _ in range(count):
        kind = popularity.draw(randomness)
        named = randomness.choices(range(len(NAMED)), NAMED)[0]
        measures = sorted(randomness.sample(MEASURES, named + 1))
        over = tuple((measure, randomness.choice(THRESHOLDS)) for measure in measures)
        if (kind, over) not in known:
            where = " AND ".join([f"kind = {kind}", *(f"{measure} > {least}" for measure, least in over)])
            known[kind, over] = Wish(kind, over, Subscription.parse(TOPICS, where))
        wishes.append(known[kind, over])
    return wishes


def draw_contents(count: int, randomness: random.Random) -> list[Content]:
    """Return so many publications."""
    popularity = Zipf(KINDS, 1.0)
    return [
        {"kind": popularity.draw(randomness), **{measure: randomness.random() for measure in MEASURES}}
        for _ in range(count)
    ]


def share_matched(wishes: Sequence[Wish], contents: Sequence[Content]) -> float:
    """Return the share of the subscriptions that match a publication, on average."""
    return sum(wish.evaluated(content)[1] for wish in wishes for content in contents) / len(wishes) / len(contents)
