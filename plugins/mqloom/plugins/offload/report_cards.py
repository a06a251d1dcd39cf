"""Report cards of all groups at once (5.1): how many clients of each to move, and what would come of it.

Two things restrain the number. No resource of the accepting broker may pass the lower overload threshold, and no more
are moved than it takes to bring the difference within the balance threshold, or just below. Where the last client leads
from above the threshold to well below it, the paper says both that it may and that it may not go; here it goes if that
leaves the smaller difference. If so many would cost more in other metrics than they bring, fewer go.

With each further client the one broker's figures fall or stay and the other's rise or stay, so where to stop is found
by halving. But where the delay goes by deliveries it may grow with the last client of a group, with whom input falls:
there it is looked at one client before, too. The paper looks at every number of every group, and sorts all: O(n^2 log
n). Here a step costs a few passes over arrays as long as there are groups.
"""

from collections.abc import Callable, Sequence
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
    most: Ints = np.minimum(ledger.movable[groups], ledger.moves_left)
    local, remote = ledger.trial(groups, most)
    number: Ints = np.where((most > 1) | aim.has_room(remote), most, 0)
    stops = ~aim.has_room(remote) | aim.is_reached(local, remote)
    if ledger.local.deliveries_s is not None:
        before = ledger.trial(groups, np.maximum(0, most - 1))
        stops |= ~aim.has_room(before[1]) | aim.is_reached(*before)
    several = np.flatnonzero((most > 1) & stops)
    if len(several):
        number[several] = _enough(ledger, aim, groups[several], most[several])
        local, remote = ledger.trial(groups, number)
    dear = np.flatnonzero((number > 0) & _is_dear(ledger, aim, groups, number)) if aim.guarded else several[:0]
    if len(dear):
        number[dear] = _worth(ledger, aim, groups[dear], number[dear])
        local, remote = ledger.trial(groups, number)
    difference = aim.difference(local, remote)
    here, there = ledger.now()
    smaller = np.abs(difference) < abs(aim.difference(here, there)[0])
    # To bring the two nearer by burdening one alone, and relieving nobody, is no use.
    return Reports(groups, number, difference, (number > 0) & smaller & (aim.of(local) < aim.of(here)[0]))


def _is_dear(ledger: Ledger, aim: Balance, groups: Ints, number: Ints) -> Mask:
    """Tell where so many would cost more than they bring."""
    dear: Mask = ~aim.is_worth_it(*ledger.trial(groups, number))
    if ledger.local.deliveries_s is not None:
        dear |= (number > 1) & ~aim.is_worth_it(*ledger.trial(groups, np.maximum(0, number - 1)))
    return dear


def _enough(ledger: Ledger, aim: Balance, groups: Ints, most: Ints) -> Ints:
    """Return how many of each group may go, where the other has no room for all, or fewer are enough."""

    def is_over(places: Ints, number: Ints) -> Mask:
        local, remote = ledger.trial(groups[places], number)
        return ~aim.has_room(remote) | aim.is_reached(local, remote)

    fine, stop = _halved(np.zeros_like(most), most, is_over)
    local, remote = ledger.trial(groups, stop)
    fewer = ~aim.has_room(remote)
    if aim.may_fall_short:
        above = np.abs(aim.difference(*ledger.trial(groups, fine)))
        fewer |= (fine > 0) & (above <= np.abs(aim.difference(local, remote)))
    return np.where(fewer, fine, stop)


def _worth(ledger: Ledger, aim: Balance, groups: Ints, number: Ints) -> Ints:
    """Return how many of each group may go one after the other, where so many would cost more than they bring.

    What is gained less what it costs rises and then falls with each client, or falls from the first one on, since all
    figures change evenly; but where not even the first is worth it, nobody goes.
    """

    def is_over(places: Ints, fewer: Ints) -> Mask:
        return ~aim.is_worth_it(*ledger.trial(groups[places], fewer))

    one = np.minimum(number, 1)
    fine, _ = _halved(one, number, is_over)
    return np.where((number > 1) & ~is_over(np.arange(len(groups)), one), fine, 0)


def _halved(fine: Ints, stop: Ints, is_over: Callable[[Ints, Ints], Mask]) -> tuple[Ints, Ints]:
    """Return the last number of each that is fine, and the next, at which it is over; what is handed in is known."""
    fine, stop = fine.copy(), stop.copy()
    while True:
        unsure = np.flatnonzero(stop - fine > 1)
        if not len(unsure):
            return fine, stop
        middle = (fine[unsure] + stop[unsure]) // 2
        over = is_over(unsure, middle)
        stop[unsure] = np.where(over, middle, stop[unsure])
        fine[unsure] = np.where(over, fine[unsure], middle)


def offload(ledger: Ledger, aim: Balance, candidates: Mask | None, by_traffic: bool) -> str:
    """Move groups one after the other by Algorithm 1, and return why it ends.

    Without candidates those are that belong to the covering set by then. The group that leaves the smallest difference
    goes first, if fewer publications come in when it has gone, and the other has not far more then; or, `by_traffic`,
    that with the least traffic.
    """
    if aim.is_reached(*ledger.now())[0]:
        return f"nothing to do: {aim.describe(*ledger.now())}"
    while True:
        reports = report(ledger, aim, ledger.maximal if candidates is None else candidates)
        if by_traffic:
            place = reports.best([ledger.bytes_s[reports.groups], ledger.added[reports.groups]])
        else:
            is_relief = (reports.number == ledger.subscribers[reports.groups]) & (ledger.reduced[reports.groups] > 0)
            is_relief &= reports.difference >= -aim.reversible
            place = reports.best([np.abs(reports.difference), reports.number], is_relief)
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
