"""What an edge knows of its own load: what was measured lately, and what a publication costs (paper 000, 4.2)."""

import dataclasses
from collections import deque
from statistics import fmean, median
from typing import Final

from msgspec.structs import replace

from mqloom.agents.averages import mean_load
from mqloom.agents.own_memory import OwnMemory
from mqloom.agents.settings import BalanceSettings
from mqloom.core.estimators import (
    LEARNT_FROM_MIN,
    BrokerEstimate,
    DelayBuckets,
    DelayModel,
    by_shares,
    estimate_of,
    informed,
)
from mqloom.core.load import METRICS, Load, Metric, difference

RECENT_WINDOWS: Final = 3
"""Windows of the meters whose mean an estimate starts from."""

CHANGE_MAX: Final = 20
CHANGE_SHARE_MAX: Final = 0.1
"""Subscriptions that come or go in a window, and what share of all, from which nothing is learnt about matching."""


class OwnLoad:
    """The windows of one broker's meters."""

    def __init__(self, settings: BalanceSettings) -> None:
        self._settings = settings
        self._recent: deque[Load] = deque(maxlen=RECENT_WINDOWS)
        self._delays = DelayBuckets()  # by subscriptions (4.2)
        self._delays_of_deliveries = DelayBuckets(by_shares)
        self._memory = OwnMemory()
        self._taught: BrokerEstimate | None = None
        self._subscriptions = 0
        self._counts_from: float | None = None
        self.last: Load | None = None
        """What was measured last."""

    def sampled(self, load: Load, now: float) -> None:
        """A window has ended."""
        self.last = load
        if self._counts_from is None or now >= self._counts_from:
            self._recent.append(load)
        self._learn(load)
        self._memory.sampled(load)

    def changed(self, now: float) -> None:
        """Clients have come or gone: what was measured is no longer so, nor what a window has of before and after."""
        self._recent.clear()
        self._counts_from = now + self._settings.window_s

    @property
    def since_change(self) -> Load | None:
        """What was measured last, unless clients have come or gone in that window or after it."""
        return self._recent[-1] if self._recent else None

    def estimate(self, *, is_taking: bool = False) -> BrokerEstimate | None:
        """Return what we tell of ourselves in a session, and predict from; None: nothing was measured yet.

        `is_taking`: for a session in which clients come here.
        """
        recent = self._since_jump()
        load = mean_load(recent) if recent else self.last
        if load is None:
            return None
        learnt = self._delays if load.deliveries_s is None else self._delays_of_deliveries
        model = learnt.model() or DelayModel(0.0, 0.0)
        # A window without a publication has no delay. Where there were none at all, what was learnt before holds.
        delays = [each.delay_s for each in recent or (load,) if each.input_rate > 0]
        # A real gateway does other things beside, PRESS among them, when it is asked: one window of these is a spike.
        usual = fmean if load.deliveries_s is None else median
        delay_s = usual(delays) if delays else model.at(load.work)
        memory_each = self._memory.each(load, is_taking=is_taking)
        own = estimate_of(replace(load, delay_s=delay_s), model, memory_each, is_slope_known=learnt.is_slope_known)
        if self._taught is None or own.is_slope_known:
            return own
        return dataclasses.replace(informed(own, self._taught), is_slope_known=True)

    def taught(self, other: BrokerEstimate | None) -> None:
        """Take what another broker knows of what a delivery costs, until we know it ourselves.

        Beyond the paper. A broker that has had about one amount of work cannot tell what it costs from what a
        publication costs anyway, and where brokers came to their clients by a session, each is such a one.
        """
        if other is not None and other.deliveries_s is not None and other.is_slope_known:
            self._taught = other

    @property
    def can_free_memory(self) -> bool:
        """Whether subscriptions take enough of our memory that without them it would not be too full."""
        estimate = self.estimate()
        return estimate is not None and estimate.memory_beside < self._settings.overload_low

    @property
    def lesson(self) -> BrokerEstimate | None:
        """What another broker may learn of us."""
        estimate = self.estimate()
        return estimate if estimate is not None and estimate.deliveries_s is not None else None

    def _since_jump(self) -> list[Load]:
        """Return the last windows, none from before a jump by as much as begins a session: rates have changed then."""
        found: list[Load] = []
        for load in reversed(self._recent):
            if found and any(abs(self._difference(metric, found[0], load)) > 1 for metric in METRICS):
                break
            found.append(load)
        return found[::-1]

    def _difference(self, metric: Metric, one: Load, other: Load) -> float:
        """Return how far two loads are apart, in triggers."""
        apart = difference(metric, one.of(metric), other.of(metric), self._settings.delay_factor_s)
        return apart / self._settings.trigger("local", metric)

    def _learn(self, load: Load) -> None:
        """Learn what a publication costs (4.2), from a window in which the number of subscriptions was about the same.

        The delay is that of the whole window, so it belongs to the number in the middle of it. Where many came or went
        at once it belongs to none. Deliveries are of the whole window, too, and belong to it whoever came or went.
        """
        if load.deliveries_s is not None and load.input_rate * self._settings.window_s >= LEARNT_FROM_MIN:
            self._delays_of_deliveries.observe(load.work, load.delay_s)
        before, self._subscriptions = self._subscriptions, load.subscriptions
        change = abs(load.subscriptions - before)
        if load.input_rate > 0 and change <= max(CHANGE_MAX, CHANGE_SHARE_MAX * before):  # else there is no delay
            self._delays.observe((before + load.subscriptions) // 2, load.delay_s)
