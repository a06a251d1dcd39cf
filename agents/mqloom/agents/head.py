"""A cluster-head: it tells the mean load of its edges, and lets them balance with another cluster's (3.3.3, 3.4.1).

A session between clusters is agreed by their heads like one between two brokers. Then both tell their edges to hear
the local PIE of the other cluster too, and these balance with each other by themselves. The head that began it ends it,
when all edges of both are balanced, or when time is up; then both tell their edges to hear the others no longer. An
edge that misses that stops by itself, since each order to hear is a lease.
"""

import random
from collections.abc import Sequence
from typing import Final

from mqloom.agents.adaptive import AdaptivePie, all_wheres
from mqloom.agents.averages import IDLE, mean_load
from mqloom.agents.balanced import are_balanced
from mqloom.agents.decisions import SHOWN_MAX, Decision, Decisions
from mqloom.agents.detector import Action, Detector, GlobalRequests
from mqloom.agents.hearers import Hearers
from mqloom.agents.mediation import (
    Hear,
    Help,
    Mediation,
    Said,
    SessionId,
    Settled,
    encode,
    subject_in,
    subject_to,
    want_in,
    want_of,
)
from mqloom.agents.mediator import Mediator
from mqloom.agents.peer import GLOBAL_HOPS, Peer
from mqloom.agents.pie import Pie, PieAsk, PieBoard, PiePublisher, relayed, subject_of
from mqloom.agents.sessions import (
    Accepted,
    Agreed,
    CameLate,
    Candidate,
    News,
    NobodyFound,
    Offer,
    Refused,
    Send,
    SessionOver,
)
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.states import BUSY
from mqloom.core.ids import GatewayId
from mqloom.core.load import BalanceState, Load
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentLog,
    ClientsMoved,
    Computed,
    ProfileTaken,
    PublishControl,
)

ANSWER_HOPS: Final = 1
"""An edge that we tell what it has missed is our neighbour."""

HEAR_S: Final = 15.0
"""How often edges are told to hear another cluster."""

HEAR_LEASE_S: Final = 60.0
"""For how long they do, if it is not told again."""

SESSION_DETECTIONS: Final = 20
"""The deadline of a session between clusters, in longest detection intervals of edges."""

REST_DETECTIONS: Final = 5
"""Detections in which a cluster is not asked again that did not answer, or whose session has ended by its deadline."""

BUSY_S: Final = 60.0
"""For how long the detector takes a session to last, each time that it is told."""


