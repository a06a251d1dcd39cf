"""What came out of a run of paper 000's model: when it converged, how even loads were, and who was moved."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import METRICS, Load, Metric
from mqloom.gateway.agent_interfaces import MoveClients
from mqloom.gateway.offload_interfaces import OffloadChoice
from mqloom.lab.experiment import Curve, thinned
from mqloom.lab.padres_host import Begun
from mqloom.lab.padres_ledger import PERIOD_S, Ledger
from mqloom.lab.padres_setups import Setup
from mqloom.lab.padres_world import PadresWorld

WINDOW_S: Final = 60.0
"""Loads are compared as means of this long: so long it takes at most until a broker has told another of its load and
that has run its detector, and as often clusters tell theirs."""

SETTLE_S: Final = 60.0
"""So long after the last session loads are taken for converged: a window may hold some of the time before."""

DELAY_FACTOR_S: Final = 0.1


class Session(NamedTuple):
    """A session in which moves were ordered, and when that was."""

    at: float
    source: GatewayId
    target: GatewayId
    clients: Sequence[ClientId]
    choice: OffloadChoice | None = None
    """What it was expected to bring."""
    drained_at: float | None = None
    metric: Metric | None = None
    """What was to become less."""

    @property
    def ordered(self) -> int:
        """How many it was to move."""
        return len(self.clients)


class IdleSession(NamedTuple):
    """A session in which nobody was moved: all that it did is to keep two brokers from others."""

    at: float
    """When publications began to be sampled for it."""
    source: GatewayId
    target: GatewayId | None
    metric: Metric | None
    is_overload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that is told about one run."""

    setup: Setup
    loads: dict[GatewayId, list[tuple[float, Load]]]
    sessions: Sequence[Session]
    """Those that ordered moves."""
    idle: Sequence[IdleSession] = ()
    """All others."""
    counted: Sequence[tuple[float, Counter[str]]]
    ledger: Ledger
    published: int

    def last_session(self, start: float, end: float) -> float:
        """Return when the last session between two times ordered a move; the first of them if there was none."""
        return max((each.at for each in self.sessions if start <= each.at < end), default=start)

    def sessions_within(self, start: float, end: float) -> list[Session]:
        """Return the sessions between two times."""
        return [each for each in self.sessions if start <= each.at < end]

    def idle_within(self, start: float, end: float) -> list[IdleSession]:
        """Return the sessions between two times in which nobody was moved."""
        return [each for each in self.idle if start <= each.at < end]

    def returned(self, start: float, end: float) -> int:
        """Return how often somebody was moved to a broker from which it had been moved away since the first time.

        That is what oscillation is. Sessions that correct what drifts move others, or on to a third broker.
        """
        left: dict[ClientId, set[GatewayId]] = {}
        count = 0
        for session in self.sessions_within(start, end):
            for client in session.clients:
                brokers = left.setdefault(client, set())
                count += session.target in brokers
                brokers.add(session.source)
        return count

    def reversals(self, start: float, end: float) -> list[Session]:
        """Return the sessions between two times that went back to where the one before of the same two was from.

        Others may go than those who came, so that nobody returns: where clients are alike that is oscillation as well.
        It may be for another metric, of which the one that took has more than the one that gave.
        """
        sources: dict[frozenset[GatewayId], GatewayId] = {}
        found = []
        for session in self.sessions_within(start, end):
            pair = frozenset((session.source, session.target))
            if sources.get(pair, session.source) != session.source:
                found.append(session)
            sources[pair] = session.source
        return found

    def means(
        self, metric: Metric, start: float, end: float, window_s: float = WINDOW_S
    ) -> list[dict[GatewayId, float]]:
        """Return for each whole window between two times what each edge had on average."""
        edges = self.setup.edges
        times = np.array([at for at, _ in self.loads[edges[0]]])
        series = {edge: np.array([load.of(metric) for _, load in self.loads[edge]]) for edge in edges}
        found = []
        for number in range(int((end - start + 1e-6) // window_s)):
            at = start + number * window_s
            low, high = np.searchsorted(times, [at, at + window_s], side="right")
            if high > low:
                found.append({edge: float(series[edge][low:high].mean()) for edge in edges})
        return found

    def share_within(self, metric: Metric, limit: float, start: float, end: float, window_s: float = WINDOW_S) -> float:
        """Return in what share of the windows no two edges differed by more; 0 if there is no window."""
        factor = DELAY_FACTOR_S if metric == "match" else 1.0
        windows = self.means(metric, start, end, window_s)
        good = sum((max(each.values()) - min(each.values())) / factor <= limit + 1e-9 for each in windows)
        return good / len(windows) if windows else 0.0

    def mean_load(self, metric: Metric, edge: GatewayId, start: float, end: float) -> float:
        """Return the mean of one edge's figure between two times."""
        return fmean([load.of(metric) for at, load in self.loads[edge] if start < at <= end] or [0.0])

    def overloaded_share(self, start: float, end: float) -> float:
        """Return in what share of the time the fullest edge was past its capacity."""
        times = [at for at, _ in self.loads[self.setup.edges[0]] if start < at <= end]
        worst: dict[float, float] = dict.fromkeys(times, 0.0)
        for edge in self.setup.edges:
            for at, load in self.loads[edge]:
                if at in worst:
                    worst[at] = max(worst[at], load.input_ratio, load.output_ratio)
        return sum(value > 1.0 for value in worst.values()) / len(worst) if worst else 0.0

    def subscribers(self, edge: GatewayId) -> int:
        """Return how many subscriptions an edge had at the end."""
        return self.loads[edge][-1][1].subscriptions

    def messages(self, kind: str, start: float, end: float) -> int:
        """Return how many messages of a kind crossed links between two times."""
        before, after = (bisect_right(self.counted, at, key=_time) - 1 for at in (start, end))
        return self.counted[after][1][kind] - self.counted[before][1][kind]

    def curves(self, metric: Metric, scale: float = 1.0) -> tuple[Curve, ...]:
        """Return a line for each edge."""
        return tuple(
            Curve(edge, _smooth([(at, scale * load.of(metric)) for at, load in self.loads[edge]]))
            for edge in self.setup.edges
        )

    def subscriber_curves(self) -> tuple[Curve, ...]:
        """Return how many subscribers each edge had."""
        return tuple(
            Curve(edge, thinned([(at, float(load.subscriptions)) for at, load in self.loads[edge]]))
            for edge in self.setup.edges
        )

    def delay_curve(self, name: str = "delivery delay") -> Curve:
        """Return the mean delay of what was delivered, by time."""
        last = self.setup.length_s // PERIOD_S  # what is late has come then, and what is not has not
        delays = sorted((period, found) for period, found in self.ledger.delays.items() if period < last)
        return Curve(name, _smooth([(period * PERIOD_S, total_s / number) for period, (number, total_s) in delays]))


def outcome_of(world: PadresWorld) -> Outcome:
    """Return what came out of a run that is over."""
    begun = [(name, each) for name, host in world.hosts.items() for each in host.begun]
    sessions = [_session(name, each, each.order) for name, each in begun if each.order is not None]
    idle = [_idle(name, each) for name, each in begun if each.order is None]
    return Outcome(
        setup=world.setup,
        loads=world.loads,
        sessions=sorted(sessions, key=lambda each: (each.at, each.source)),
        idle=sorted(idle, key=lambda each: (each.at, each.source)),
        counted=world.counted,
        ledger=world.net.ledger,
        published=world.net.published,
    )


def _session(name: GatewayId, begun: Begun, order: MoveClients) -> Session:
    metric = begun.decision.metric if begun.decision is not None else None
    clients = tuple(order.clients)
    return Session(begun.ordered_at, name, order.to, clients, begun.choice, begun.drained_at, metric)


def _idle(name: GatewayId, begun: Begun) -> IdleSession:
    decision = begun.decision
    if decision is None:
        return IdleSession(begun.at, name, None, None, False)
    return IdleSession(begun.at, name, decision.partner, decision.metric, decision.is_overload)


def _time(counted: tuple[float, Counter[str]]) -> float:
    return counted[0]


def _smooth(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return at most 300 points, each the mean of its stretch."""
    step = max(1, -(-len(points) // 300))
    return tuple(
        (points[at][0], fmean(value for _, value in points[at : at + step])) for at in range(0, len(points), step)
    )


__all__ = ["METRICS", "IdleSession", "Outcome", "Session", "outcome_of"]
