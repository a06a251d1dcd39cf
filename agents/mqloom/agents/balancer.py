"""The load agent of one broker (paper 000, figure 4): an edge or a cluster-head, by its place in the topology.

It hands events to whichever it is, says what that wants to hear and when it is to be woken, and answers operators. When
its place changes, what it was leaves its session, and what it is now begins anew.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from mqloom.agents.decisions import Decision, Decisions, figures_of, seen_of
from mqloom.agents.edge import Edge
from mqloom.agents.fairness import Fairness
from mqloom.agents.head import Head
from mqloom.agents.mediation import decode
from mqloom.agents.peer import Peer
from mqloom.agents.settings import BalanceSettings
from mqloom.agents.telling import Telling
from mqloom.core.balance_records import (
    BalanceAnswer,
    BalanceQuestion,
    decode_balance_question,
    encode_balance_answer,
)
from mqloom.core.errors import RecordError, RemoteError
from mqloom.core.ids import GatewayId
from mqloom.core.load import METRICS
from mqloom.core.telemetry import Record
from mqloom.gateway.agent_interfaces import (
    AgentAsked,
    AgentEffect,
    AgentEnded,
    AgentEvent,
    AgentLog,
    AgentView,
    AgentWoke,
    AnswerOperator,
    ClientsMoved,
    Computed,
    ControlReceived,
    ControlsWanted,
    LoadSampled,
    ProfileTaken,
    WakeAgentAt,
    WantControls,
)

NAME: Final = "pie"
"""The name by which load agents of all gateways find each other."""

SLEEP_S_MAX: Final = 60.0
"""It looks at its neighbours at least so often."""

COMPLAINTS_MAX: Final = 20
"""Messages that cannot be read are put into the log so often; further ones are counted."""

LEAST_S: Final = 0.05
"""The least time between two turns that nothing but the clock asks for."""

OTHERS_SHOWN_MAX: Final = 100
"""Brokers in an answer to an operator."""


class Balancer:
    """The Agent. `see` must be called before its first event."""

    def __init__(
        self,
        gateway: GatewayId,
        settings: BalanceSettings,
        randomness: random.Random,
        hints: Sequence[str] = (),
    ) -> None:
        self._gateway = gateway
        self.settings = settings
        self._randomness = randomness
        self.hints = hints
        self.decisions = Decisions()
        self._telling = Telling(self.decisions)
        self.counts: Counter[str] = Counter()
        """How many messages came by kind, and how many could not be read."""
        self._fairness = Fairness(settings)
        self._view: AgentView | None = None
        self._peer: Peer | None = None
        self._part: Edge | Head | None = None
        self._wanted: tuple[tuple[str, ...], int] | None = None
        self._wake_at: float | None = None

    @property
    def name(self) -> str:
        """The name of all load agents."""
        return NAME

    @property
    def part(self) -> Edge | Head | None:
        """What it is, once it has begun."""
        return self._part

    def see(self, view: AgentView) -> None:
        """Take the view of our gateway."""
        self._view = view

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Take an event, return what is to be done."""
        effects = self._look_around(now)
        part = self._part
        assert part is not None
        match event:
            case AgentEnded():
                return part.leave(f"{self._gateway} has other settings now", now)
            case AgentWoke():
                self._wake_at = None
                effects += part.turn(now)
            case LoadSampled(load):
                effects += part.sampled(load, now)
            case ControlReceived(origin, body):
                effects += self._receive(part, origin, body, now)
            case ControlsWanted(neighbour, wheres, is_new):
                effects += part.wanted(neighbour, wheres, now, is_new=is_new)
            case ProfileTaken() | Computed() | ClientsMoved():
                effects += part.answered(event, now)
            case AgentAsked(operator, number, body):
                effects.append(AnswerOperator(operator, number, self._answer(body, now)))
        return [*effects, *self._arrange(part, now)]

    def tell(self, at: float) -> Sequence[Record]:
        """Return the sessions of which it has become known what came of them."""
        return self._telling.records(at)

    def check(self) -> None:
        """State the invariants."""
        if self._part is not None:
            self._part.mediator.check()

    def _look_around(self, now: float) -> list[AgentEffect]:
        """Be what our place in the topology makes of us (3.1)."""
        assert self._view is not None, "an agent that has seen nothing"
        neighbours = self._view.neighbours()
        if self._peer is None:
            self._peer = Peer(self._gateway, neighbours, self.settings)
            self._part = self._become(self._peer, now)
            hints = (AgentLog("warning", hint) for hint in self.hints)
            return [AgentLog("info", self._place(self._peer)), *hints, *self._without_offload()]
        if tuple(sorted(set(neighbours) - {self._gateway})) == self._peer.neighbours:
            return []
        assert self._part is not None
        if not Peer(self._gateway, self._peer.neighbours, self.settings).change(neighbours):
            self._peer.change(neighbours)  # others are beside us, but our place is the same
            return []
        effects = self._part.leave(f"{self._gateway} has another place now", now)
        self._peer = Peer(self._gateway, neighbours, self.settings)
        self._part = self._become(self._peer, now)
        return [*effects, AgentLog("info", self._place(self._peer))]

    def _become(self, peer: Peer, now: float) -> Edge | Head:
        if peer.role == "head":
            return Head(peer, self.settings, self._randomness, self.decisions, now)
        assert self._view is not None
        return Edge(peer, self.settings, self._view, self._randomness, self.decisions, self._fairness, now)

    def _without_offload(self) -> list[AgentEffect]:
        assert self._view is not None
        names = dict.fromkeys(self.settings.offload_kind(metric) for metric in METRICS)
        advice = "change `offload` in [plugins.settings.balance], or load the plugin; until then it moves nobody"
        return [
            AgentLog("error", f"no plugin offers offload {name!r}: {advice}")
            for name in names
            if self._view.offload(name) is None
        ]

    def _place(self, peer: Peer) -> str:
        return f"this broker is {'an edge' if peer.role == 'edge' else 'the head'} of cluster {peer.cluster}"

    def _receive(self, part: Edge | Head, origin: GatewayId, body: bytes, now: float) -> list[AgentEffect]:
        try:
            message = decode(body)
        except RemoteError as error:
            self.counts["unreadable"] += 1
            if self.counts["unreadable"] > COMPLAINTS_MAX:
                return []
            return [AgentLog("warning", f"{origin} has sent {error}; is its release another than ours?")]
        self.counts[type(message).__name__] += 1
        return part.received(message, origin, now)

    def _arrange(self, part: Edge | Head, now: float) -> list[AgentEffect]:
        """Say what is wanted, and when to be woken, if that has changed."""
        effects: list[AgentEffect] = []
        wanted = (tuple(part.wheres), part.hops)
        if wanted != self._wanted:
            self._wanted = wanted
            effects.append(WantControls(*wanted))
        wake_at = min(part.next_at, now + SLEEP_S_MAX)
        # A time that has passed is one that waits for something else; but it must not wait for ever, nor spin.
        wake_at = max(wake_at, now + LEAST_S)
        if self._wake_at is None or wake_at < self._wake_at or self._wake_at <= now:
            self._wake_at = wake_at
            effects.append(WakeAgentAt(wake_at))
        return effects

    # What operators ask.

    def _answer(self, body: bytes, now: float) -> bytes:
        try:
            question = decode_balance_question(body)
        except RecordError as error:
            return encode_balance_answer(BalanceAnswer(gateway=self._gateway, problem=str(error)))
        return encode_balance_answer(self._explain(question, now))

    def _explain(self, question: BalanceQuestion, now: float) -> BalanceAnswer:
        peer, part = self._peer, self._part
        assert peer is not None
        assert part is not None
        shown: Sequence[Decision] = self.decisions.last()
        problem = ""
        if question.ask == "explain":
            found = self.decisions.find(question.session)
            shown = [found] if found is not None else []
            if found is None:
                problem = f"no session {question.session!r} is known here; `mqloom balance status` lists those that are"
        return BalanceAnswer(
            gateway=self._gateway,
            role=peer.role,
            cluster=peer.cluster,
            mode=self.settings.mode,
            state=part.state.value,
            own=None if part.load is None else figures_of(part.load),
            others=tuple(seen_of(pie) for pie in part.others(now)[:OTHERS_SHOWN_MAX]),
            sessions=tuple(each.shown(now, is_whole=question.ask == "explain") for each in shown),
            problem=problem,
        )
