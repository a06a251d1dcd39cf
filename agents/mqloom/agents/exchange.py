"""Local PIE at an edge: what it tells of its load, whom it hears, and what these say (paper 000, 3.3.2, 3.3.4).

In a session between clusters it also hears the edges of the other one, as long as its head says so (3.4.1).
"""

from collections.abc import Sequence
from typing import Final

from mqloom.agents.adaptive import AdaptivePie
from mqloom.agents.averages import Average
from mqloom.agents.balanced import balanced_with
from mqloom.agents.mediation import Hear, encode, want_in
from mqloom.agents.peer import Peer
from mqloom.agents.pie import Pie, PieAsk, PieBoard, PiePublisher, subject_of
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load, Metric
from mqloom.gateway.agent_interfaces import AgentEffect, PublishControl

HEARINGS_TOLD: Final = 2
"""How many of the first orders to hear another cluster we answer by telling our load: its edges may not hear us yet."""

EVERYBODY: Final[tuple[tuple[Metric, float, float], ...]] = (("input", 0.0, float("inf")),)


class LocalExchange:
    """What one edge and others know of each other."""

    def __init__(self, peer: Peer, settings: BalanceSettings) -> None:
        self._peer, self._settings = peer, settings
        self._board = PieBoard("local", settings)
        self._publisher = PiePublisher("local", peer.gateway, peer.cluster, settings)
        self._adaptive = AdaptivePie("local", peer.gateway, peer.clusters, settings)
        self._period = Average(settings.pie_windows("local"))
        self._load: Load | None = None
        self._state: BalanceState | None = None
        self._hears: Hear | None = None
        self._hears_until = 0.0
        self._hearings = 0

    @property
    def is_hearing(self) -> bool:
        """Whether we hear the edges of another cluster."""
        return self._hears is not None

    @property
    def wheres(self) -> list[str]:
        """What we want to hear."""
        return [want_in("HEAR", self._peer.cluster), *self._adaptive.wheres]

    @property
    def next_at(self) -> float | None:
        """When to call `turn` at the latest, if ever."""
        times = [] if self._load is None else [self._publisher.next_at]
        if self._hears is not None:
            times.append(self._hears_until)
        return min(times, default=None)

    def others(self, now: float) -> list[Pie]:
        """Return what those say whom we could balance with, as far as we would hear if it changed."""
        clusters, gateway = self._clusters, self._peer.gateway
        found = [pie for pie in self._board.fresh(now) if pie.cluster in clusters and pie.broker != gateway]
        return [pie for pie in found if self._adaptive.hears(pie)]

    def silent(self, now: float) -> frozenset[GatewayId]:
        """Return of whom a keep-alive is missing."""
        return self._board.silent(now)

    def sampled(self, load: Load) -> None:
        """A window of the meters has ended."""
        self._load = load
        self._period.add(load)

    def took(self, pie: Pie, origin: GatewayId, now: float) -> None:
        """Somebody has told its load, or our head what that was, because we have begun to hear it."""
        if origin in (pie.broker, self._peer.head):
            self._board.take(pie, now)

    def asked(self, ask: PieAsk) -> None:
        """Somebody has begun to hear us."""
        self._publisher.asked(ask)

    def changed(self) -> None:
        """Clients have come or gone: what was measured before is no longer so."""
        self._period.take()

    def forget(self, broker: GatewayId) -> None:
        """Somebody does not answer."""
        self._board.forget(broker)

    def hear(self, hear: Hear, now: float) -> list[AgentEffect]:
        """Hear the PIE of another cluster too, until the head says no longer, or has said nothing for long."""
        if hear.cluster != self._peer.cluster or hear.other in self._peer.clusters:
            return []
        if hear.lease_s <= 0:
            is_ours = self._hears is not None and self._hears.session == hear.session
            return self._stop_hearing(now) if is_ours else []
        if self._hears is None or self._hears.session != hear.session:
            self._hearings = 0
        self._hears, self._hears_until = hear, now + hear.lease_s
        self._hearings += 1
        if self._hearings > HEARINGS_TOLD:
            return []
        # As if all of that cluster had asked.
        self._publisher.asked(PieAsk(level="local", broker=GatewayId("-"), cluster=hear.other, ranges=EVERYBODY))
        self._adaptive.move(self._clusters)
        return self._check_filters(now)

    def turn(self, state: BalanceState, now: float) -> list[AgentEffect]:
        """Publish, and change filters, if that is due."""
        effects: list[AgentEffect] = []
        if self._hears is not None and now >= self._hears_until:
            effects += self._stop_hearing(now)
        load = self._period.load or self._load
        if load is None:
            return effects
        is_interval = now >= self._publisher.next_at or state != self._state
        self._state = state
        balanced = balanced_with(load, self.others(now), self._settings)
        pie = self._publisher.due(load, state, balanced, now, in_global_session=self.is_hearing)
        if pie is not None:
            self._adaptive.published(pie.load)
            effects.append(self._say(pie))
        return [*effects, *self._check_filters(now)] if is_interval else effects

    @property
    def _clusters(self) -> Sequence[str]:
        return self._peer.clusters if self._hears is None else (*self._peer.clusters, self._hears.other)

    def _say(self, message: Pie | PieAsk) -> PublishControl:
        hops = self._peer.session_hops if self.is_hearing else self._peer.local_hops
        return PublishControl(encode(message), hops, subject_of(message))

    def _check_filters(self, now: float) -> list[AgentEffect]:
        load = self._period.load or self._load
        if load is None:
            return []
        wanted = self._adaptive.check(load, self._state or BalanceState.OK, self.others(now))
        if wanted is None or wanted.ask is None:
            return []
        # Our head has heard all of its cluster, sees by our filters what we have begun to hear, and tells us what we
        # have missed of it (`hearers`). In a configured cluster nobody is known to have heard everybody, and of another
        # cluster our head need not have; there everybody is asked.
        has_heard_all = self._peer.head is not None and not self.is_hearing
        return [] if has_heard_all else [self._say(wanted.ask)]

    def _stop_hearing(self, now: float) -> list[AgentEffect]:
        self._hears = None
        self._board.keep_clusters(self._peer.clusters)
        self._adaptive.move(self._peer.clusters)
        return self._check_filters(now)
