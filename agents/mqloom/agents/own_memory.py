"""What a subscription takes of a broker's memory: learnt from how full it was before some came or went, and after.

The paper models memory as a line over subscriptions (6.1). Most of a real memory is not theirs, and changes by itself:
so only what changes together with their number counts, from one time at which that stood still to the next.

Memory that was taken need not be given back: a process may keep what it has freed. So what subscriptions take when they
come, and what they free when they go, are learnt apart. The first is for who takes clients; who gives them away goes by
the second, and by the first as long as it has not seen any go. If they were found to free nothing, moving them is no
help, and memory starts no session (`OwnLoad.can_free_memory`).
"""

from dataclasses import replace
from typing import Final

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.load import Load

STILL_WINDOWS: Final = 3
"""Windows without a change after which the memory is that of the subscriptions: what a broker says may be late."""

WINDOWS_MAX: Final = 10
"""After so many a change is looked at though it goes on."""

CHANGE_MIN: Final = 10
CHANGE_SHARE_MIN: Final = 0.05
"""Subscriptions, and share of all, by which their number must have changed: less tells more of other things."""


class OwnMemory:
    """What one broker knows of that."""

    def __init__(self) -> None:
        self._before: Load | None = None
        self._subscriptions = 0
        self._still = 0
        self._windows = 0
        self._taken: float | None = None
        self._freed: float | None = None

    def sampled(self, load: Load) -> None:
        """A window of the meters has ended."""
        self._still = self._still + 1 if load.subscriptions == self._subscriptions else 0
        self._subscriptions = load.subscriptions
        self._windows += 1
        if self._before is None:
            self._before = load
        elif self._still >= STILL_WINDOWS or self._windows >= WINDOWS_MAX:
            self._learn(self._before, load)
            self._before, self._windows = load, 0

    def _learn(self, before: Load, load: Load) -> None:
        change = load.subscriptions - before.subscriptions
        most = max(load.subscriptions, before.subscriptions)
        if abs(change) < max(CHANGE_MIN, CHANGE_SHARE_MIN * most):
            return
        each = max(0.0, (load.memory_ratio - before.memory_ratio) / change)
        if change > 0:
            self._taken = each if self._taken is None else (self._taken + each) / 2
        else:
            self._freed = each if self._freed is None else (self._freed + each) / 2

    def each(self, load: Load, *, is_taking: bool) -> float:
        """Return what one of the subscriptions takes, 0 if that is not known; all together no more than there is."""
        known = [each for each in (self._freed, self._taken) if each is not None]
        if not known:
            return 0.0
        each = max(known) if is_taking else known[0]
        return min(each, load.memory_ratio / load.subscriptions) if load.subscriptions else each


def with_memory(remote: BrokerEstimate, local: BrokerEstimate) -> BrokerEstimate:
    """Return what another broker says of itself, with what a subscription takes here if it cannot know that yet.

    Else it would seem to take any number for nothing. What it uses now remains what it said.
    """
    if remote.memory_each or not remote.memory_ratio:  # it knows, or does not measure its memory
        return remote
    each = local.memory_each
    if remote.subscriptions:
        each = min(each, remote.memory_ratio / remote.subscriptions)
    return replace(remote, memory_each=each, memory_beside=remote.memory_ratio - each * remote.subscriptions)
