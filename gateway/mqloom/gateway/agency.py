"""The agents of a gateway and all that stands between them and the node: `controls`, `errands` and what they see."""

from collections.abc import Callable, Mapping, Sequence

from mqloom.core.effects import Effect
from mqloom.core.events import LoadMeasured, RanBeside
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.agent_interfaces import Agent, LoadSampled, SeeingAgent
from mqloom.gateway.agent_view import GatewayView
from mqloom.gateway.controls import Controls
from mqloom.gateway.errands import Errands
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.migrations import Migrations
from mqloom.gateway.node_parts import NodeParts
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.profiling import Profiling
from mqloom.gateway.routes import Routes
from mqloom.gateway.subscribers import Subscribers


class Agency:
    """The agents of one gateway."""

    def __init__(  # noqa: PLR0913 - the node's other parts, each used
        self,
        parts: NodeParts,
        *,
        neighbours: Callable[[], Sequence[GatewayId]],
        overlay: GuardedOverlay,
        urgent: Outbox,
        outbox: Outbox,
        routes: Routes,
        subscribers: Subscribers,
        migrations: Migrations,
        profiling: Profiling,
        journal: Journal,
    ) -> None:
        self._view = GatewayView(neighbours, routes, subscribers, migrations, parts.offloads)
        self._routes = routes
        self._keep_covering_set(parts.agents)
        self._errands = Errands(parts.gateway, profiling, migrations, journal)
        self.controls = Controls(
            parts.gateway, parts.epoch, parts.agents, overlay, urgent, journal, outbox, self._errands.take
        )
        self.controls.on_failure = self._errands.failed
        self._errands.agents = self.controls.agents

    def start(self, now: float) -> None:
        """Let every agent begin."""
        self.controls.start(now, self._view)

    def handle(self, event: RanBeside | LoadMeasured, now: float) -> None:
        """Take what concerns nobody but agents."""
        match event:
            case RanBeside():
                self._errands.ran(event)
            case LoadMeasured():
                self.controls.hand_all(LoadSampled(event.load, event.broker), now)

    def asked(self, operator: ClientId, data: bytes) -> None:
        """An operator asks an agent something."""
        self._errands.asked(operator, data)

    def reconfigured(self, agents: Mapping[str, Agent | None], now: float) -> None:
        """Another configuration holds from now on, with some other agents."""
        self._errands.stop_sampling(now)
        self._keep_covering_set([agent for agent in agents.values() if agent is not None])
        for name, agent in agents.items():
            self.controls.replace(name, agent, now, self._view)

    def _keep_covering_set(self, agents: Sequence[Agent]) -> None:
        if any(isinstance(agent, SeeingAgent) for agent in agents):
            self._routes.covering_set_here()  # kept up from now on: to work it out when there are many takes long

    def tend(self, now: float) -> None:
        """Begin what agents have asked for, and tell them what has come of it."""
        for agent, answer in self._errands.due(now):
            self.controls.hand(agent, answer, now)
        self._errands.look_again(now)

    def drain(self) -> list[Effect]:
        """Return what the driver is to do."""
        return self._errands.drain()

    @property
    def deadline(self) -> float | None:
        """When `controls.wake` and `tend` must be called."""
        times = (self.controls.deadline, self._errands.deadline)
        return min((at for at in times if at is not None), default=None)
