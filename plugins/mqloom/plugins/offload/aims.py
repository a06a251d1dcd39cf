"""What an offload wants to become smaller, when it is small enough, and what may not happen on the way."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from mqloom.core.load import Metric
from mqloom.gateway.offload_interfaces import OffloadBounds
from mqloom.plugins.offload.outlook import Floats, Mask, Outlook

NAMES: Final[dict[Metric, str]] = {
    "input": "input utilisation",
    "match": "matching delay",
    "output": "output utilisation",
}

PRICE: Final = 0.5
"""What share of what a session brings it may cost in other metrics, past what may be reversed."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Both brokers the same in one metric, but for the balance threshold, or the offloading one less (5.1).

    Stability: what brings the one metric nearer may bring others apart, the other way round, until a session gives back
    what this one gave. The paper knows this of output and input, and ends Phase II of the output offload when inputs
    are balanced (5.3). But with any of the three it is the same where brokers differ in strength, and in Phase I, too:
    who alone wants something here takes its input away. So of `guarded` metrics the other broker may get `reversal`
    more than is left here. Past that, all of them together may get worse by as much as PRICE of what the session
    brings, counted from its `start`. So whatever sessions two brokers have, all their differences together fall.

    To forbid what is past the bound, whatever a move adds to it, would be wrong. One broker with far more output, and
    the other with a little more input than that, would be stuck: neither could give anything, although to move the one
    who gets everything changes hardly any input, and to move hundreds who get nothing hardly any output.
    """

    metric: Metric
    bounds: OffloadBounds
    guarded: tuple[Metric, ...] = ()
    start: tuple[Outlook, Outlook] | None = None
    """How both brokers stood before anybody was moved; needed where anything is guarded."""

    may_fall_short = True
    """Whether to come near from above is as good as to come near from below."""

    def of(self, outlook: Outlook) -> Floats:
        """Return what is to become smaller."""
        return outlook.of(self.metric)

    def difference(self, local: Outlook, remote: Outlook) -> Floats:
        """Return by how much the offloading broker's is more than the other's; of delays normalised (equation 4)."""
        return self._more(self.metric, local, remote)

    def _more(self, metric: Metric, local: Outlook, remote: Outlook) -> Floats:
        more = local.of(metric) - remote.of(metric)
        return more / self.bounds.delay_factor_s if metric == "match" else more

    @property
    def reversible(self) -> float:
        """By how much more the accepting broker may have of anything."""
        return max(self.bounds.balance, self.bounds.reversal)

    def is_reached(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where nothing more has to be moved."""
        return self.difference(local, remote) <= self.bounds.balance

    def has_room(self, remote: Outlook) -> Mask:
        """Tell where no resource of the accepting broker passes the lower overload threshold."""
        room: Mask = remote.utilisation <= self.bounds.overload
        return room

    def is_worth_it(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where guarded metrics have not got worse than what was gained is worth."""
        assert self.start is not None, "guarded, but nobody knows from where"
        gained = np.abs(self.difference(*self.start)) - np.abs(self.difference(local, remote))
        worse: Floats = np.zeros(1)
        for metric in self.guarded:
            worse = worse + np.maximum(0.0, self._beyond(metric, local, remote) - self._beyond(metric, *self.start))
        worth: Mask = worse <= PRICE * np.maximum(0.0, gained)
        return worth

    def _beyond(self, metric: Metric, local: Outlook, remote: Outlook) -> Floats:
        """Return by how much more than it may the accepting broker has of another metric than the offloading one."""
        return np.maximum(0.0, -self._more(metric, local, remote) - self.reversible)

    def describe(self, local: Outlook, remote: Outlook) -> str:
        """Say how both brokers stand."""
        here, there = (float(each.of(self.metric)[0]) for each in (local, remote))
        if self.metric == "match":
            return f"{NAMES[self.metric]} {here * 1000:.3g} ms here, {there * 1000:.3g} ms there"
        return f"{NAMES[self.metric]} {here:.3f} here, {there:.3f} there"


class Relief(Balance):
    """A broker whose processor, input or memory is overloaded gets all three below the lower threshold (5.2).

    The difference is that of the fullest of the three: delays say nothing of overload, and a broker that is overloaded
    by many publications may well have the shorter one.
    """

    may_fall_short = False

    def of(self, outlook: Outlook) -> Floats:
        """Return the fullest of the three."""
        return outlook.computing

    def difference(self, local: Outlook, remote: Outlook) -> Floats:
        """Return by how much the offloading broker is fuller."""
        return self.of(local) - self.of(remote)

    def is_reached(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where the offloading broker is below the threshold."""
        return local.computing < self.bounds.overload

    def describe(self, local: Outlook, remote: Outlook) -> str:
        """Say how both brokers stand."""
        here, there = (float(each.computing[0]) for each in (local, remote))
        return f"the fullest of processor, input and memory {here:.3f} here, {there:.3f} there"


class Escape(Balance):
    """An overloaded output below the lower threshold, whatever input that brings to the other broker (5.3).

    The offloading broker takes nothing back while it is above the threshold, so nothing oscillates.
    """

    may_fall_short = False

    def is_reached(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where output is below the threshold, or balanced."""
        is_even: Mask = self.difference(local, remote) <= self.bounds.balance
        return is_even | (local.output_ratio < self.bounds.overload)