class Head:
    """The load agent of a broker that is a cluster-head."""

    def __init__(
        self, peer: Peer, settings: BalanceSettings, randomness: random.Random, decisions: Decisions, now: float
    ) -> None:
        self._peer, self._settings, self._decisions = peer, settings, decisions
        self._is_advice = settings.mode == "advise"
        self._edges = PieBoard("local", settings)
        self._hearers = Hearers(peer.cluster)
        self._clusters = PieBoard("global", settings)
        self._publisher = PiePublisher("global", peer.gateway, peer.cluster, settings)
        self._adaptive = AdaptivePie("global", peer.gateway, peer.clusters, settings)
        self._detector = Detector("global", settings, randomness, now)
        self._requests = GlobalRequests(settings)
        self._is_requested = False
        self._mediator = Mediator(peer.gateway, is_advice=self._is_advice, cluster=peer.cluster)
        self._trying: Decision | None = None
        self._current: Decision | None = None
        self._other = ""
        self._others_edges = 0
        self._hear_at = 0.0
        self._until = 0.0
        self._resting: dict[GatewayId, float] = {}
        self._state: BalanceState | None = None
        self._own: Load | None = None
        self._has_edges = False
        self._is_relay = False

    # What others may know.

    @property
    def state(self) -> BalanceState:
        """How the cluster stands."""
        return self._detector.state

    @property
    def load(self) -> Load | None:
        """The load of our own broker, as it was measured last."""
        return self._own

    @property
    def mediator(self) -> Mediator:
        """Our sessions."""
        return self._mediator

    def others(self, now: float) -> list[Pie]:
        """Return what edges and other clusters say."""
        return [*self._edges.fresh(now), *self._clusters.fresh(now)]

    @property
    def wheres(self) -> list[str]:
        """What we want to hear: all PIE of edges, since the mean is of all; and without edges all of clusters.

        Who has no edges hands global PIE on, whatever its load is (3.3.2). Who knows of no other cluster wants to hear
        of any; where there is none, filters that follow our own load would be told to our edges in vain.
        """
        clusters = self._peer.clusters if not self._other else (*self._peer.clusters, self._other)
        return [
            want_of(self._peer.gateway),
            want_in("HELP", self._peer.cluster),
            *all_wheres("local", clusters),
            *(self._adaptive.wheres if self._has_edges and self._clusters.known else all_wheres("global", ())),
        ]

    @property
    def hops(self) -> int:
        """From how far away: heads may be further than edges, if others relay between them."""
        if self._other:
            return self._peer.session_hops
        return max(self._peer.local_hops, GLOBAL_HOPS + self._clusters.relays)

    @property
    def next_at(self) -> float:
        """When to call `turn` at the latest."""
        times: list[float | None] = [self._mediator.deadline]
        if self._mediator.is_free:
            times.append(self._detector.next_at)
        if self._has_edges:
            times.append(self._publisher.next_at)
        if self._other:
            times.append(self._hear_at)
            if self._mediator.is_offloading:
                times.append(self._until)
        return min(at for at in times if at is not None)

    # Events.

    def sampled(self, load: Load, now: float) -> list[AgentEffect]:
        """A window of our own meters has ended; a head does not balance itself."""
        self._own = load
        return self.turn(now)

    def received(self, message: Said, origin: GatewayId, now: float) -> list[AgentEffect]:
        """Another agent has said something."""
        effects: list[AgentEffect] = []
        match message:
            case Pie():
                effects += self._took(message, origin, now)
            case PieAsk():
                self._publisher.asked(message)
                effects += self._hand_on(message)
            case Help():
                if message.cluster == self._peer.cluster and self._requests.asked(origin, message.number, now):
                    self._is_requested = True
            case Hear() | Settled():
                pass  # for edges
            case _:
                effects += self._mediate(message, origin, now)
        return [*effects, *self.turn(now)]

    def wanted(self, neighbour: GatewayId, wheres: Sequence[str], now: float, *, is_new: bool) -> list[AgentEffect]:
        """A neighbour wants to hear something else: if it is an edge of ours, tell it what it has missed of that.

        We hear all, so it need not ask. It goes to that edge alone: were each to say it again, it would come to all who
        want it. In a configured cluster nobody is known to have heard everybody.
        """
        edges = [] if self._peer.is_configured else self._peer.edges(self._alive(now))
        self._hearers.keep(self._peer.neighbours)
        missed = self._hearers.wanted(neighbour, wheres, edges, is_new=is_new)
        answers = [PublishControl(encode(pie), ANSWER_HOPS, subject_to("local", neighbour)) for pie in missed]
        return [*answers, *self.turn(now)]

    def answered(self, event: ProfileTaken | Computed | ClientsMoved, now: float) -> list[AgentEffect]:
        """Whatever was asked, it was asked when we were an edge."""
        return self.turn(now)

    def leave(self, reason: str, now: float) -> list[AgentEffect]:
        """End everything: we are no head any more."""
        return self._tell(self._mediator.abandon(reason, now), now)

    def turn(self, now: float) -> list[AgentEffect]:
        """Do what is due."""
        effects = self._tell(self._mediator.wake(now), now)
        edges = self._peer.edges(self._alive(now))
        self._has_edges = bool(edges)
        effects += self._relay(edges, now)
        self._detector.watched(edges, now)
        if self._mediator.session is not None:
            effects += self._look_after(now)
        if self._mediator.session is not None and not self._mediator.is_lent:
            self._detector.began(now, now + BUSY_S)
        elif self._detector.state is BUSY:
            self._detector.ended(now, changed=False)
        self._detector.advance(now)
        if self._mediator.is_free and (self._is_requested or self._detector.is_due(now)):
            effects += self._detect(edges, now)
        return [*effects, *self._publish(edges, now)]

    # PIE (3.3.2).

    def _alive(self, now: float) -> list[Pie]:
        """Return what edges say, but for those of which a keep-alive is missing.

        A broker that has died would keep its cluster N/A, and count in its mean, for as long as what it said last.
        """
        silent = self._edges.silent(now)
        return [pie for pie in self._edges.fresh(now) if pie.broker not in silent]

    def _took(self, pie: Pie, origin: GatewayId, now: float) -> list[AgentEffect]:
        if pie.level == "local":
            if pie.broker == origin and self._edges.take(pie, now):
                self._hearers.said(pie)
            return []
        if pie.broker == self._peer.gateway or origin not in (pie.broker, *pie.via):
            return []
        self._clusters.take(pie, now)
        handed_on = relayed(pie, self._peer.gateway) if self._is_relay else None
        return [] if handed_on is None else [self._say(handed_on)]

    def _relay(self, edges: list[Pie], now: float) -> list[AgentEffect]:
        """Find out whether we are one who hands on; if we have become one, hand on what we know."""
        was_relay, self._is_relay = self._is_relay, self._peer.relays(edges, now)
        return self._say_again(self._clusters.fresh(now)) if self._is_relay and not was_relay else []

    def _hand_on(self, ask: PieAsk) -> list[AgentEffect]:
        """Say it again for those beyond us whom somebody begins to hear: what is asked does not reach them."""
        if not self._is_relay or ask.level != "global":
            return []
        return self._say_again(
            [pie for pie in self._clusters.known if pie.broker != ask.broker and ask.is_for(pie.load)]
        )

    def _say_again(self, pies: list[Pie]) -> list[AgentEffect]:
        handed_on = (relayed(pie, self._peer.gateway) for pie in pies)
        return [self._say(pie) for pie in handed_on if pie is not None]

    def _publish(self, edges: list[Pie], now: float) -> list[AgentEffect]:
        if not edges:
            return []
        load, state = mean_load([edge.load for edge in edges]), self._detector.state
        effects: list[AgentEffect] = []
        is_interval = now >= self._publisher.next_at or state != self._state
        self._state = state
        pie = self._publisher.due(load, state, (), now)
        if pie is not None:
            self._adaptive.published(pie.load)
            effects.append(self._say(pie))
        if is_interval:
            wanted = self._adaptive.check(load, state, self._clusters.fresh(now))
            if wanted is not None and wanted.ask is not None:
                effects.append(self._say(wanted.ask))
        return effects

    def _say(self, message: Pie | PieAsk) -> PublishControl:
        return PublishControl(encode(message), GLOBAL_HOPS, subject_of(message))

    # Detection (3.3.3).

    def _detect(self, edges: list[Pie], now: float) -> list[AgentEffect]:
        others = self._clusters.fresh(now)
        load = mean_load([edge.load for edge in edges]) if edges else None
        # 3.3.3: who asks is N/A. If nobody is any more, there is nothing to begin a session for.
        requested = self._is_requested and self._detector.state is BalanceState.OVERLOADED
        self._is_requested = False
        if load is None:
            self._detector.detect(IDLE, (), now)  # only to look again later
            return []
        # Whether moving subscribers would free any memory only edges know: they ask, if nobody here has room.
        silent = self._clusters.silent(now)
        detection = self._detector.detect(load, others, now, requested=requested, can_free_memory=False, silent=silent)
        for broker in [broker for broker, until in self._resting.items() if until <= now]:
            del self._resting[broker]
        best: dict[GatewayId, Action] = {}
        for action in detection.actions:
            if action.partner not in self._resting:
                best.setdefault(action.partner, action)
        if not best:
            return []
        self._requests.clear()
        actions = list(best.values())
        decision = Decision(
            level="global",
            is_offloading=True,
            began_at=now,
            is_overload=actions[0].is_overload,
            is_advice=self._is_advice,
            why=detection.text,
            own=load,
            seen=tuple(others[:SHOWN_MAX]),
            actions=tuple(actions[:SHOWN_MAX]),
        )
        self._trying = self._decisions.add(decision)
        candidates = [Candidate(action.partner, action.metric, action.is_overload) for action in actions]
        return self._tell(self._mediator.ask(candidates, now), now)

    # Sessions (3.4.1).

    def _mediate(self, message: Mediation, origin: GatewayId, now: float) -> list[AgentEffect]:
        return self._tell(self._mediator.receive(message, origin, now, lambda advice: self._offer(advice, now)), now)

    def _offer(self, is_advice: bool, now: float) -> Offer:
        state = self._detector.state
        if self._is_advice and not is_advice:
            return Offer(state, "it only says what it would do (mode advise), and takes nobody")
        edges = len(self._peer.edges(self._alive(now)))
        return Offer(state, edges=edges) if edges else Offer(state, "its cluster has no edges that it hears of")

    def _tell(self, news: list[News], now: float) -> list[AgentEffect]:
        effects: list[AgentEffect] = []
        for each in news:
            match each:
                case Send(partner, message):
                    hops = self._peer.session_hops  # it goes only where it is asked for
                    effects.append(PublishControl(encode(message), hops, subject_to("global", partner)))
                case Refused():
                    self._refused(each, now)
                case NobodyFound():
                    effects += self._found_nobody(each, now)
                case Agreed():
                    effects += self._agreed(each, now)
                case Accepted():
                    effects += self._accepted(each, now)
                case SessionOver():
                    effects += self._over(each, now)
                case CameLate():
                    pass  # nobody moves with heads
        return effects

    def _refused(self, refused: Refused, now: float) -> None:
        candidate = refused.candidate
        if self._trying is not None:
            self._trying.answers[candidate.partner, candidate.metric] = refused.why
        if refused.is_silent:  # else the first of a list would be all that are ever asked
            self._rest(candidate.partner, now)

    def _rest(self, partner: GatewayId, now: float) -> None:
        self._resting[partner] = now + REST_DETECTIONS * self._settings.global_detect_max_s

    def _found_nobody(self, found: NobodyFound, now: float) -> list[AgentEffect]:
        decision, self._trying = self._trying, None
        if decision is None:
            return []
        decision.found_nobody(found, now)
        return [AgentLog("info", f"between clusters: {decision.summary()}")]

    def _agreed(self, agreed: Agreed, now: float) -> list[AgentEffect]:
        decision, self._trying = self._trying, None
        assert decision is not None
        candidate = agreed.candidate
        decision.session, decision.partner, decision.metric = agreed.session, candidate.partner, candidate.metric
        decision.is_overload = candidate.is_overload
        decision.answers[candidate.partner, candidate.metric] = "agreed"
        self._current, self._others_edges = decision, agreed.edges
        self._mediator.extend(now + self._session_s + HEAR_S)
        if self._is_advice:
            return self._tell(self._mediator.cancel("it is only said what would be done", now), now)
        return self._begin(agreed.cluster or str(candidate.partner), now)

    def _accepted(self, accepted: Accepted, now: float) -> list[AgentEffect]:
        decision = Decision(
            level="global",
            is_offloading=False,
            began_at=now,
            session=accepted.session,
            partner=accepted.partner,
            metric=accepted.metric,
            is_overload=accepted.is_overload,
            is_advice=accepted.is_advice,
        )
        self._current = self._decisions.add(decision)
        return [] if accepted.is_advice else self._begin(accepted.cluster or str(accepted.partner), now)

    @property
    def _session_s(self) -> float:
        return SESSION_DETECTIONS * self._settings.local_detect_max_s

    def _begin(self, other: str, now: float) -> list[AgentEffect]:
        self._other, self._until = other, now + self._session_s
        return self._hear(now)

    def _hear(self, now: float, lease_s: float = HEAR_LEASE_S) -> list[AgentEffect]:
        """Tell our edges to hear the local PIE of the other cluster (3.4.1)."""
        self._hear_at = now + HEAR_S
        assert self._current is not None
        message = Hear(
            session=SessionId(self._current.session), cluster=self._peer.cluster, other=self._other, lease_s=lease_s
        )
        return [PublishControl(encode(message), self._peer.local_hops, subject_in(message))]

    def _look_after(self, now: float) -> list[AgentEffect]:
        """Keep a session, or end it: balanced, or time is up."""
        effects: list[AgentEffect] = []
        if self._mediator.is_offloading and self._other:
            ours = self._peer.edges(self._alive(now))
            theirs = [pie for pie in self._alive(now) if pie.cluster == self._other]
            is_settled = bool(ours and theirs) and are_balanced([*ours, *theirs], self._settings)
            # Of whom nothing was heard yet it is not known; one that has died since was.
            heard = sum(pie.cluster == self._other for pie in self._edges.known)
            is_settled = is_settled and heard >= self._others_edges
            # 3.4.1: it ends when all edges are balanced with each other, as their PIE says.
            if is_settled and self._hear_at - HEAR_S > self._began_at:
                return self._tell(self._mediator.done((), 0, now), now)
            if now >= self._until:
                reason = "time is up, and the edges are not balanced yet"
                return self._tell(self._mediator.cancel(reason, now), now)
        if self._other and now >= self._hear_at:
            effects += self._hear(now)
        return effects

    @property
    def _began_at(self) -> float:
        return self._until - self._session_s

    def _over(self, over: SessionOver, now: float) -> list[AgentEffect]:
        decision = self._current
        assert decision is not None
        decision.over(over, now)
        effects: list[AgentEffect] = [AgentLog("info", f"between clusters: {decision.summary()}")]
        if self._other:
            effects += self._hear(now, lease_s=0.0)
            self._edges.keep_clusters(self._peer.clusters)
        self._current, self._other = None, ""
        # What edges have asked for meanwhile was before this session had its effect; who still needs it asks again.
        self._is_requested = False
        self._requests.clear()
        if over.is_offloading and over.how != "done":
            self._rest(over.partner, now)
        self._detector.ended(now, changed=over.how == "done")
        return effects
