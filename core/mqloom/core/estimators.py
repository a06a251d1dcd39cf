"""What a broker's load will be after some subscriptions have come or gone (paper 000, section 4.2).

An estimate is what a broker knows of itself: how fast publications come in, what one costs as a function of the number
of subscriptions, and what it sends. Load agents decide by it whom to move, and capacity analysis answers "what if".
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from mqloom.core.load import Load, Metric


class DelayModel(NamedTuple):
    """The matching delay as a line (equation 9): seconds a subscription, and seconds with none."""

    slope_s: float
    base_s: float

    def at(self, subscriptions: int) -> float:
        """Return the delay with so many subscriptions; never less than nothing."""
        return max(0.0, self.slope_s * subscriptions + self.base_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEstimate:
    """The load of one broker, as it is or as it would be."""

    input_rate: float
    """Publications a second."""
    subscriptions: int
    delay: DelayModel
    output_bytes_s: float
    output_bytes_s_max: float
    cpu_beside: float = 0.0
    """How much more the processor does than the input utilisation tells."""
    memory_beside: float = 0.0
    """The memory that is used whatever subscriptions there are, as a ratio."""
    memory_each: float = 0.0
    """The memory that one subscription takes, as a ratio."""

    @property
    def delay_s(self) -> float:
        """The matching delay."""
        return self.delay.at(self.subscriptions)

    @property
    def input_ratio(self) -> float:
        """Equation 10: the input rate, times the matching delay."""
        return self.input_rate * self.delay_s

    @property
    def output_ratio(self) -> float:
        """Equation 11."""
        return self.output_bytes_s / self.output_bytes_s_max if self.output_bytes_s_max else 0.0

    @property
    def cpu_ratio(self) -> float:
        """The processor does what comes in, and whatever it did beside."""
        return max(0.0, self.input_ratio + self.cpu_beside)

    @property
    def memory_ratio(self) -> float:
        """What subscriptions take, and the rest."""
        return max(0.0, self.memory_beside + self.memory_each * self.subscriptions)

    @property
    def utilisation(self) -> float:
        """The fullest of all resources."""
        return max(self.input_ratio, self.output_ratio, self.cpu_ratio, self.memory_ratio)

    def of(self, metric: Metric) -> float:
        """Return one of the three figures that are balanced."""
        if metric == "input":
            return self.input_ratio
        return self.output_ratio if metric == "output" else self.delay_s

    def after(self, *, rate: float = 0.0, subscriptions: int = 0, bytes_s: float = 0.0) -> "BrokerEstimate":
        """Return the estimate with so much more (or, negative, less) of each; nothing falls below nothing."""
        return replace(
            self,
            input_rate=max(0.0, self.input_rate + rate),
            subscriptions=max(0, self.subscriptions + subscriptions),
            output_bytes_s=max(0.0, self.output_bytes_s + bytes_s),
        )


def estimate_of(load: Load, delay: DelayModel) -> BrokerEstimate:
    """Return the estimate that starts from measured load: the model is moved to go through what was measured."""
    moved = DelayModel(delay.slope_s, load.delay_s - delay.slope_s * load.subscriptions)
    each = load.memory_ratio / load.subscriptions if load.subscriptions else 0.0
    # What was queued counts as sent: equation 3 tells overload by it, and it has to be sent some time.
    sent = load.output_ratio * load.output_bytes_s_max if load.output_bytes_s_max else load.output_bytes_s
    return BrokerEstimate(
        input_rate=load.input_rate,
        subscriptions=load.subscriptions,
        delay=moved,
        output_bytes_s=sent,
        output_bytes_s_max=load.output_bytes_s_max,
        cpu_beside=max(0.0, load.cpu_ratio - load.input_ratio) if load.cpu_ratio else 0.0,
        memory_each=each,
    )
