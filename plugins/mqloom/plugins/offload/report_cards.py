"""Report cards of all groups at once (5.1): how many clients of each to move, and what would come of it.

Two things restrain the number. No resource of the accepting broker may pass the lower overload threshold, and no more
are moved than it takes to bring the difference within the balance threshold, or just below. Where the last client leads
from above the threshold to well below it, the paper says both that it may and that it may not go; here it goes if that
leaves the smaller difference.

With each further client the one broker's figures fall or stay and the other's rise or stay, so where to stop is found
by halving. The paper looks at every number of every group, and sorts all: O(n^2 log n). Here a step costs a few passes
over arrays as long as there are groups.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mqloom.plugins.offload.aims import NAMES, Balance
from mqloom.plugins.offload.ledger import Ledger
from mqloom.plugins.offload.outlook import Floats, Ints, Mask


class Reports(NamedTuple):
    """The cards, as far as choosing between them needs them; arrays have a place for each candidate."""

    groups: Ints
    """Which group it is."""
    number: Ints
    """How many of the group to move; 0: nobody."""
    difference: Floats
    """What would be left of the difference; without meaning where nobody can be moved."""
    is_promising: Mask
    """Whether it makes the difference smaller, and the offloading broker's own figure too."""

    def best(self, keys: Sequence[Floats | Ints], among: Mask | None = None) -> int | None:
        """Return the place of the promising one with the least first key, of several the least second, and so on."""
        places = np.flatnonzero(self.is_promising if among is None else self.is_promising & among)
        if not len(places):
            return None
        for key in keys:
            values = key[places]
            places = places[values == values.min()]
        return int(places[0])


def report(ledger: Ledger, aim: Balance, candidates: Mask) -> Reports:
    """Return the cards of those of these groups that have somebody left to move."""
    groups = np.flatnonzero(candidates & (ledger.movable > 0))
    number: Ints = np.minimum(ledger.movable[groups], ledger.moves_left)
    local, remote = ledger.trial(groups, number)
    allowed = aim.is_allowed(local, remote)
    difference, figure = aim.difference(local, remote), aim.of(local)
    single = number <= 1
    number[single & ~allowed] = 0
    several = np.flatnonzero(~single & (~allowed | aim.is_reached(local, remote)))
    if len(several):
        number[several] = _restrained(ledger, aim, groups[several], number[several])
        local, remote = ledger.trial(groups[several], number[several])
        difference[several], figure[several] = aim.difference(local, remote), aim.of(local)
    here, there = ledger.now()
    smaller = np.abs(difference) < abs(aim.difference(here, there)[0])
    # To bring the two nearer by burdening one alone, and relieving nobody, is no use.
    return Reports(groups, number, difference, (number > 0) & smaller & (figure < aim.of(here)[0]))


def _restrained(ledger: Ledger, aim: Balance, groups: Ints, most: Ints) -> Ints:
    """Return how many of each group may go, where not all may, or fewer are enough."""
    fine, stop = np.zeros_like(most), most.copy()
    while True:
        unsure = np.flatnonzero(stop - fine > 1)
        if not len(unsure):
            break
        middle = (fine[unsure] + stop[unsure]) // 2
        local, remote = ledger.trial(groups[unsure], middle)
        stops = ~aim.is_allowed(local, remote) | aim.is_reached(local, remote)
        stop[unsure] = np.where(stops, middle, stop[unsure])
        fine[unsure] = np.where(stops, fine[unsure], middle)
    local, remote = ledger.trial(groups, stop)
    fewer = ~aim.is_allowed(local, remote)
    if aim.may_fall_short:
        above = np.abs(aim.difference(*ledger.trial(groups, fine)))
        fewer |= (fine > 0) & (above <= np.abs(aim.difference(local, remote)))
    return np.where(fewer, fine, stop)


def offload(ledger: Ledger, aim: Balance, candidates: Mask | None, by_traffic: bool) -> str:
    """Move groups one after the other by Algorithm 1, and return why it ends.

    Without candidates those are that belong to the covering set by then. The group that leaves the smallest difference
    goes first; or, `by_traffic`, that with the least traffic.
    """
    if aim.is_reached(*ledger.now())[0]:
        return f"nothing to do: {aim.describe(*ledger.now())}"
    while True:
        reports = report(ledger, aim, ledger.maximal if candidates is None else candidates)
        if by_traffic:
            place = reports.best([ledger.bytes_s[reports.groups], ledger.added[reports.groups]])
        else:
            place = reports.best([np.abs(reports.difference), reports.number])
        if place is None:
            return why_not(ledger, aim, reports)
        enter(ledger, reports, place)
        if aim.is_reached(*ledger.now())[0]:
            return f"done: {aim.describe(*ledger.now())}"


def enter(ledger: Ledger, reports: Reports, place: int) -> int:
    """Move what the card at a place says, and return the group."""
    group = int(reports.groups[place])
    ledger.move(group, int(reports.number[place]), float(reports.difference[place]))
    return group


def why_not(ledger: Ledger, aim: Balance, reports: Reports) -> str:
    """Say why nobody else is moved."""
    state = aim.describe(*ledger.now())
    if not ledger.moves_left:
        return f"no more may be moved in one session: {state}"
    if not len(reports.groups):
        return f"nobody is left who can be moved: {state}"
    if not reports.number.any():
        candidates = np.zeros(len(ledger.groups), dtype=np.bool_)
        candidates[reports.groups] = True
        if not report(ledger, replace(aim, guarded=()), candidates).number.any():
            return f"the other broker has no room for more: {state}"
        others = " or ".join(NAMES[metric] for metric in aim.guarded)
        return f"more would leave the other broker's {others} too far above ours: {state}"
    return f"no further move makes the difference smaller: {state}"
