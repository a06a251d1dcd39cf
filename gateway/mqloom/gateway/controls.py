"""Agents and their control publications: small, urgent, and only as far as their time to live reaches.

Those with a subject go only where somebody wants them, which `control_wants` knows; all others go everywhere.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mqloom.core.ids import GatewayId
from mqloom.core.limits import AGENT_RETRY_S, CONTROL_BYTES_MAX, CONTROL_HOPS_MAX
from mqloom.core.messages import Control, Want
from mqloom.core.seen import Seen
from mqloom.gateway.agent_answers import ask, subject_of
from mqloom.gateway.agent_interfaces import (
    Agent,
    AgentEnded,
    AgentEvent,
    AgentLog,
    AgentOrder,
    AgentView,
    AgentWoke,
    ControlReceived,
    ControlsWanted,
    PublishControl,
    SeeingAgent,
    WakeAgentAt,
    WantControls,
)
from mqloom.gateway.control_wants import ControlWants
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.outbox import Outbox


class Controls:
    """The agents of one gateway, their timers, and what they say to each other across gateways.

    What agents want goes out by `orderly`, if that is another outbox: it must come, and in its order. What they order
    of their gateway, `perform` is told, with the agent's name; it is answered by `hand`, but never within the call.
    """

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        agents: Sequence[Agent],
        overlay: GuardedOverlay,
        outbox: Outbox,
        journal: Journal,
        orderly: Outbox | None = None,
        perform: Callable[[str, AgentOrder], None] | None = None,
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._agents = {agent.name: agent for agent in agents}
        self._overlay = overlay
        self._outbox = outbox
        self._journal = journal
        self._perform = perform
        self.on_failure: Callable[[str], None] = lambda agent: None
        """Told of an agent that has raised or ended: it waits for nothing any more."""
        self.wants = ControlWants(gateway, epoch, overlay, outbox if orderly is None else orderly, journal)
        self._seen = Seen()
        self._number = 0
        self._wake_at: dict[str, float] = {}
        self._has_begun = False

    def agents(self) -> Mapping[str, Agent]:
        """Return those that there are, by name."""
        return self._agents

    def start(self, now: float, view: AgentView | None = None) -> None:
        """Let every agent begin; those that look into their gateway are given the view of it before."""
        self._has_begun = True
        for name in self._agents:
            self._show(name, view)
        for name in self._agents:
            self.hand(name, AgentWoke(), now)

    def _show(self, name: str, view: AgentView | None) -> None:
        agent = self._agents[name]
        if view is not None and isinstance(agent, SeeingAgent):
            with contextlib.suppress(PluginFailed):
                self._journal.guard(name, agent.see, view)

    def replace(self, name: str, agent: Agent | None, now: float, view: AgentView | None = None) -> None:
        """Let an agent begin, after the one of this name has ended, if there is one; None: let that end."""
        if name in self._agents:
            if self._has_begun:
                self.hand(name, AgentEnded(), now)
            self.on_failure(name)
            self._wake_at.pop(name, None)
            del self._agents[name]
            self.wants.want(name, WantControls((), 0))
        if agent is not None:
            self._agents[name] = agent
        if agent is not None and self._has_begun:
            self._show(name, view)
            self.hand(name, AgentWoke(), now)
            for neighbour, wheres in self.wants.of_neighbours(name).items():  # they have told the one before
                self.hand(name, ControlsWanted(neighbour, wheres, is_new=True), now)

    def wake(self, now: float) -> None:
        """Wake the agents whose time has come."""
        for name in [name for name, at in self._wake_at.items() if now >= at]:
            del self._wake_at[name]
            self.hand(name, AgentWoke(), now)

    def hand_all(self, event: AgentEvent, now: float) -> None:
        """Give every agent of ours that has begun an event."""
        for name in self._agents if self._has_begun else ():
            self.hand(name, event, now)

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return min(self._wake_at.values(), default=None)

    def receive(self, message: Control | Want, sender: GatewayId, now: float) -> None:
        """Take what agents of others say, or want to hear, from a neighbour."""
        if isinstance(message, Want):
            self._receive_want(message, sender, now)
        else:
            self._receive(message, sender, now)

    def _receive_want(self, want: Want, sender: GatewayId, now: float) -> None:
        """Take what an agent wants; ours of the same name is told of those of neighbours."""
        before = self.wants.wheres_of(want.agent, want.origin)
        self.wants.receive(want, sender)
        after = self.wants.wheres_of(want.agent, want.origin)
        if sender == want.origin and (before or after) and want.agent in self._agents and self._has_begun:
            self.hand(want.agent, ControlsWanted(sender, after, is_new=not before), now)

    def _receive(self, control: Control, sender: GatewayId, now: float) -> None:
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
        if control.agent not in self._agents:
            return
        if not control.subject or self.wants.is_wanted_here(control.agent, control.subject, control.hops + 1):
            self.hand(control.agent, ControlReceived(control.origin, control.body, control.subject), now)

    def hand(self, name: str, event: AgentEvent, now: float) -> None:
        """Give an agent of ours an event, and do what it answers."""
        try:
            effects = self._journal.guard(name, ask, self._agents[name], event, now)
        except PluginFailed:
            self.on_failure(name)
            if isinstance(event, AgentWoke):  # it had no say in when to wake next
                self._wake_at[name] = now + AGENT_RETRY_S
            return
        for effect in effects:
            if isinstance(effect, PublishControl):
                self._publish(name, effect)
            elif isinstance(effect, WantControls):
                self.wants.want(name, effect)
            elif isinstance(effect, AgentLog):
                self._journal.tell(effect.level, f"agent {name}: {effect.text}")
            elif isinstance(effect, WakeAgentAt):
                self._wake_at[name] = effect.at
            elif self._perform is not None:
                self._perform(name, effect)
            else:
                asked = type(effect).__name__
                self._journal.refuse("plugin_failures", name, f"agent {name} orders {asked}, which nobody does here")

    def _publish(self, name: str, effect: PublishControl) -> None:
        if len(effect.body) > CONTROL_BYTES_MAX:
            self._journal.refuse("controls_refused", "oversized", f"agent {name}: {len(effect.body)} bytes")
            return
        if effect.hops < 1:
            return
        self._number += 1
        self._journal.counters.add("controls_published")
        hops, subject = min(effect.hops, CONTROL_HOPS_MAX), subject_of(effect.subject) if effect.subject else {}
        self._send(Control(self._gateway, self._epoch, self._number, hops, name, effect.body, subject), None)

    def _send(self, control: Control, source: GatewayId | None) -> None:
        """Send a control publication over the links that it has left, from here or from a neighbour."""
        hops = control.hops if source is None else control.hops + 1
        if hops >= CONTROL_HOPS_MAX:
            return
        here = replace(control, hops=hops)
        targets = self.wants.targets(here, source) if control.subject else self._overlay.spread(source)
        sent = replace(here, hops_left=control.hops_left - 1)
        for target in targets:
            self._journal.counters.add("controls_sent")
            self._outbox.post(target, [sent])
