"""What a broker's load will be after some subscriptions have come or gone (paper 000, section 4.2).

An estimate is what a broker knows of itself: how fast publications come in, what one costs as a function of the number
of subscriptions, and what it sends. Load agents decide by it whom to move, and capacity analysis answers "what if".
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final, NamedTuple

from mqloom.core.load import Load, Metric, work_of

BUCKET_WIDTH: Final = 10
"""Counts of subscriptions are rounded to the nearest ten: 5 to 14 are bucket 10."""
BUCKET_SHARE: Final = 0.25
"""Where work is deliveries for each publication: a bucket is by so much more than the one before, and than nothing."""
BUCKETS_MAX: Final = 10
"""With more, the one with the lowest count goes."""
AVERAGED_MAX: Final = 20
"""A bucket's average weighs what comes as one of so many: a broker that has become slower is found out in minutes."""
SPIKE_HISTORY: Final = 5
SPIKE_ABOVE: Final = 1.5
SPIKE_BELOW: Final = 0.5
SPIKES_MAX: Final = 2
"""So many in a row are ignored; one more is how things are now."""
TOLERANCE: Final = 1e-9
"""Buckets that are nearer than their width by no more than this are apart: that is what numbers are rounded by."""
LEARNT_FROM_MIN: Final = 10
"""Publications in a window from which it is learnt what a delivery costs: what fewer cost is chance."""
CORRECTION: Final = (0.5, 3.0)
"""By what factor that which was sampled is corrected to make what was measured, at least and at most."""
OUTPUT_RATIO_MAX: Final = 10.0
"""A fuller output counts as so full: one that sends nothing at all is infinitely full, and cannot be reckoned with."""


class DelayModel(NamedTuple):
    """The matching delay as a line (equation 9): seconds a subscription, or what else work is, and with none."""

    slope_s: float
    base_s: float

    def at(self, work: float) -> float:
        """Return the delay with so many subscriptions, or so much work; never less than nothing."""
        return max(0.0, self.slope_s * work + self.base_s)


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
    deliveries_s: float | None = None
    """Publications a second given to its clients, where they are counted: then the delay is a line over these."""
    is_slope_known: bool = True
    """Whether the delay was measured with different amounts of work; else its slope is assumed."""

    @property
    def work(self) -> float:
        """What the matching delay is a line over."""
        return work_of(self.subscriptions, self.deliveries_s, self.input_rate)

    @property
    def delay_s(self) -> float:
        """The matching delay."""
        return self.delay.at(self.work)

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

    def after(
        self, *, rate: float = 0.0, subscriptions: int = 0, bytes_s: float = 0.0, deliveries_s: float = 0.0
    ) -> "BrokerEstimate":
        """Return the estimate with so much more (or, negative, less) of each; nothing falls below nothing."""
        return replace(
            self,
            deliveries_s=None if self.deliveries_s is None else max(0.0, self.deliveries_s + deliveries_s),
            input_rate=max(0.0, self.input_rate + rate),
            subscriptions=max(0, self.subscriptions + subscriptions),
            output_bytes_s=max(0.0, self.output_bytes_s + bytes_s),
        )


def estimate_of(
    load: Load, delay: DelayModel, memory_each: float = 0.0, *, is_slope_known: bool = True
) -> BrokerEstimate:
    """Return the estimate that starts from measured load: the model is moved to go through what was measured.

    `memory_each` is the memory that one subscription takes, where it is known. Else none of the memory counts as
    theirs: most of a process is not, and a broker with two subscriptions would seem to have no room for a third.
    """
    moved = DelayModel(delay.slope_s, load.delay_s - delay.slope_s * load.work)
    # What was queued counts as sent: equation 3 tells overload by it, and it has to be sent some time.
    ratio = min(load.output_ratio, OUTPUT_RATIO_MAX)
    sent = ratio * load.output_bytes_s_max if load.output_bytes_s_max else load.output_bytes_s
    return BrokerEstimate(
        input_rate=load.input_rate,
        subscriptions=load.subscriptions,
        delay=moved,
        output_bytes_s=sent,
        output_bytes_s_max=load.output_bytes_s_max,
        cpu_beside=max(0.0, load.cpu_ratio - load.input_ratio) if load.cpu_ratio else 0.0,
        memory_beside=max(0.0, load.memory_ratio - memory_each * load.subscriptions),
        memory_each=memory_each,
        deliveries_s=load.deliveries_s,
        is_slope_known=is_slope_known,
    )


def correction_of(measured: float, sampled: float) -> float:
    """Return by what to correct what was sampled, so that all together make what was measured; within bounds."""
    low, high = CORRECTION
    return min(high, max(low, measured / sampled)) if sampled > 0 else 1.0


