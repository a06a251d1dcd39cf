"""What it means to a subscriber to be moved: the delays of its messages on the way, beside those when nobody moves."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from mqloom.lab.bench_quotes import Came, Sent, quantile

Span = tuple[float, float]
"""From when to when."""


class Travelled(NamedTuple):
    """What one subscriber got, and when it was on its way."""

    came: Came
    moves: Sequence[Span]


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays in seconds, each list in order of length."""

    calm: list[float]
    """Of what was sent, and came, while nobody was moved."""
    moving: list[float]
    """Of what was under way, or sent, while its subscriber was moved."""
    added: list[float]
    """The same, each less the median of its subscriber's calm ones; of who has none, the median of all."""

    def added_ms(self, share: float) -> float | None:
        """Return a quantile of what was added; None of nothing."""
        return in_ms(quantile(self.added, share))

    @property
    def added_ms_max(self) -> float | None:
        """The most that was added to anything."""
        return in_ms(self.added[-1]) if self.added else None


def in_ms(seconds: float | None) -> float | None:
    """Return milliseconds."""
    return None if seconds is None else seconds * 1e3


def delays(sent: Sent, crowd: Sequence[Travelled], calm: Sequence[Span]) -> Delays:
    """Tell delays on the way from calm ones; what is neither, because only others were moved, is left out."""
    each = [_of_one(sent, one, calm) for one in crowd]
    all_calm = sorted(delay for quiet, _ in each for delay in quiet)
    usual = median(all_calm) if all_calm else 0.0
    added = [delay - (median(quiet) if quiet else usual) for quiet, moving in each for delay in moving]
    return Delays(all_calm, sorted(delay for _, moving in each for delay in moving), sorted(added))


def _of_one(sent: Sent, one: Travelled, calm: Sequence[Span]) -> tuple[list[float], list[float]]:
    quiet: list[float] = []
    moving: list[float] = []
    ends = [end for _, end in one.moves]
    calm_ends = [end for _, end in calm]
    for number, came_at in zip(one.came.numbers, one.came.times, strict=True):
        place = number - sent.first
        if not 0 <= place < len(sent.times):
            continue
        sent_at = sent.times[place]
        move = bisect_left(ends, sent_at)  # the first that was not over when it was sent
        if move < len(ends) and one.moves[move][0] <= came_at:
            moving.append(came_at - sent_at)
            continue
        pause = bisect_left(calm_ends, came_at)
        if pause < len(calm) and calm[pause][0] <= sent_at:
            quiet.append(came_at - sent_at)
    return quiet, moving


def out_of_order(came: Came) -> int:
    """Return how many came after one that was published later; what comes once more is not counted."""
    highest, late = -1, 0
    seen: set[int] = set()
    for number in came.numbers:
        if number > highest:
            highest = number
        elif number not in seen:
            late += 1
        seen.add(number)
    return late


def last_end(crowd: Sequence[Travelled], span: Span) -> float:
    """Return when the last of the moves that began in that time was over; the span's own end if there is none."""
    ends = [end for one in crowd for begin, end in one.moves if span[0] <= begin <= span[1]]
    return max(ends, default=span[1])
