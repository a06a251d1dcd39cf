"""The agents of one modelled broker: the production's controls and agent, with the model of paper 000 around them.

What an agent asks for takes its time here as there: a profile until so many publications have come in, a computation
`COMPUTE_S`, a move of clients as long as the protocol takes (`padres_moves`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.agents.balancer import Balancer
from mqloom.agents.decisions import Decision
from mqloom.core.counters import Counters
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.load import Load
from mqloom.core.messages import Control, Want
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    Agent,
    AgentEffect,
    AgentEvent,
    ClientsMoved,
    Compute,
    Computed,
    LoadSampled,
    MoveClients,
    ProfileTaken,
    Sample,
    SeeingAgent,
    TakeProfile,
)
from mqloom.gateway.controls import Controls
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind
from mqloom.gateway.outbox import Outbox
from mqloom.lab.clock import Timer
from mqloom.lab.padres_moves import Moves
from mqloom.lab.padres_net import PadresNet
from mqloom.plugins.overlay import TreeOverlay

COMPUTE_S: Final = 0.1
"""How long a computation takes."""


def client_name(subscriber: int) -> ClientId:
    """Return the name of a subscriber."""
    return ClientId(f"s{subscriber}")


def subscriber_number(client: ClientId) -> int:
    """Return the subscriber of a name."""
    return int(client[1:])


@dataclass(slots=True)
class Profiling:
    """A profile that is being taken."""

    order: TakeProfile
    began_at: float
    samples: list[Sample] = field(default_factory=list)
    wanted: dict[int, bool] = field(default_factory=dict)
    """Quotes, and whether the covering set matches them."""


@dataclass(slots=True)
class Begun:
    """A session of this broker as the offloading one: from its profile on both brokers are BUSY."""

    at: float
    decision: Decision | None
    """What its agent knows of it, if that is one of ours."""
    order: MoveClients | None = None
    """Who was to move; None: nobody."""
    ordered_at: float = 0.0
    choice: OffloadChoice | None = None
    """What that was expected to bring."""
    drained_at: float | None = None
    """When all who moved had left the old broker."""


class HostView:
    """What an agent sees of its broker."""

    def __init__(
        self, name: GatewayId, net: PadresNet, moves: Moves, near: Sequence[GatewayId], kinds: Mapping[str, OffloadKind]
    ) -> None:
        self._name, self._net, self._moves, self._near, self._kinds = name, net, moves, near, kinds

    def neighbours(self) -> Sequence[GatewayId]:
        """Return the gateways at the other ends of our links."""
        return self._near

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        """Return what our own clients want."""
        return {
            client_name(each): {SubscriptionKey(self._name, 0, each): self._net.subscription(each)}
            for each in self._net.at.get(self._name, ())
        }

    def movable(self) -> Collection[ClientId]:
        """Return who is not on its way already."""
        moving = self._moves.moving
        return [client_name(each) for each in self._net.at.get(self._name, ()) if each not in moving]

    def is_draining(self) -> bool:
        """Nobody empties a broker of the model."""
        return False

    def covering_set(self) -> Sequence[Subscription]:
        """Return the most general subscriptions of our own clients."""
        poset = self._net.posets.get(self._name)
        return [] if poset is None else [poset[key] for key in poset.covering_set()]

    def offload(self, name: str) -> OffloadKind | None:
        """Return a way to choose whom to move."""
        return self._kinds.get(name)


class Host:
    """One broker's agent and what is done for it."""

    def __init__(
        self,
        name: GatewayId,
        agent: Agent,
        net: PadresNet,
        moves: Moves,
        near: Sequence[GatewayId],
        kinds: Mapping[str, OffloadKind],
        send: Callable[[GatewayId, GatewayId, Control | Want], None],
    ) -> None:
        self.name = name
        self.agent = agent
        self.profiling: Profiling | None = None
        self.begun: list[Begun] = []
        """All sessions, also those in which nobody was moved."""
        self._net, self._moves, self._clock, self._send = net, moves, net.clock, send
        self.journal = Journal(Counters())
        overlay = GuardedOverlay(name, TreeOverlay(name, near, {"strategy": "S0"}), near, self.journal)
        self._outbox = Outbox()
        self._controls = Controls(name, 1, [agent], overlay, self._outbox, self.journal, perform=self._perform)
        self._timer: Timer | None = None
        self._due: float | None = None
        if isinstance(agent, SeeingAgent):
            agent.see(HostView(name, net, moves, near, kinds))
        for neighbour in near:
            self._controls.wants.open_link(neighbour)

    def start(self) -> None:
        """Let the agent begin."""
        self._controls.start(self._clock.now)
        self._after()

    def receive(self, message: Control | Want, sender: GatewayId) -> None:
        """Take what a neighbour's agents say."""
        self._controls.receive(message, sender, self._clock.now)
        self._after()

    def sampled(self, load: Load) -> None:
        """Tell the agent how loaded its broker is."""
        self._give(LoadSampled(load))

    def _give(self, event: AgentEvent) -> None:
        self._controls.hand(self.agent.name, event, self._clock.now)
        self._after()

    def _after(self) -> None:
        for target, messages in self._outbox.drain().items():
            for message in messages:
                assert isinstance(message, Control | Want)
                self._send(self.name, target, message)
        self.journal.drain()
        due = self._controls.deadline
        if due != self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = None if due is None else self._clock.timer_at(due, self._wake)

    def _wake(self) -> None:
        self._due = self._timer = None
        self._controls.wake(self._clock.now)
        self._after()

    # ---- what it asks for ------------------------------------------------------------------------------------------

    def _perform(self, agent: str, effect: AgentEffect) -> None:
        match effect:
            case TakeProfile():
                self._net.advance()
                self.begun.append(Begun(self._clock.now, self._decision()))
                self.profiling = profiling = Profiling(effect, self._clock.now)
                self._net.profiled[self.name] = self._note
                self._clock.at(self._clock.now + effect.timeout_s, lambda: self._profiled(profiling))
            case Compute():
                self._clock.at(self._clock.now + COMPUTE_S, lambda: self._compute(effect))
            case MoveClients():
                begun = self.begun[-1]
                begun.order, begun.ordered_at = effect, self._clock.now
                who = [subscriber_number(client) for client in effect.clients]
                self._moves.order(
                    self.name,
                    effect.to,
                    who,
                    effect.timeout_s,
                    lambda *ended: self._moved(effect.token, *ended),
                    lambda: self._drained(begun),
                )

    def _decision(self) -> Decision | None:
        """Return what our agent has decided last."""
        decisions = self.agent.decisions.last() if isinstance(self.agent, Balancer) else []
        return next((each for each in decisions if each.is_offloading), None)

    def _note(self, quote: int, subscribers: Sequence[int]) -> None:
        profiling = self.profiling
        assert profiling is not None
        if len(profiling.samples) >= profiling.order.samples:
            return
        wanted = profiling.wanted.get(quote)
        if wanted is None:
            attributes = self._net.workload.quotes[quote]
            wanted = any(each.where.matches(attributes) for each in profiling.order.covering)
            profiling.wanted[quote] = wanted
        keys = [SubscriptionKey(self.name, 0, each) for each in subscribers]
        profiling.samples.append(Sample(keys, wanted, self._net.setup.message_bytes))

    def check_profile(self) -> None:
        """End a profile for which enough has come in."""
        if self.profiling is not None and len(self.profiling.samples) >= self.profiling.order.samples:
            self._profiled(self.profiling)

    def _profiled(self, profiling: Profiling) -> None:
        if self.profiling is profiling:
            self._net.advance()
            self.profiling = None
            del self._net.profiled[self.name]
            took_s = self._clock.now - profiling.began_at
            self._give(ProfileTaken(profiling.order.token, profiling.samples, took_s))

    def _compute(self, effect: Compute) -> None:
        try:
            event = Computed(effect.token, effect.function())
            if isinstance(event.result, OffloadChoice):
                self.begun[-1].choice = event.result
        except Exception as error:  # as the gateway does it: whatever it is, the agent is told
            event = Computed(effect.token, None, f"{type(error).__name__}: {error}")
        self._give(event)

    def _drained(self, begun: Begun) -> None:
        begun.drained_at = self._clock.now

    def _moved(self, token: str, moved: Sequence[int], stayed: Mapping[int, str]) -> None:
        names = {client_name(each): reason for each, reason in stayed.items()}
        event = ClientsMoved(token, [client_name(each) for each in moved], names)
        self._clock.at(self._clock.now, lambda: self._give(event))  # not while the order is still being taken
