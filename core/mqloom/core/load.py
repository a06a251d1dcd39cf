"""What a broker's load is: the figures that gateways measure, tell each other, predict and compare.

After paper 000, sections 3.3.1, 3.3.3 and 5.2. A ratio of 1 means that a resource is used up; it may be more, when work
piles up. "Matching delay" is the service time of a publication: decode, match, encode and IO.
"""

from enum import Enum
from typing import Final, Literal

from msgspec import Struct

Metric = Literal["input", "match", "output"]
"""What is balanced: input utilisation, matching delay, output utilisation."""

METRICS: Final[tuple[Metric, ...]] = ("input", "match", "output")


STUCK_OUTPUT: Final = 2.0
"""The output utilisation when something is queued and nothing is sent: overloaded, by how much nobody can tell."""


class BalanceState(Enum):
    """How a broker, or a cluster, stands (3.3.3)."""

    OK = "OK"
    """It can be asked to take load."""
    BUSY = "BUSY"
    """It is in a session with another."""
    OVERLOADED = "N/A"
    """It takes nothing more."""
    STABILIZING = "STABILIZING"
    """It has given or taken load a while ago, and waits until its figures tell what came of it."""


class Load(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the meters of one broker and its gateway say about one window of time."""

    input_ratio: float
    """Publications a second that come in, times the matching delay (equation 1)."""
    delay_s: float
    """The matching delay."""
    output_ratio: float
    """The time spent sending over the window's, times what was queued over what was sent (equation 3)."""
    input_rate: float
    """Publications a second that come in."""
    output_bytes_s: float
    """What is sent, in bytes a second."""
    output_bytes_s_max: float
    """What could be."""
    subscriptions: int
    """How many stand in the matching engine."""
    cpu_ratio: float = 0.0
    memory_ratio: float = 0.0
    deliveries_s: float | None = None
    """Publications a second that were given to its own clients, once for each of them; None: not counted."""

    @property
    def work(self) -> float:
        """What the matching delay grows with: see `work_of`."""
        return work_of(self.subscriptions, self.deliveries_s, self.input_rate)

    def of(self, metric: Metric) -> float:
        """Return one of the three figures that are balanced."""
        if metric == "input":
            return self.input_ratio
        return self.output_ratio if metric == "output" else self.delay_s

    @property
    def utilisation(self) -> float:
        """The fullest of all resources: what overload is told by (3.3.3, step 1)."""
        return max(self.input_ratio, self.output_ratio, self.cpu_ratio, self.memory_ratio)


def work_of(subscriptions: int, deliveries_s: float | None, input_rate: float) -> float:
    """Return what the matching delay grows with: subscriptions, or deliveries for each publication.

    In section 4.2 it is the number of subscriptions. Where deliveries are counted, it is these: to match costs our
    engine next to nothing more with more subscriptions, and what a publication costs is to encode it for everybody who
    gets it. Subscribers differ in what they get by orders of magnitude, and those who get most are moved first.
    """
    if deliveries_s is None:
        return float(subscriptions)
    return deliveries_s / input_rate if input_rate > 0 else 0.0


def difference(metric: Metric, one: float, other: float, delay_factor_s: float) -> float:
    """Return by how much `one` is more than `other`: of ratios the difference, of delays normalised (equation 4)."""
    return (one - other) / delay_factor_s if metric == "match" else one - other


def output_utilisation(busy_s: float, window_s: float, queued_bytes: float, sent_bytes: float) -> float:
    """Return equation 3: the share of the window spent sending, times what was put into the queue over what left it.

    The paper lets a window in which nothing is sent count as idle. That is so only when nothing was to be sent.
    """
    if sent_bytes <= 0:
        return STUCK_OUTPUT if queued_bytes > 0 else 0.0
    return min(1.0, busy_s / window_s) * max(1.0, queued_bytes / sent_bytes)
