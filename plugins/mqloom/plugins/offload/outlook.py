"""What a broker would be like after each of many moves: the formulas of `BrokerEstimate`, to the bit, for arrays."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.load import Metric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Outlook:
    """One broker with so much more (or, negative, less) of each, in as many cases as the arrays are long.

    What nobody asks for is not computed: it is made for every step of an offload.
    """

    def __init__(
        self, now: BrokerEstimate, rate: Floats, subscriptions: Ints, bytes_s: Floats, deliveries_s: Floats
    ) -> None:
        self._now = now
        self._rate = np.maximum(0.0, now.input_rate + rate)
        self._subscriptions = np.maximum(0, now.subscriptions + subscriptions)
        self._bytes_s = bytes_s
        self._deliveries_s = deliveries_s

    @cached_property
    def delay_s(self) -> Floats:
        """The matching delay."""
        return np.maximum(0.0, self._now.delay.slope_s * self._work() + self._now.delay.base_s)

    def _work(self) -> Floats | Ints:
        if self._now.deliveries_s is None:
            return self._subscriptions
        deliveries_s = np.maximum(0.0, self._now.deliveries_s + self._deliveries_s)
        work: Floats = np.divide(deliveries_s, self._rate, out=np.zeros_like(deliveries_s), where=self._rate > 0)
        return work

    @cached_property
    def input_ratio(self) -> Floats:
        """Equation 10."""
        return self._rate * self.delay_s

    @cached_property
    def output_ratio(self) -> Floats:
        """Equation 11."""
        if not self._now.output_bytes_s_max:
            return np.zeros_like(self._bytes_s)
        return np.maximum(0.0, self._now.output_bytes_s + self._bytes_s) / self._now.output_bytes_s_max

    @property
    def cpu_ratio(self) -> Floats:
        """The processor does what comes in, and whatever it did beside."""
        return np.maximum(0.0, self.input_ratio + self._now.cpu_beside) if self._now.cpu_beside else self.input_ratio

    @property
    def memory_ratio(self) -> Floats:
        """What subscriptions take, and the rest."""
        if not self._now.memory_each:
            return np.array([max(0.0, self._now.memory_beside)])  # the same for all
        return np.maximum(0.0, self._now.memory_beside + self._now.memory_each * self._subscriptions)

    @cached_property
    def computing(self) -> Floats:
        """The fullest of what a match offload relieves (5.2): processor, input, memory."""
        fullest = np.maximum(self.input_ratio, self.cpu_ratio) if self._now.cpu_beside else self.input_ratio
        return np.maximum(fullest, self.memory_ratio)

    @property
    def utilisation(self) -> Floats:
        """The fullest of all resources."""
        return np.maximum(self.computing, self.output_ratio)

    def of(self, metric: Metric) -> Floats:
        """Return one of the three figures that are balanced."""
        if metric == "input":
            return self.input_ratio
        return self.output_ratio if metric == "output" else self.delay_s
