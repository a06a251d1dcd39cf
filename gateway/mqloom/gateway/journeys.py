"""The moves of many clients, as one job: who waits, who is under way, who has moved or stayed, and what is due when.

A job orders at most `at_once` clients before the first of them is done, and `rate` a second. Whoever says nothing until
its time is over counts as silent; but if it is served elsewhere by then, and only waits for what is under way to it
here, it is given as long as the gateway itself waits for that. A standing job, a drain, tries again with those that
stayed, DRAIN_TRIES_MAX times in all with DRAIN_REST_S between, and never ends by itself: whoever comes later is ordered
too, before the others; and who is on the way for another job is looked at again after such a rest.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    DRAIN_REST_S,
    DRAIN_TRIES_MAX,
    LEAVING_S,
    MIGRATION_GRACE_S,
    MIGRATION_PROBLEMS_MAX,
    MIGRATION_SILENCE_S,
    MIGRATION_WATCHERS_MAX,
    MIGRATION_WORD_S,
)
from mqloom.core.migration_records import Bounds

LATE_S: Final = 0.1
"""How late a job may be looked at and still keep its rate, by some orders at once."""


class JourneyStep(IntEnum):
    """How far a client has come, as its record and its answers say; it never goes back."""

    ORDERED = 1
    MOVING = 2
    ARRIVED = 3


@dataclass(slots=True)
class Journey:
    """One client under way; `session` is the name of its order."""

    client: ClientId
    to: GatewayId
    session: str
    until: float
    step: JourneyStep = JourneyStep.ORDERED

    has_more_time: bool = False

    def reach(self, step: JourneyStep) -> bool:
        """Note how far it is; whether that is further than before."""
        is_news = step > self.step
        self.step = max(step, self.step)
        return is_news


@dataclass(slots=True)
class Outcome:
    """What has become of all clients of a job, by name."""

    moved: list[ClientId] = field(default_factory=list)
    stayed: dict[ClientId, str] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """What an operator, or an agent, has asked for."""

    targets: tuple[GatewayId, ...]
    bounds: Bounds
    is_standing: bool = False
    unknown: tuple[ClientId, ...] = ()
    immovable: dict[str, str] = field(default_factory=dict)
    waiting: dict[ClientId, None] = field(default_factory=dict)
    under_way: dict[ClientId, Journey] = field(default_factory=dict)
    newcomers: dict[ClientId, None] = field(default_factory=dict)
    resting: dict[ClientId, float] = field(default_factory=dict)
    """Until when those that stayed, or are on their way for another job, are left alone."""
    watchers: dict[ClientId, int] = field(default_factory=dict)
    """Who is told, each by the number of its request."""
    moved: int = 0
    stayed: int = 0
    problems: dict[ClientId, str] = field(default_factory=dict)
    """Of those that stayed, and were not moved since; the first MIGRATION_PROBLEMS_MAX."""
    outcome: Outcome | None = None
    """Kept for an agent."""
    size: int = 0
    _tries: dict[ClientId, int] = field(default_factory=dict)
    _turn: int = 0
    _order_at: float = 0.0
    _late_at: float = math.inf
    _word_at: float = 0.0
    _silence_at: float = 0.0
    _has_news: bool = True

    # ---- who is moved when ---------------------------------------------------------------------------------------

    def add(self, clients: list[ClientId]) -> None:
        """Let these wait behind the others."""
        fresh = [client for client in clients if not self.has(client)]
        self.waiting.update(dict.fromkeys(fresh))
        self.size += len(fresh)
        self._has_news = True

    def add_newcomer(self, client: ClientId) -> None:
        """Let somebody who has just come be the next, unless it has been tried often enough."""
        if self._tries.get(client, 0) < DRAIN_TRIES_MAX and not self.has(client):
            self.newcomers[client] = None
            self.size += 1
            self._has_news = True

    def has(self, client: ClientId) -> bool:
        """Whether a client waits or is under way."""
        return any(client in each for each in (self.waiting, self.newcomers, self.resting, self.under_way))

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self.waiting) + len(self.newcomers) + len(self.resting)

    def next_client(self, now: float) -> ClientId | None:
        """Return whose turn it is, if it is anybody's now; it waits no more."""
        while self.resting and next(iter(self.resting.values())) <= now:
            client = next(iter(self.resting))
            del self.resting[client]
            self.waiting[client] = None
        queue = self.newcomers or self.waiting
        if not queue or now < self._order_at or len(self.under_way) >= self.bounds.at_once:
            return None
        if self.bounds.rate:
            self._order_at = max(self._order_at, now - LATE_S) + 1 / self.bounds.rate
        client = next(iter(queue))
        del queue[client]
        return client

    def next_target(self, known: frozenset[GatewayId]) -> GatewayId | None:
        """Return the next target in turn that is among those known."""
        for _ in self.targets:
            target = self.targets[self._turn % len(self.targets)]
            self._turn += 1
            if target in known:
                return target
        return None

    def depart(self, client: ClientId, to: GatewayId, session: str, now: float) -> None:
        """A client was ordered."""
        until = now + self.bounds.deadline_s + MIGRATION_GRACE_S
        self.under_way[client] = Journey(client, to, session, until)
        self._late_at = min(self._late_at, until)
        self._tries[client] = self._tries.get(client, 0) + 1
        self._has_news = True

    def rest(self, client: ClientId, now: float) -> None:
        """Leave a client alone for a while; then it waits again."""
        self.resting[client] = now + DRAIN_REST_S
        self._has_news = True

    def news(self) -> None:
        """Something is to be told."""
        self._has_news = True

    def leave_out(self, client: ClientId) -> None:
        """A client is gone: a standing job has nothing to do with it any more."""
        self.under_way.pop(client, None)
        self._tries.pop(client, None)
        self._has_news = True

    def end(self, client: ClientId, problem: str, now: float) -> bool:
        """A client has moved, or stayed for a problem; whether it will be tried again."""
        is_tried = self.under_way.pop(client, None) is not None
        self._has_news = True
        if self.outcome is not None and problem:
            self.outcome.stayed[client] = problem
        elif self.outcome is not None:
            self.outcome.moved.append(client)
        if not problem:
            self.moved += 1
            if self.problems.pop(client, None) is not None:
                self.stayed -= 1
            self._tries.pop(client, None)
            return False
        if self.is_standing and is_tried and self._tries.get(client, 0) < DRAIN_TRIES_MAX:
            self.rest(client, now)
            return True
        self.stayed += 1
        if len(self.problems) < MIGRATION_PROBLEMS_MAX:
            self.problems[client] = problem
        return False

    def late(self, now: float) -> list[ClientId]:
        """Return those whose time is over."""
        if now < self._late_at:
            return []
        late = []
        for client, journey in self.under_way.items():
            if journey.until <= now and journey.step is JourneyStep.ARRIVED and not journey.has_more_time:
                journey.has_more_time = True
                journey.until = now + LEAVING_S
            elif journey.until <= now:
                late.append(client)
        self._late_at = min((each.until for each in self.under_way.values() if each.until > now), default=math.inf)
        return late

    def close(self) -> None:
        """Order nobody else; who is under way goes on."""
        for queue in (self.waiting, self.newcomers, self.resting):
            queue.clear()
        self.is_standing = False
        self._has_news = True

    def again(self, targets: tuple[GatewayId, ...], bounds: Bounds) -> None:
        """Begin a standing job anew, with other bounds; what is under way goes on."""
        self.targets, self.bounds = targets, bounds
        self.resting.clear()
        self._tries.clear()
        self.problems.clear()
        self.moved = self.stayed = 0
        self.size = len(self.under_way) + self.queued
        self._order_at = 0.0
        self._has_news = True

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody waits or is under way."""
        return not (self.queued or self.under_way)

    # ---- who is told when ----------------------------------------------------------------------------------------

    def watch(self, operator: ClientId, number: int) -> None:
        """Tell one operator more; past MIGRATION_WATCHERS_MAX the first is told no more."""
        self.watchers[operator] = number
        if len(self.watchers) > MIGRATION_WATCHERS_MAX:
            del self.watchers[next(iter(self.watchers))]
        self._has_news = True

    def is_word_due(self, now: float) -> bool:
        """Whether the operators are to be told how far it is; it is taken as done."""
        if not self.watchers or now < (self._word_at if self._has_news else self._silence_at):
            return False
        self._has_news = False
        self._word_at, self._silence_at = now + MIGRATION_WORD_S, now + MIGRATION_SILENCE_S
        return True

    @property
    def deadline(self) -> float | None:
        """When the job must be looked at again."""
        times = []
        if self.under_way:
            times.append(self._late_at)  # or earlier than need be: some may have come to an end
        if (self.waiting or self.newcomers) and len(self.under_way) < self.bounds.at_once:
            times.append(self._order_at)
        if self.resting:
            times.append(next(iter(self.resting.values())))
        if self.watchers:
            times.append(self._word_at if self._has_news else self._silence_at)
        return min(times, default=None)

    def check(self) -> None:
        """State the invariants: everybody is in one place, and no bound is passed."""
        places = [*self.waiting, *self.newcomers, *self.resting, *self.under_way]
        assert len(set(places)) == len(places)
        assert len(self.problems) <= MIGRATION_PROBLEMS_MAX
        assert len(self.watchers) <= MIGRATION_WATCHERS_MAX
        assert all(client == journey.client for client, journey in self.under_way.items())
