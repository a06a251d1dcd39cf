"""When to start a session, and with whom: the detection of section 3.3.3, between edges and between clusters.

Step 1: is our own broker overloaded? A resource over the lower overload threshold makes it N/A: it takes no more load.
One over the higher threshold starts a session at once, with whoever is OK, the least loaded first.
Step 2, if we are not, and nobody whom we can see is: are we more loaded than somebody by a trigger, and does that last?

Between the two thresholds a broker is N/A and still runs step 2: else it would stay as it is for ever beside idle ones.
By the same reason "overloaded" means of others what it means of ourselves, over the higher threshold, and not N/A: two
brokers that are N/A would wait for each other.

A full memory makes a broker N/A too. But beyond the paper, whose memory is that of subscribers alone, it starts a
session or asks for help only if they take enough of it that giving them away would help; and nobody waits for it in
step 2.

Clusters do the same with the means of their edges, with higher triggers, and when their edges ask for it.
"""

import random
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from mqloom.agents.averages import Average
from mqloom.agents.lasting import Lasting
from mqloom.agents.pie import Pie
from mqloom.agents.settings import BalanceSettings, Level
from mqloom.agents.standing import Standing
from mqloom.agents.states import BUSY, OK, OVERLOADED, STABILIZING
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS, BalanceState, Load, Metric, difference

YIELDS_MAX: Final = 10
"""Detections in a row that somebody else's overload puts off. The paper has no bound; but one who is overloaded and has
nobody to move would keep all others from balancing for ever. After these, step 2 runs once."""

REQUEST_DETECTIONS: Final = 2
"""A request for global balancing counts for as many detection intervals, times the limit of requests."""

REQUESTS_REMEMBERED_MAX: Final = 100
"""Requests by whose number a copy that comes late is told."""


class Action(NamedTuple):
    """A session that may be started: with whom, and what is to become less."""

    partner: GatewayId
    metric: Metric
    difference: float
    """By how much we are more loaded: what the list is sorted by."""
    is_overload: bool


class Detection(NamedTuple):
    """What a run of the detector has found."""

    actions: tuple[Action, ...]
    """Sessions to try, the best first."""
    asks_globally: bool
    """Whether to ask the head for balancing with other clusters."""
    text: str
    """Why, for people."""


