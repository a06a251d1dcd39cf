"""An edge: it tells its load, looks for those with less, and gives load to them or takes it (paper 000, figure 4).

Whatever happens, `turn` is called afterwards, and does what is due: it keeps sessions, runs the detector, and lets
`exchange` tell others. State is what the detector says; it is BUSY as long as the mediator has a session.
"""

import random
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from mqloom.agents.aftermath import Aftermath, told
from mqloom.agents.averages import IDLE
from mqloom.agents.decisions import SHOWN_MAX, Decision, Decisions
from mqloom.agents.detector import Action, Detection, Detector
from mqloom.agents.exchange import LocalExchange
from mqloom.agents.fairness import Fairness
from mqloom.agents.fruitless import PASSING, Fruitless
from mqloom.agents.giving import GRACE_S, GaveUp, Giving, Ready
from mqloom.agents.mediation import (
    Hear,
    Help,
    Mediation,
    Reply,
    Request,
    Said,
    Settled,
    encode,
    subject_in,
    subject_to,
    want_of,
)
from mqloom.agents.mediator import Mediator
from mqloom.agents.own_load import OwnLoad
from mqloom.agents.peer import Peer
from mqloom.agents.pie import Pie, PieAsk
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
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import BalanceState, Load
from mqloom.gateway.agent_interfaces import (
    AgentEffect,
    AgentLog,
    AgentView,
    ClientsMoved,
    Computed,
    MoveClients,
    ProfileTaken,
    PublishControl,
)

BUSY_S: Final = 60.0
"""For how long the detector takes a session to last, each time that it is told; the mediator ends it long before."""