def informed(remote: BrokerEstimate, local: BrokerEstimate) -> BrokerEstimate:
    """Return what another broker says of itself, with what a subscription costs if it cannot know that yet.

    A broker that never had a subscription has no slope: it would seem to take any number for nothing. Ours is taken
    instead, as much steeper as one publication without any subscription takes longer there. One that never had a
    publication either knows nothing of its delay, whatever it has subscriptions of: it counts as fast as ours.

    Where deliveries are counted, ours is also taken for one that has measured its delay with about one amount of work:
    what a publication costs whoever wants it would else be put down to the few deliveries that it has.
    """
    if remote.delay_s <= 0 and not remote.delay.slope_s:
        return replace(remote, delay=local.delay)
    if remote.deliveries_s is not None and local.deliveries_s is not None and not remote.is_slope_known:
        ours_s = local.delay.at(remote.work)
        slope_s = local.delay.slope_s * (remote.delay_s / ours_s if ours_s else 1.0)
        return replace(remote, delay=DelayModel(slope_s, remote.delay_s - slope_s * remote.work))
    if remote.delay.slope_s or remote.subscriptions:
        return remote
    base_s = local.delay.at(0)
    slope_s = local.delay.slope_s * (remote.delay_s / base_s if base_s else 1.0)
    return replace(remote, delay=DelayModel(slope_s, remote.delay.base_s))


@dataclass(slots=True)
class _Bucket:
    """Averages of what was observed with about so many subscriptions."""

    work: float
    delay_s: float
    observed: int = 1

    def add(self, work: float, delay_s: float) -> None:
        self.observed = min(self.observed + 1, AVERAGED_MAX)
        self.work += (work - self.work) / self.observed
        self.delay_s += (delay_s - self.delay_s) / self.observed


Scale = Callable[[float], float]
"""Says where work lies, in widths of buckets."""


def by_tens(work: float) -> float:
    """Return where so many subscriptions lie (4.2: counts are rounded to tens)."""
    return work / BUCKET_WIDTH


def by_shares(work: float) -> float:
    """Return where so many deliveries lie: a publication goes to two clients or to a thousand, and to ten of them more.

    With tens all that a broker of few clients has ever done would be one bucket, and between hundreds the noise of the
    delay would be more than ten deliveries make.
    """
    return math.log1p(work) / math.log1p(BUCKET_SHARE)


class DelayBuckets:
    """Learns what a publication costs as a function of the number of subscriptions (4.2): buckets, and a line.

    The paper puts a bucket at its rounded count. Here it is at the average of the counts that fell into it, so that a
    delay that is linear is learnt exactly, and not up to the rounding. Averages of neighbouring buckets may be as near
    as 14 and 15, and the slope between these would be all noise: a bucket that is nearer than rounded ones can be is
    passed over. `scale` is by what work is rounded, if it is not the number of subscriptions.
    """

    def __init__(self, scale: Scale = by_tens) -> None:
        self._scale = scale
        self._buckets: dict[int, _Bucket] = {}
        self._last: _Bucket | None = None
        self._history: deque[float] = deque(maxlen=SPIKE_HISTORY)
        self._ignored = 0

    @property
    def is_slope_known(self) -> bool:
        """Whether there are two buckets to draw a line through."""
        return bool(self._slopes())

    def observe(self, work: float, delay_s: float) -> bool:
        """Take the delay of a window in which there were so many subscriptions; False: ignored as a spike."""
        is_spike = self._is_spike(delay_s)
        self._history.append(delay_s)
        if is_spike and self._ignored < SPIKES_MAX:
            self._ignored += 1
            return False
        self._ignored = 0
        place = math.floor(self._scale(work) + 0.5)
        if place in self._buckets:
            self._buckets[place].add(work, delay_s)
        else:
            self._buckets[place] = _Bucket(float(work), delay_s)
        self._last = self._buckets[place]
        if len(self._buckets) > BUCKETS_MAX:  # never the last updated one: the line goes through it
            del self._buckets[min(each for each in self._buckets if each != place)]
        return True

    def _is_spike(self, delay_s: float) -> bool:
        """Compare with the median of the last ones, be they ignored or not; the paper does not say how it compares.

        One huge spike does not make normal values look like spikes then, and three in a row are the new level.
        """
        if len(self._history) < SPIKE_HISTORY:
            return False
        usual_s = median(self._history)
        return not SPIKE_BELOW * usual_s <= delay_s <= SPIKE_ABOVE * usual_s

    def model(self) -> DelayModel | None:
        """Return the line as far as it is known; None before anything was observed.

        The slope is the mean of those from the last updated bucket to each other; the line goes through that bucket.
        A mean that falls is noise, and counts as flat: no engine matches faster for having more to match.

        With one bucket the delay counts as proportional to the number of subscriptions. That overstates the slope: an
        offloading broker seems to gain more than it will, an accepting one to suffer more, so too few are moved, and
        then there is a second bucket. A flat line would move too many, or none for ever. It is flat only where there
        are no subscriptions; see `informed`.
        """
        last = self._last
        if last is None:
            return None
        slopes = self._slopes()
        proportional_s = last.delay_s / last.work if last.work else 0.0
        slope_s = max(0.0, fmean(slopes)) if slopes else proportional_s
        return DelayModel(slope_s, last.delay_s - slope_s * last.work)

    def _slopes(self) -> list[float]:
        last = self._last
        if last is None:
            return []
        here = self._scale(last.work)
        return [
            (each.delay_s - last.delay_s) / (each.work - last.work)
            for each in self._buckets.values()
            if abs(self._scale(each.work) - here) >= 1 - TOLERANCE
        ]