class Detector:
    """Decides for one broker (level local) or one cluster (level global)."""

    def __init__(self, level: Level, settings: BalanceSettings, randomness: random.Random, now: float) -> None:
        self._level = level
        self._settings = settings
        self._randomness = randomness
        self._standing = Standing(level, settings)
        self._average = Average()
        self._edge_overloaded = False
        self._lasting = Lasting[tuple[GatewayId, Metric]](settings.lasting_detections)
        self._yields = 0
        self._counts_from = now
        self._detect_at = now
        self._schedule(now)

    @property
    def state(self) -> BalanceState:
        """How we stand; nobody but an OK broker or cluster takes load."""
        return self._standing.state

    @property
    def next_at(self) -> float:
        """When to call `advance` again, and `detect` if it is due, at the latest."""
        changes_at = self._standing.next_at
        if changes_at is None:
            return self._detect_at
        return changes_at if self.state is BUSY else min(changes_at, self._detect_at)

    @property
    def average(self) -> Load | None:
        """The mean load since the last detection: what `detect` is to decide by (3.3.3, last paragraph)."""
        return self._average.load

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to run `detect`: 3.3.3, not in a session."""
        return now >= self._detect_at and self.state is not BUSY

    def sampled(self, load: Load, now: float) -> None:
        """Take what a window has brought (an edge): too much is noticed at once, that it is less by detections only."""
        self._standing.sampled(load, now)
        self._standing.advance(now)
        if now < self._counts_from:
            return
        self._average.add(load)
        if load.utilisation > self._settings.overload_high:
            self._standing.weigh(True)

    def watched(self, edges: Sequence[Pie], now: float) -> None:
        """Take how the edges of the cluster stand (a head): it is N/A if one of them is (3.3.3, Figure 7)."""
        low, high = self._settings.overload_low, self._settings.overload_high
        self._standing.weigh(any(edge.state is OVERLOADED or edge.load.utilisation > low for edge in edges))
        self._edge_overloaded = any(_pressure(edge.load) > high for edge in edges)
        self._standing.advance(now)

    def advance(self, now: float) -> None:
        """Notice what has passed: the deadline of a session, or a stabilise duration."""
        self._standing.advance(now)

    def began(self, now: float, until: float | None = None) -> None:
        """A session began, or goes on: it ends by `until` even if nobody says so."""
        self._standing.began(now, until)

    def ended(self, now: float, changed: bool) -> None:
        """The session has ended; `changed`: somebody has moved, so that load has to settle.

        Then nothing is decided before a window has passed that began after it: what was measured is no longer so. Else
        all since the last detection counts (3.3.3), the time of the session too, and not only what has come after it.
        """
        self._standing.ended(now, changed)
        if changed:
            self._average.take()
            self._lasting.clear()
            self._counts_from = now + self._settings.window_s
            self._detect_at = max(self._detect_at, self._counts_from + self._settings.window_s)

    def detect(
        self,
        load: Load,
        others: Sequence[Pie],
        now: float,
        *,
        requested: bool = False,
        can_free_memory: bool = True,
        silent: Collection[GatewayId] = (),
    ) -> Detection:
        """Run the detection for the mean load since the last run; `others` are those whom we see, without ourselves.

        `requested`: edges of this cluster have asked for it (a head). `can_free_memory`: if subscribers went, a full
        memory would have room. `silent`: of these a keep-alive is missing, so step 2 does not wait for them.
        """
        self._schedule(now)
        self._average.take()
        self._standing.advance(now)
        if self._level == "local":
            self._standing.weigh(load.utilisation > self._settings.overload_low)
        if self.state is BUSY:
            return Detection((), False, "in a session")
        available = [pie for pie in others if pie.state is OK]
        low, high = self._settings.overload_low, self._settings.overload_high
        overloaded = [each for each in overloaded_resources(load, high) if each.name != "memory" or can_free_memory]
        is_helped = self.state is OVERLOADED and (can_free_memory or _pressure(load) > low)
        # 3.3.3: an N/A edge with nobody to balance with, because none is OK, asks its head for help.
        is_alone = self._level == "local" and not available and (is_helped or bool(overloaded))
        if overloaded:
            self._yields = 0
            actions = overload_actions(overloaded, available)
            return Detection(actions, is_alone, f"overloaded: {_named(overloaded)}; {_seen(actions, others)}")
        if requested:
            self._yields = 0
            actions = _sorted(
                Action(*key, found, True) for key, found in self._differences(load, available).items() if found > 0
            )
            return Detection(actions, False, f"edges ask for it; {_seen(actions, others)}")
        if self.state is STABILIZING:
            return Detection((), is_alone, "load has not settled since the last session")
        if waits_for := self._has_priority([pie for pie in others if pie.broker not in silent]):
            return Detection((), is_alone, waits_for)
        differences = self._differences(load, available)
        self._lasting.note(differences)
        actions = _sorted(
            Action(*key, found, False)
            for key, found in differences.items()
            if self._lasting.is_over(key, self._settings.trigger(self._level, key[1]))
        )
        return Detection(actions, is_alone, f"not overloaded; {_seen(actions, others)}")

    def _differences(self, load: Load, available: Sequence[Pie]) -> dict[tuple[GatewayId, Metric], float]:
        """Return by how much we are more loaded than each, in each metric."""
        factor_s = self._settings.delay_factor_s
        return {
            (pie.broker, metric): difference(metric, load.of(metric), pie.load.of(metric), factor_s)
            for pie in available
            for metric in METRICS
        }

    def _has_priority(self, others: Sequence[Pie]) -> str:
        """Return who is overloaded and comes first, or nothing: step 2 is only run when nobody is."""
        first = next((pie.broker for pie in others if _pressure(pie.load) > self._settings.overload_high), None)
        if (first is None and not self._edge_overloaded) or self._yields >= YIELDS_MAX:
            self._yields = 0
            return ""
        self._yields += 1
        # An overloaded edge offloads within its cluster first, or asks: 3.3.3, locality.
        return (
            f"{first} is overloaded and comes first" if first else "an edge is overloaded and its cluster comes first"
        )

    def _schedule(self, now: float) -> None:
        # 3.3.3: not a fixed interval, or the order in which brokers come would be fixed too.
        self._detect_at = now + self._randomness.uniform(*self._settings.detect_s(self._level))


def _pressure(load: Load) -> float:
    """Return how full the resources are that moving subscribers is sure to relieve: all but memory."""
    return max(load.input_ratio, load.output_ratio, load.cpu_ratio)


class Resource(NamedTuple):
    """One that is used beyond the higher overload threshold."""

    name: str
    metric: Metric
    """What has to become less for it to be used less (Table II)."""
    used: float


def overloaded_resources(load: Load, high: float) -> list[Resource]:
    """Return what is used beyond the higher overload threshold (step 1)."""
    resources = (
        Resource("input", "input", load.input_ratio),
        Resource("output", "output", load.output_ratio),
        Resource("cpu", "match", load.cpu_ratio),
        Resource("memory", "match", load.memory_ratio),
    )
    return [resource for resource in resources if resource.used > high]


def overload_actions(overloaded: Sequence[Resource], available: Sequence[Pie]) -> tuple[Action, ...]:
    """Return step 1's list, by the difference in what is overloaded: one for each partner and metric."""
    best: dict[tuple[GatewayId, Metric], float] = {}
    for name, metric, used in overloaded:
        for pie in available:
            found = used - float(getattr(pie.load, f"{name}_ratio"))
            if found > max(0.0, best.get((pie.broker, metric), 0.0)):
                best[pie.broker, metric] = found
    return _sorted(Action(partner, metric, found, True) for (partner, metric), found in best.items())


