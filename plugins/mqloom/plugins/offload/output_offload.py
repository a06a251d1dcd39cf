"""Offload `output`: to balance output utilisation, in two phases (paper 000, 5.3).

Phase I takes groups that the accepting broker's covering set covers: what they want comes in there already. First those
with whom input falls here too (type I), then those of which not all can go, or it would (type II), then the rest (type
III).

Phase II takes the others, and so brings the accepting broker more input. If a group has others below it, these are now
covered there: Phase I goes on.

Neither moves anybody who would leave the accepting broker with so much more input utilisation that the input offload
takes back what this one gave. The paper demands that of Phase II only; but where somebody goes who alone wanted most of
what came in (type I), it is here that so much less comes in that the input offload sends it back. Only a broker whose
output is overloaded goes on regardless, in Phase II until that is below the lower overload threshold.

In both, the group that leaves the smallest difference goes first; in Phase II, of several, the one that brings the
least input. A group is chosen from once (the ignore set), so it ends.

Where the pseudocode differs from its text, or would not end: Phase I looks for type I where that list is not empty, for
type II in the second; where a type has no promising group the next type is tried, because a group that is too large
says nothing of others, and Phase II has side effects; Phase II without a promising group ends the offload; the ignore
set counts at every classification.
"""

import numpy as np

from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask
from mqloom.plugins.offload.aims import Balance, Escape
from mqloom.plugins.offload.ledger import Ledger
from mqloom.plugins.offload.outlook import Mask
from mqloom.plugins.offload.report_cards import Reports, enter, report, why_not


@hookimpl
def mqloom_offload() -> OffloadKind:
    """Offer it."""
    return OffloadKind(name="output", choose=choose)


def choose(task: OffloadTask) -> OffloadChoice:
    """Return whom to move; output utilisation is what it balances, whatever the task names."""
    return _Alternation(task).run()


class _Alternation:
    """Algorithm 2: Phase I, and as long as that does not balance, Phase II and Phase I again."""

    def __init__(self, task: OffloadTask) -> None:
        self._ledger = Ledger(task)
        stable = Balance("output", task.bounds, ("input",), self._ledger.now())
        self._one = Balance("output", task.bounds) if task.is_overloaded else stable
        self._two = Escape("output", task.bounds) if task.is_overloaded else stable
        self._ignored: Mask = np.zeros(len(task.profile.groups), dtype=np.bool_)
        self._reason = ""

    def run(self) -> OffloadChoice:
        """Alternate until one of the phases ends it."""
        if self._one.is_reached(*self._ledger.now())[0]:
            return self._ledger.choice(f"nothing to do: {self._one.describe(*self._ledger.now())}")
        while not self._phase_one() and not self._phase_two():
            pass
        return self._ledger.choice(self._reason)

    def _phase_one(self) -> bool:
        """Algorithm 3; True: balanced."""
        while True:
            reports = report(self._ledger, self._one, self._ledger.covered & ~self._ignored)
            keys = [np.abs(reports.difference), reports.number]
            best = (reports.best(keys, type_) for type_ in self._types(reports))
            place = next((each for each in best if each is not None), None)
            if place is None:
                return False
            self._ignored[enter(self._ledger, reports, place)] = True
            if self._is_over(self._one):
                return True

    def _types(self, reports: Reports) -> tuple[Mask, Mask, Mask]:
        """Classify what Phase I may choose from: types I, II and III."""
        all_go: Mask = reports.number == self._ledger.subscribers[reports.groups]
        reduces: Mask = self._ledger.reduced[reports.groups] > 0
        return all_go & reduces, ~all_go & reduces, ~reduces

    def _phase_two(self) -> bool:
        """Algorithm 4; False: what was moved covers others, which are for Phase I."""
        while not self._is_over(self._two):
            reports = report(self._ledger, self._two, ~self._ledger.covered & ~self._ignored)
            place = reports.best([np.abs(reports.difference), self._ledger.added[reports.groups], reports.number])
            if place is None:
                self._reason = why_not(self._ledger, self._two, reports)
                return True
            group = enter(self._ledger, reports, place)
            self._ignored[group] = True
            if self._ledger.groups[group].covers and not self._is_over(self._two):
                return False
        return True

    def _is_over(self, aim: Balance) -> bool:
        """Tell whether it ends here, and note why."""
        local, remote = self._ledger.now()
        if not aim.is_reached(local, remote)[0]:
            return False
        state = self._one.describe(local, remote)
        is_even = self._one.is_reached(local, remote)[0]
        self._reason = f"done: {state}" if is_even else f"done: no longer overloaded, {state}"
        return True
