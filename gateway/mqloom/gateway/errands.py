"""What agents ask of their gateway that takes time: profiles, computations, moves of clients, answers to operators.

Each is answered by one event with the token that the agent gave, whatever becomes of it: a computation that fails or
takes too long by its problem, a move by who has moved and why the others have not. An agent that fails is forgotten:
what it had asked for is not answered. Answers go to agents between two events, never while they are being asked.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mqloom.core import layout
from mqloom.core.agent_records import AgentAnswer, decode_agent_question, encode_agent_answer
from mqloom.core.effects import Effect, PublishLocally, RunBeside
from mqloom.core.errors import RecordError
from mqloom.core.events import RanBeside
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import AGENT_ANSWER_BYTES_MAX, COMPUTATIONS_MAX, COMPUTE_S, ID_LENGTH_MAX
from mqloom.gateway.agent_interfaces import (
    AgentAsked,
    AgentEvent,
    AgentOrder,
    AnswerOperator,
    ClientsMoved,
    Compute,
    Computed,
    MoveClients,
    TakeProfile,
)
from mqloom.gateway.journal import Journal
from mqloom.gateway.journeys import Job, JourneyStep, Outcome
from mqloom.gateway.migrations import Migrations
from mqloom.gateway.profiling import Profiling


@dataclass(slots=True)
class _Move:
    agent: str
    order: MoveClients
    job: Job
    until: float


class Errands:
    """What the agents of one gateway wait for."""

    def __init__(
        self,
        gateway: GatewayId,
        profiling: Profiling,
        migrations: Migrations,
        journal: Journal,
    ) -> None:
        self._gateway = gateway
        self.agents: Callable[[], Collection[str]] = tuple
        """Tells the names of those that there are."""
        self._profiling = profiling
        self._migrations = migrations
        self._journal = journal
        self._number = 0
        self._computing: dict[int, tuple[str, str, float]] = {}
        self._moves: list[_Move] = []
        self._orders: list[tuple[str, AgentOrder]] = []
        self._answers: list[tuple[str, AgentEvent]] = []
        self._effects: list[Effect] = []
        self._again_at: float | None = None

    # ---- what agents ask -----------------------------------------------------------------------------------------

    def take(self, agent: str, order: AgentOrder) -> None:
        """Note what an agent asks for: it is begun when the event at hand is over."""
        self._orders.append((agent, order))

    def _begin(self, agent: str, errand: AgentOrder, now: float) -> None:
        match errand:
            case TakeProfile():
                self._profiling.begin(agent, errand, now)
            case Compute():
                self._compute(agent, errand, now)
            case MoveClients():
                self._move(agent, errand, now)
            case AnswerOperator():
                self._answer(agent, errand)

    def _compute(self, agent: str, errand: Compute, now: float) -> None:
        if len(self._computing) >= COMPUTATIONS_MAX:
            problem = f"{COMPUTATIONS_MAX} computations are under way: try again when one is done"
            self._answers.append((agent, Computed(errand.token, None, problem)))
            return
        self._number += 1
        self._computing[self._number] = (agent, errand.token, now + COMPUTE_S)
        self._effects.append(RunBeside(number=self._number, function=errand.function))

    def _move(self, agent: str, errand: MoveClients, now: float) -> None:
        outcome = self._migrations.order(errand.clients, errand.to, errand.timeout_s, agent)
        if isinstance(outcome, str):
            stayed = dict.fromkeys(errand.clients, outcome)
            self._answers.append((agent, ClientsMoved(errand.token, (), stayed)))
        else:
            self._moves.append(_Move(agent, errand, outcome, now + errand.timeout_s))

    def _answer(self, agent: str, errand: AnswerOperator) -> None:
        if len(errand.body) > AGENT_ANSWER_BYTES_MAX:
            text = f"agent {agent}: an answer of {len(errand.body)} bytes; the bound is {AGENT_ANSWER_BYTES_MAX}"
            self._journal.refuse("questions_refused", "oversized", text)
            problem = f"agent {agent} says more than can be told: ask for less"
            self._say(errand.operator, AgentAnswer(answer="refused", number=errand.number, problem=problem))
            return
        self._say(errand.operator, AgentAnswer(answer="agent", number=errand.number, body=errand.body))

    def _say(self, operator: ClientId, answer: AgentAnswer) -> None:
        topic = layout.control(self._gateway, operator)
        self._effects.append(PublishLocally(topic=topic, payload=encode_agent_answer(answer), qos=1))

    # ---- what happens --------------------------------------------------------------------------------------------

    def asked(self, operator: ClientId, data: bytes) -> None:
        """An operator asks an agent something; whoever asks wrongly is told so."""
        if len(operator) > ID_LENGTH_MAX:
            self._journal.refuse("questions_refused", "client", f"by a name of over {ID_LENGTH_MAX} characters")
            return
        try:
            question = decode_agent_question(data)
        except RecordError as error:
            self._refuse(operator, 0, "malformed", error.problem)
            return
        if question.agent not in self.agents():
            here = ", ".join(sorted(self.agents())) or "none"
            problem = f"there is no agent {question.agent!r} at {self._gateway} (there is {here}): is its plugin on?"
            self._refuse(operator, question.number, "agent", problem)
            return
        self._answers.append((question.agent, AgentAsked(operator, question.number, question.body)))

    def _refuse(self, operator: ClientId, number: int, reason: str, problem: str) -> None:
        self._journal.refuse("questions_refused", reason, problem)
        self._say(operator, AgentAnswer(answer="refused", number=number, problem=problem))

    def ran(self, event: RanBeside) -> None:
        """A computation has come to an end; one that took too long was answered before."""
        agent, token, _ = self._computing.pop(event.number, ("", "", 0.0))
        if agent:
            self._answers.append((agent, Computed(token, event.result, event.problem)))

    def stop_sampling(self, now: float) -> None:
        """Another configuration holds: profiles end with what they have."""
        self._profiling.stop(now)

    def failed(self, agent: str) -> None:
        """An agent has failed or ended, and waits for nothing any more; clients under way go on, and no others."""
        self._profiling.forget(agent)
        self._computing = {number: each for number, each in self._computing.items() if each[0] != agent}
        for move in [each for each in self._moves if each.agent == agent]:
            move.job.close()
            self._moves.remove(move)
        self._orders = [(name, order) for name, order in self._orders if name != agent]
        self._answers = [(name, event) for name, event in self._answers if name != agent]

    # ---- answers -------------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[tuple[str, AgentEvent]]:
        """Begin what was asked for; return what agents are to be told now, in order."""
        orders, self._orders = self._orders, []
        for agent, order in orders:
            self._begin(agent, order, now)
        self._answers += self._profiling.due(now)
        for number, (agent, token, until) in list(self._computing.items()):
            if now >= until:
                del self._computing[number]
                self._answers.append((agent, Computed(token, None, f"it took more than {COMPUTE_S:g} s")))
        for move in [each for each in self._moves if each.job.is_at_rest or now >= each.until]:
            self._moves.remove(move)
            self._answers.append((move.agent, _moved(move)))
        answers, self._answers = self._answers, []
        return answers

    def look_again(self, now: float) -> None:
        """Note whether agents have asked for more while they were answered: that is begun with the next waking."""
        self._again_at = now if self._answers or self._orders else None

    def drain(self) -> list[Effect]:
        """Return what the driver is to do."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def deadline(self) -> float | None:
        """When `due` must be called."""
        times = [move.until for move in self._moves]
        times += [until for _, _, until in self._computing.values()]
        times += [at for at in (self._again_at, self._profiling.deadline) if at is not None]
        return min(times, default=None)


def _moved(move: _Move) -> ClientsMoved:
    """Tell what has become of a move; who waits when time is up does not go, who is served there has gone."""
    outcome = move.job.outcome or Outcome()
    stayed = dict(outcome.stayed)
    moved, under_way = list(outcome.moved), []
    for client in move.job.waiting:
        stayed[client] = f"its turn had not come after {move.order.timeout_s:g} s"
    for client, journey in move.job.under_way.items():
        if journey.step is JourneyStep.ARRIVED:
            moved.append(client)
        else:
            stayed[client] = f"it was on its way after {move.order.timeout_s:g} s"
            under_way.append(client)
    move.job.close()
    return ClientsMoved(move.order.token, moved, stayed, under_way)
