"""What an offload wants to become smaller, when it is small enough, and what may not happen on the way."""

from dataclasses import dataclass
from typing import Final

from mqloom.core.load import Metric
from mqloom.gateway.offload_interfaces import OffloadBounds
from mqloom.plugins.offload.outlook import Floats, Mask, Outlook

NAMES: Final[dict[Metric, str]] = {
    "input": "input utilisation",
    "match": "matching delay",
    "output": "output utilisation",
}


@dataclass(frozen=True, slots=True)
class Balance:
    """Both brokers the same in one metric, but for the balance threshold, or the offloading one less (5.1).

    Stability: what brings the one metric nearer may bring others apart, the other way round, until a session gives back
    what this one gave. The paper knows this of output and input, and ends Phase II of the output offload when inputs
    are balanced (5.3). Between matching and the other two it is the same where brokers differ much in strength, so
    `guarded` metrics may not become larger there than here by more than `reversal`. That is somewhat less than what
    begins a session: if they had to be equal, brokers would often be stuck with a difference that is far larger.
    """

    metric: Metric
    bounds: OffloadBounds
    guarded: tuple[Metric, ...] = ()

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

    def is_reached(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where nothing more has to be moved."""
        return self.difference(local, remote) <= self.bounds.balance

    def is_allowed(self, local: Outlook, remote: Outlook) -> Mask:
        """Tell where no resource of the accepting broker passes the lower overload threshold, nor load returns."""
        allowed: Mask = remote.utilisation <= self.bounds.overload
        least = -max(self.bounds.balance, self.bounds.reversal)
        for metric in self.guarded:
            allowed &= self._more(metric, local, remote) >= least
        return allowed

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
