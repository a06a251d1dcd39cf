"""Control publications that go wrong between gateway and load agent: lost, doubled, late and in another order.

Gateways drop what comes twice, and links lose nothing but when they are cut. So what faults of links do to load agents
is little of what these must bear: other overlays and releases may do worse. Here it is done by shares that a plan
names, whatever the links do, as long as the plan lasts.
"""

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from mqloom.core.telemetry import Record
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentEvent,
    AgentView,
    AgentWoke,
    ControlReceived,
    SeeingAgent,
    TellingAgent,
    WakeAgentAt,
)
from mqloom.lab.plan import ControlsPlan

LATE_S_MAX: Final = 30.0
"""The longest delay of a control publication: longer than sessions last without a word."""


class PoorHearing:
    """An agent that is told what others say by the shares of a plan, until a time; `counts` has what went wrong."""

    def __init__(
        self, agent: SeeingAgent, plan: ControlsPlan, randomness: random.Random, until: float, counts: Counter[str]
    ) -> None:
        self.agent = agent
        self._plan = plan
        self._randomness = randomness
        self._until = until
        self._counts = counts
        self._late: list[tuple[float, int, ControlReceived]] = []
        self._number = 0
        self._wake_at: float | None = None

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name

    def see(self, view: AgentView) -> None:
        """Let the agent see."""
        self.agent.see(view)

    def tell(self, at: float) -> Sequence[Record]:
        """Return what the agent has to tell, if anything."""
        return self.agent.tell(at) if isinstance(self.agent, TellingAgent) else ()

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Hand on an event, or what is made of it."""
        events: list[AgentEvent] = [event]
        if isinstance(event, AgentWoke):
            events = [*self._due(now), event]
        elif isinstance(event, ControlReceived) and now < self._until:
            events = self._spoil(event, now)
        effects = [effect for each in events for effect in self.agent.handle(each, now)]
        return self._arrange(effects)

    def _spoil(self, control: ControlReceived, now: float) -> list[AgentEvent]:
        """Return what comes of a control publication now."""
        if self._falls_to("lost", self._plan.lost):
            return []
        at_once: list[AgentEvent] = []
        for _ in range(2 if self._falls_to("doubled", self._plan.doubled) else 1):
            if self._falls_to("late", self._plan.late):
                self._number += 1
                at = now + self._randomness.uniform(0.0, LATE_S_MAX)
                heapq.heappush(self._late, (at, self._number, control))
            else:
                at_once.append(control)
        return at_once

    def _falls_to(self, what: str, share: float) -> bool:
        falls = self._randomness.random() < share
        self._counts[what] += falls
        return falls

    def _due(self, now: float) -> list[AgentEvent]:
        due: list[AgentEvent] = []
        while self._late and self._late[0][0] <= now:
            due.append(heapq.heappop(self._late)[2])
        return due

    def _arrange(self, effects: Sequence[AgentEffect]) -> list[AgentEffect]:
        """Return the effects; it is woken when the agent wants to be, or when something comes late, if that is sooner.

        To be woken too soon does an agent no harm, and it says again when.
        """
        wishes = [effect.at for effect in effects if isinstance(effect, WakeAgentAt)]
        self._wake_at = wishes[-1] if wishes else self._wake_at
        times = [] if self._wake_at is None else [self._wake_at]
        times += [self._late[0][0]] if self._late else []
        others = [effect for effect in effects if not isinstance(effect, WakeAgentAt)]
        return [*others, *(WakeAgentAt(at) for at in sorted(times)[:1])]
