"""Agents and their control publications: small, urgent, and only as far as their time to live reaches."""

import math
from collections.abc import Sequence

from mqloom.core.ids import GatewayId
from mqloom.core.limits import AGENT_RETRY_S, CONTROL_BYTES_MAX, CONTROL_HOPS_MAX
from mqloom.core.messages import Control
from mqloom.core.seen import Seen
from mqloom.gateway.agent_interfaces import (
    Agent,
    AgentEffect,
    AgentEvent,
    AgentLog,
    AgentWoke,
    ControlReceived,
    PublishControl,
    WakeAgentAt,
)
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.outbox import Outbox


class Controls:
    """The agents of one gateway, their timers, and what they say to each other across gateways."""

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        agents: Sequence[Agent],
        overlay: GuardedOverlay,
        outbox: Outbox,
        journal: Journal,
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._agents = {agent.name: agent for agent in agents}
        self._overlay = overlay
        self._outbox = outbox
        self._journal = journal
        self._seen = Seen()
        self._number = 0
        self._wake_at: dict[str, float] = {}

    def start(self, now: float) -> None:
        """Let every agent begin."""
        for name in self._agents:
            self._hand(name, AgentWoke(), now)

    def wake(self, now: float) -> None:
        """Wake the agents whose time has come."""
        for name in [name for name, at in self._wake_at.items() if now >= at]:
            del self._wake_at[name]
            self._hand(name, AgentWoke(), now)

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return min(self._wake_at.values(), default=None)

    def receive(self, control: Control, sender: GatewayId, now: float) -> None:
        """Pass a control publication on while it has hops left, and give it to the agent of its name."""
        low_water = max(0, control.number - 1_024)
        if control.origin == self._gateway or not self._seen.first_time(
            control.origin, control.epoch, control.number, low_water
        ):
            self._journal.counters.add("duplicates")
            return
        self._journal.counters.add("controls_received")
        if control.hops_left > 0:
            self._send(control, sender)
        if control.agent in self._agents:
            self._hand(control.agent, ControlReceived(control.origin, control.body), now)

    def _hand(self, name: str, event: AgentEvent, now: float) -> None:
        try:
            effects = self._journal.guard(name, _ask, self._agents[name], event, now)
        except PluginFailed:
            if isinstance(event, AgentWoke):  # it had no say in when to wake next
                self._wake_at[name] = now + AGENT_RETRY_S
            return
        for effect in effects:
            if isinstance(effect, PublishControl):
                self._publish(name, effect)
            elif isinstance(effect, AgentLog):
                self._journal.tell(effect.level, f"agent {name}: {effect.text}")
            elif isinstance(effect, WakeAgentAt):
                self._wake_at[name] = effect.at

    def _publish(self, name: str, effect: PublishControl) -> None:
        if len(effect.body) > CONTROL_BYTES_MAX:
            self._journal.refuse("controls_refused", "oversized", f"agent {name}: {len(effect.body)} bytes")
            return
        if effect.hops < 1:
            return
        self._number += 1
        hops_left = min(effect.hops, CONTROL_HOPS_MAX) - 1
        self._send(Control(self._gateway, self._epoch, self._number, hops_left, name, effect.body), None)

    def _send(self, control: Control, source: GatewayId | None) -> None:
        if source is not None:
            control = Control(
                control.origin, control.epoch, control.number, control.hops_left - 1, control.agent, control.body
            )
        for target in self._overlay.spread(source):
            self._outbox.post(target, [control])


def _ask(agent: Agent, event: AgentEvent, now: float) -> list[AgentEffect]:
    """Return what an agent wants done; raises TypeError or ValueError if it answers nonsense."""
    effects = list(agent.handle(event, now))
    for effect in effects:
        if isinstance(effect, PublishControl):
            if not isinstance(effect.body, bytes) or not isinstance(effect.hops, int):
                raise TypeError(f"a control publication is bytes and a number of hops, not {effect!r:.100}")
        elif not isinstance(effect, WakeAgentAt | AgentLog):
            raise TypeError(f"an agent answers with its effects, not {effect!r:.100}")
        elif isinstance(effect, WakeAgentAt) and not math.isfinite(effect.at):
            raise ValueError(f"{effect.at} is no time to wake at")
    return effects