class Edge:
    """The load agent of a broker that is an edge."""

    def __init__(
        self,
        peer: Peer,
        settings: BalanceSettings,
        view: AgentView,
        randomness: random.Random,
        decisions: Decisions,
        fairness: Fairness,
        now: float,
    ) -> None:
        self._peer, self._settings, self._view = peer, settings, view
        self._randomness, self._decisions, self._fairness = randomness, decisions, fairness
        self._is_advice = settings.mode == "advise"
        self._exchange = LocalExchange(peer, settings)
        self._detector = Detector("local", settings, randomness, now)
        self._mediator = Mediator(peer.gateway, is_advice=self._is_advice)
        self._own = OwnLoad(settings)
        self._aftermath = Aftermath(settings, decisions)
        self._trying: Decision | None = None
        self._giving: Giving | None = None
        self._current: Decision | None = None
        self._were_here: frozenset[ClientId] = frozenset()
        self._fruitless = Fruitless(settings)
        self._is_far = False

    # what others may know.

    @property
    def state(self) -> BalanceState:
        """How we stand."""
        return self._detector.state

    @property
    def load(self) -> Load | None:
        """What was measured last."""
        return self._own.last

    @property
    def mediator(self) -> Mediator:
        """Our sessions."""
        return self._mediator

    def others(self, now: float) -> list[Pie]:
        """Return what those say whom we could balance with."""
        return self._exchange.others(now)

    @property
    def wheres(self) -> list[str]:
        """What we want to hear."""
        return [want_of(self._peer.gateway), *self._exchange.wheres]

    @property
    def hops(self) -> int:
        """From how far away: from another cluster as long as there is business with one."""
        return self._peer.session_hops if self._exchange.is_hearing or self._is_far else self._peer.local_hops

    @property
    def next_at(self) -> float:
        """When to call `turn` at the latest."""
        times = [self._exchange.next_at, self._mediator.deadline]
        if self._may_detect:
            times.append(self._detector.next_at)
        return min(at for at in times if at is not None)

    # events.

    def sampled(self, load: Load, now: float) -> list[AgentEffect]:
        """A window of the meters has ended."""
        self._own.sampled(load, now)
        self._exchange.sampled(load)
        self._detector.sampled(load, now)
        self._aftermath.sampled(load, now)
        return self.turn(now)

    def received(self, message: Said, origin: GatewayId, now: float) -> list[AgentEffect]:
        """Another agent has said something."""
        effects: list[AgentEffect] = []
        match message:
            case Pie():
                self._exchange.took(message, origin, now)
            case PieAsk():
                self._exchange.asked(message)
            case Hear():
                effects += self._exchange.hear(message, now)
            case Settled():
                effects += self._compared(self._aftermath.settled(message, origin))
            case Help():
                pass  # for heads
            case _:
                effects += self._mediate(message, origin, now)
        return [*effects, *self.turn(now)]

    def wanted(self, neighbour: GatewayId, wheres: Sequence[str], now: float, *, is_new: bool) -> list[AgentEffect]:
        """Whatever our neighbour wants to hear, heads tell it."""
        return self.turn(now)

    def answered(self, event: ProfileTaken | Computed | ClientsMoved, now: float) -> list[AgentEffect]:
        """Something that we asked of our gateway has been done."""
        if isinstance(event, ClientsMoved):
            # Also if the session is over; and who is late may have arrived when it stays, and is not sent on either.
            self._fairness.moved([*event.moved, *event.under_way], now)
        giving = self._giving
        if giving is None:
            return self.turn(now)
        effects: list[AgentEffect] = []
        if isinstance(event, ClientsMoved):
            if giving.is_end(event):
                giving.decision.stay(event.stayed)
                done = self._mediator.done(event.moved, len(event.stayed), now, event.under_way)
                effects += self._tell(done, now)
            return [*effects, *self.turn(now)]
        following = giving.take(event, lambda: self._ready(now))
        if isinstance(following, GaveUp):
            if following.is_failure:
                effects.append(AgentLog("error", f"session {giving.session}: {following.reason}"))
            effects += self._tell(self._mediator.cancel(following.reason, now), now)
        elif following is not None:
            if isinstance(following, MoveClients):
                self._fairness.ordered(len(following.clients), now)
                deadline = now + following.timeout_s + GRACE_S
                effects += self._tell(self._mediator.moving(deadline, now), now)
            effects.append(following)
        return [*effects, *self.turn(now)]

    def leave(self, reason: str, now: float) -> list[AgentEffect]:
        """End everything: we are no edge any more."""
        return self._tell(self._mediator.abandon(reason, now), now)

    def turn(self, now: float) -> list[AgentEffect]:
        """Do what is due."""
        effects = self._tell(self._mediator.wake(now), now)
        if self._mediator.session is not None and not self._mediator.is_lent:
            self._detector.began(now, now + BUSY_S)
        elif self._detector.state is BUSY:  # cannot be, but BUSY for nothing would be worse than wrong
            self._detector.ended(now, changed=False)
        self._detector.advance(now)
        if self._is_far and self._mediator.deadline is None:
            self._is_far = False
        effects += self._compared(self._aftermath.settle(self._detector.state))
        if self._may_detect and self._detector.is_due(now):
            effects += self._detect(now)
        return [*effects, *self._exchange.turn(self._detector.state, now)]

    # detection (3.3.3).

    @property
    def _may_detect(self) -> bool:
        return self._mediator.is_free or self._mediator.is_lent

    def _detect(self, now: float) -> list[AgentEffect]:
        load = self._detector.average or self._own.since_change
        others = self.others(now)
        if load is None:
            # Nothing was measured yet, or since clients have moved: the detector is told to look again later.
            self._detector.detect(IDLE, (), now)
            return []
        silent = self._exchange.silent(now)
        detection = self._detector.detect(load, others, now, can_free_memory=self._own.can_free_memory, silent=silent)
        effects: list[AgentEffect] = []
        actions = self._worthwhile(detection.actions, now)
        if actions and not self._movable(now):
            return [*effects, *self._has_nobody_to_move(actions, now)]
        is_helpless = self._fruitless.is_helpless(detection.actions, now)
        if detection.asks_globally or is_helpless:
            effects += self._ask_for_help(now)
        if actions:
            effects += self._tell(self._mediator.take_back(now), now)
            self._trying = self._decide(detection, actions, load, others, now)
            effects += self._tell(self._mediator.ask([_candidate(action) for action in actions], now), now)
        return effects

    def _worthwhile(self, actions: Sequence[Action], now: float) -> list[Action]:
        """Return each partner's best action that can be taken, and has not just brought nothing."""
        best: dict[GatewayId, Action] = {}
        for action in actions:
            is_possible = self._view.offload(self._settings.offload_kind(action.metric)) is not None
            if is_possible and not self._fruitless.rests(action.partner, action.metric, now):
                best.setdefault(action.partner, action)
        return list(best.values())

    def _movable(self, now: float) -> list[ClientId]:
        return self._fairness.rested(self._view.movable(), now) if self._fairness.left(now) else []

    def _has_nobody_to_move(self, actions: Sequence[Action], now: float) -> list[AgentEffect]:
        """A session would end with nobody: do not keep another broker BUSY for that, and look again later."""
        rested_at = self._fairness.rested_at(self._view.movable(), now)
        for partner, metric, _, is_overload in actions:
            self._fruitless.rest(partner, metric, now, is_overload=is_overload, until=rested_at)
        text = f"{actions[0].partner} has {actions[0].difference:.2f} less {actions[0].metric}, but none of our clients"
        level: Literal["info", "warning"] = "warning" if actions[0].is_overload else "info"
        return [AgentLog(level, f"{text} can be moved: they rest, are on their way, or are of a kind that cannot")]

    def _decide(
        self, detection: Detection, actions: Sequence[Action], load: Load, others: Sequence[Pie], now: float
    ) -> Decision:
        decision = Decision(
            level="local",
            is_offloading=True,
            began_at=now,
            is_overload=actions[0].is_overload,
            is_advice=self._is_advice,
            why=detection.text,
            own=load,
            seen=tuple(others[:SHOWN_MAX]),
            actions=tuple(actions[:SHOWN_MAX]),
        )
        return self._decisions.add(decision)

    def _ask_for_help(self, now: float) -> list[AgentEffect]:
        # The time makes it another number after a restart; nothing is read out of it.
        message = Help(cluster=self._peer.cluster, number=int(now * 1_000))
        return [PublishControl(encode(message), self._peer.local_hops, subject_in(message))]

    # sessions (3.4.1).

    def _mediate(self, message: Mediation, origin: GatewayId, now: float) -> list[AgentEffect]:
        if isinstance(message, Request | Reply):
            self._own.taught(message.estimate)
        return self._tell(self._mediator.receive(message, origin, now, self._offer), now)

    def _offer(self, is_advice: bool) -> Offer:
        state = self._detector.state
        if self._is_advice and not is_advice:
            return Offer(state, "it only says what it would do (mode advise), and takes nobody")
        if self._view.is_draining():  # who came would be sent on at once, and an empty broker looks the best of all
            return Offer(state, "it is being drained, and takes nobody")
        estimate = self._own.estimate(is_taking=True)
        if estimate is None:
            return Offer(state, "it has not measured its load yet")
        covering = self._view.covering_set() if state is BalanceState.OK else ()
        return Offer(state, "", estimate, covering)

    def _ready(self, now: float) -> Ready:
        estimate = self._own.estimate()
        assert estimate is not None, "a session without load"
        wishes = {client: dict(wanted) for client, wanted in self._view.wishes().items()}
        movable = self._fairness.rested([each for each in self._view.movable() if each in wishes], now)
        own_randomness = random.Random(self._randomness.getrandbits(64))  # noqa: S311  (of another thread; no secret)
        return Ready(estimate, wishes, movable, self._fairness.left(now), own_randomness)

    def _tell(self, news: Sequence[News], now: float) -> list[AgentEffect]:
        effects: list[AgentEffect] = []
        for each in news:
            match each:
                case Send(partner, message):
                    effects.append(self._to(partner, message))
                case Refused():
                    self._refused(each, now)
                case NobodyFound():
                    effects += self._found_nobody(each, now)
                case Agreed():
                    effects += self._agreed(each, now)
                case Accepted():
                    self._accepted(each, now)
                case SessionOver():
                    effects += self._over(each, now)
                case CameLate():
                    self._came_late(each, now)
        return effects

    def _refused(self, refused: Refused, now: float) -> None:
        candidate = refused.candidate
        if self._trying is not None:
            self._trying.answers[candidate.partner, candidate.metric] = refused.why
        if refused.is_silent:
            self._exchange.forget(candidate.partner)
        elif refused.is_lasting:
            self._fruitless.rest(*candidate[:2], now, is_overload=candidate.is_overload, is_lasting=True)

    def _came_late(self, late: CameLate, now: float) -> None:
        self._fairness.moved(late.clients, now)
        decision = self._decisions.find(late.session)
        if decision is not None:
            decision.moved = late.moved

    def _to(self, partner: GatewayId, message: Said) -> PublishControl:
        if isinstance(message, Request):
            message = msgspec.structs.replace(message, estimate=self._own.lesson)
        # It goes only where it is asked for, so many hops cost nothing.
        return PublishControl(encode(message), self._peer.session_hops, subject_to("local", partner))

    def _found_nobody(self, found: NobodyFound, now: float) -> list[AgentEffect]:
        decision, self._trying = self._trying, None
        if decision is None:
            return []
        decision.found_nobody(found, now)
        effects: list[AgentEffect] = [AgentLog("info", decision.summary())]
        if decision.is_overload and not found.not_asked:  # 3.3.3: nobody of the cluster is OK, as it turned out
            effects += self._ask_for_help(now)
        return effects

    def _agreed(self, agreed: Agreed, now: float) -> list[AgentEffect]:
        decision, self._trying = self._trying, None
        assert decision is not None
        candidate = agreed.candidate
        decision.session, decision.partner, decision.metric = agreed.session, candidate.partner, candidate.metric
        decision.is_overload, decision.covering_left_out = candidate.is_overload, agreed.left_out
        decision.answers[candidate.partner, candidate.metric] = "agreed"
        self._begin(now)
        kind = self._view.offload(self._settings.offload_kind(candidate.metric))
        assert kind is not None, "nobody is asked for what no plugin offers"
        self._current = decision
        if agreed.estimate is None:
            problem = f"{candidate.partner} did not tell its load: is its release another than ours?"
            return [AgentLog("error", problem), *self._tell(self._mediator.cancel(problem, now), now)]
        self._giving = Giving(agreed, kind, self._settings, decision)
        self._mediator.extend(now + self._giving.deadline_s)
        return [self._giving.begin()]

    def _accepted(self, accepted: Accepted, now: float) -> None:
        decision = Decision(
            level="local",
            is_offloading=False,
            began_at=now,
            session=accepted.session,
            partner=accepted.partner,
            metric=accepted.metric,
            is_overload=accepted.is_overload,
            is_advice=accepted.is_advice,
            own=self._own.last,
        )
        self._were_here = frozenset(self._view.wishes())
        self._current = self._decisions.add(decision)
        if not self._mediator.is_lent:
            self._begin(now)

    def _begin(self, now: float) -> None:
        self._aftermath.drop()
        self._is_far = self._is_far or self._exchange.is_hearing
        self._detector.began(now, now + BUSY_S)

    def _over(self, over: SessionOver, now: float) -> list[AgentEffect]:
        decision, self._giving, self._current = self._current, None, None
        assert decision is not None
        decision.over(over, now)
        changed = over.moved != 0
        if over.is_offloading or not decision.is_advice or self._is_advice:  # else it has not taken us up
            self._detector.ended(now, changed)
        if not over.is_offloading:
            # Where not all are named it may be anybody who was not here before; else others have come by themselves.
            is_named = 0 <= over.moved <= len(over.clients)
            came = [] if is_named else [each for each in self._view.wishes() if each not in self._were_here]
            self._fairness.moved([*came, *over.clients], now)
            self._were_here = frozenset()
        elif not changed and decision.metric is not None and over.how not in PASSING:
            # What is only said would be said again at each detection.
            is_overload = decision.is_overload and not decision.is_advice
            is_lasting = decision.has_chosen_nobody
            self._fruitless.rest(over.partner, decision.metric, now, is_overload=is_overload, is_lasting=is_lasting)
        if changed:
            self._own.changed(now)
            self._exchange.changed()
            self._aftermath.begin(decision)
        return [AgentLog("info", decision.summary())]

    # what came of it (6.3.6).

    def _compared(self, decision: Decision | None) -> list[AgentEffect]:
        """Tell what came of a session, the other broker or the log, when that is known."""
        if decision is None or decision.partner is None:
            return []
        if not decision.is_offloading:
            return [self._to(decision.partner, told(decision))]
        is_known = decision.observed is not None and decision.observed_partner is not None
        return [AgentLog("info", decision.outcome_text())] if is_known else []


def _candidate(action: Action) -> Candidate:
    return Candidate(action.partner, action.metric, action.is_overload)
