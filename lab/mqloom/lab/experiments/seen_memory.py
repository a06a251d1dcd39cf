"""Whether duplicate removal forgets as fast as it learns.

A subscriber wants 1% of what 1,000 origins publish. Each publication carries its origin's low-water mark, below which
everything is done; the mark lags behind by up to WINDOW publications, at random. Publications of an origin overtake
each other, and one of ten comes a second time, now or much later.

A plain set of everything that ever came says what the answers should have been, and what it would have held. Needed
is what nobody could do without: what has come and is not below the newest mark that has come with it. The bound is
that of the protocol, origins x window. The target is twice what is needed and a few entries for each origin, for
nobody can clear away after every single publication without going through all of them.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Final

from mqloom.core.ids import GatewayId
from mqloom.core.seen import Seen
from mqloom.lab.experiment import Curve, Experiment, Panel, Picture, Report, Row, Tell, at_most, exactly, thinned

ORIGINS: Final = 1_000
PUBLICATIONS: Final = 10_000_000
WANTED: Final = 0.01
WINDOW: Final = 1_000
AGAIN: Final = 0.1
SLACK: Final = 16
"""Entries of an origin that may be left lying about."""

UNDER_WAY_MAX: Final = 4
REMEMBERED: Final = 20
"""Publications of an origin that may come again."""

LOOKS: Final = 1_000

_RARITY: Final = -math.log1p(-WANTED)
"""With it the whole part of an exponential number is how many unwanted ones come before a wanted one."""

Arrival = tuple[int, int]
"""Sequence and low-water mark."""


@dataclass(slots=True)
class Origin:
    """One origin, as far as the subscriber hears of it; and the plain version of what to remember of it."""

    name: GatewayId
    sequence: int = 0
    low_water: int = 0
    under_way: list[Arrival] = field(default_factory=list)
    recent: list[Arrival] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    needed: set[int] = field(default_factory=set)
    floor: int = 0

    def publish(self, randomness: random.Random) -> None:
        """Publish until there is one that the subscriber wants."""
        self.sequence += 1 + int(randomness.expovariate(_RARITY))
        # Nothing that is still under way is done with.
        done = min(self.sequence - randomness.randrange(WINDOW), *(sequence for sequence, _ in self.under_way), 2**63)
        self.low_water = max(self.low_water, done)
        self.under_way.append((self.sequence, self.low_water))

    def arrivals(self, randomness: random.Random) -> list[Arrival]:
        """Return what comes now: too old, too many, or by chance; in an order of its own."""
        found: list[Arrival] = []
        while self.under_way and (
            self.under_way[0][0] <= self.sequence - WINDOW
            or len(self.under_way) > UNDER_WAY_MAX
            or randomness.random() < 0.5
        ):
            oldest = self.under_way[0][0] <= self.sequence - WINDOW
            found.append(self.under_way.pop(0 if oldest else randomness.randrange(len(self.under_way))))
        self.recent = (self.recent + found)[-REMEMBERED:]
        if self.recent and randomness.random() < AGAIN:
            found.append(randomness.choice(self.recent))
        return found

    def is_new(self, arrival: Arrival) -> bool:
        """Tell from a set of everything, and keep count of what is needed."""
        sequence, low_water = arrival
        new = sequence not in self.known
        if new:
            self.known.add(sequence)
            self.floor = max(self.floor, low_water)
            self.needed = {each for each in (*self.needed, sequence) if each >= self.floor}
        return new


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    taken_for_duplicates: int = 0
    let_through: int = 0
    held: list[tuple[float, float]] = field(default_factory=list)
    needed: list[tuple[float, float]] = field(default_factory=list)
    plain: list[tuple[float, float]] = field(default_factory=list)


def run(seed: int, quick: bool, tell: Tell) -> Report:
    """Run it; the small version has a twentieth of the origins and a tenth of the publications."""
    randomness = random.Random(f"{seed} seen-memory")  # noqa: S311 - an experiment, not a secret
    count, publications = (ORIGINS // 20, PUBLICATIONS // 10) if quick else (ORIGINS, PUBLICATIONS)
    origins = [Origin(GatewayId(f"G{number}")) for number in range(count)]
    seen, tally = Seen(), _Tally()
    wanted = int(publications * WANTED)
    for number in range(1, wanted + 1):
        origin = randomness.choice(origins)
        origin.publish(randomness)
        for arrival in origin.arrivals(randomness):
            _compare(seen, origin, arrival, tally)
        if number % (wanted // LOOKS) == 0:
            published = sum(each.sequence for each in origins)
            _look(seen, origins, published / 1e6, tally)
            tell(number / wanted, f"{published:,} published")
    return _report(count, sum(each.sequence for each in origins), tally)


def _compare(seen: Seen, origin: Origin, arrival: Arrival, tally: _Tally) -> None:
    new = seen.first_time(origin.name, 1, *arrival)
    should = origin.is_new(arrival)
    tally.calls += 1
    tally.taken_for_duplicates += should and not new
    tally.let_through += new and not should


def _look(seen: Seen, origins: list[Origin], published: float, tally: _Tally) -> None:
    tally.held.append((published, len(seen)))
    tally.needed.append((published, sum(len(each.needed) for each in origins)))
    tally.plain.append((published, sum(len(each.known) for each in origins)))


def _report(origins: int, published: int, tally: _Tally) -> Report:
    held = [int(count) for _, count in tally.held]
    needed = max(int(count) for _, count in tally.needed)
    half = len(held) // 2
    growth = max(held[half:]) / max(1, *held[:half])
    rows = (
        Row(name="publications of all origins", ours=published),
        Row(name="that came to the subscriber, repeats included", ours=tally.calls),
        exactly("new ones taken for duplicates", tally.taken_for_duplicates, 0),
        exactly("duplicates let through", tally.let_through, 0),
        Row(name="entries of a plain set at the end", ours=int(tally.plain[-1][1])),
        Row(name="entries needed, at most", ours=needed),
        at_most("entries held, at most", max(held), 2 * needed + SLACK * origins, bound=origins * WINDOW),
        at_most("the same, second half over first half", growth, 1.1),
    )
    curves = (
        Curve("plain set", thinned(tally.plain)),
        Curve("held", thinned(tally.held)),
        Curve("needed", thinned(tally.needed)),
    )
    return Report(rows=rows, picture=Picture(x_label="million publications", panels=(Panel("entries", curves),)))


experiment: Final = Experiment(
    name="seen-memory",
    summary="duplicate removal forgets as fast as it learns",
    source="our promise: memory of origins x window, over 10 million publications",
    run=run,
)