def _sorted(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return them as the mediator tries them (3.3.3): the largest difference first; of equals, by name."""
    return tuple(sorted(actions, key=lambda action: (-action.difference, action.partner, action.metric)))


def _named(overloaded: Sequence[Resource]) -> str:
    return ", ".join(f"{resource.name} {resource.used:.2f}" for resource in overloaded)


def _seen(actions: Sequence[Action], others: Sequence[Pie]) -> str:
    states = ", ".join(f"{pie.broker} {pie.state.value}" for pie in others[:20]) or "nobody"
    if not actions:
        return f"no partner among {states}"
    best = actions[0]
    return f"best of {len(actions)}: {best.partner}, {best.difference:.2f} less {best.metric}; seen: {states}"


class GlobalRequests:
    """Counts, at a head, how often edges have asked for balancing with other clusters (3.3.3)."""

    def __init__(self, settings: BalanceSettings) -> None:
        self._limit = settings.global_requests
        self._keep_s = REQUEST_DETECTIONS * settings.local_detect_max_s * settings.global_requests
        self._apart_s = settings.local_detect_min_s / 2
        self._requests: deque[tuple[GatewayId, float]] = deque(maxlen=settings.global_requests)
        self._remembered: deque[tuple[GatewayId, int]] = deque(maxlen=REQUESTS_REMEMBERED_MAX)

    def asked(self, edge: GatewayId, number: int, now: float) -> bool:
        """Count a request; tell whether there are enough. One that came twice counts once, and two of one need do."""
        if (edge, number) in self._remembered:
            return False
        self._remembered.append((edge, number))
        while self._requests and now - self._requests[0][1] > self._keep_s:
            self._requests.popleft()
        if not any(by == edge and now - at < self._apart_s for by, at in self._requests):
            self._requests.append((edge, now))
        return len(self._requests) >= self._limit

    def clear(self) -> None:
        """Begin to count anew: a session was started, or has ended."""
        self._requests.clear()
