"""Load agents without gateways, in virtual time: a small model of brokers, and a network that is as bad as one likes.

All clients want the same, and each costs the same, so that one sees at a glance whether load is balanced. The offload
is a plain one. For what load balancing is worth there is the model of paper 000 (`padres_net`); here it is about what
goes wrong: control publications that are lost, doubled, late and in another order, agents that die and begin anew,
and gateways that never answer what an agent asked of them.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from mqloom.agents.balancer import Balancer
from mqloom.agents.settings import BalanceSettings
from mqloom.core.balance_records import BalanceAnswer, BalanceQuestion, decode_balance_answer, encode_balance_question
from mqloom.core.filter import Filter
from mqloom.core.ids import ClientId, GatewayId, SubscriptionKey
from mqloom.core.limits import CONTROL_BYTES_MAX, CONTROL_WHERES_MAX
from mqloom.core.load import BalanceState, Load
from mqloom.core.subscription import Subscription
from mqloom.gateway.agent_interfaces import (
    AgentAsked,
    AgentEffect,
    AgentEvent,
    AgentLog,
    AgentWoke,
    AnswerOperator,
    ClientsMoved,
    Compute,
    Computed,
    ControlReceived,
    ControlsWanted,
    LoadSampled,
    MoveClients,
    ProfileTaken,
    PublishControl,
    Sample,
    TakeProfile,
    WakeAgentAt,
    WantControls,
)
from mqloom.gateway.offload_interfaces import OffloadChoice, OffloadKind, OffloadTask, ReportCard

STEPS_S_MAX = 10
"""With more events of a broker in a second than this, for long, it waits for nothing, and asks again and again."""

LINK_S = 0.05
"""How long what a broker wants is under way to its neighbours."""

RATE = 10.0
EACH_BYTES = 100
WANTED = Subscription.parse("#", "volume > 10")
ON = BalanceSettings(mode="on", window_s=5.0)


def half(task: OffloadTask) -> OffloadChoice:
    """Move clients until the difference in output is halved: as good as any for what is tested here."""
    bits = [int(row[0]).bit_count() for row in task.profile.bits]
    each = [task.profile.input_rate * bit / task.profile.samples * EACH_BYTES for bit in bits]
    clients: list[ClientId] = []
    local, remote = task.local, task.remote
    for group, bytes_s in zip(task.profile.groups, each, strict=True):
        for client in group.clients:
            after, there = (
                local.after(subscriptions=-1, bytes_s=-bytes_s),
                remote.after(subscriptions=1, bytes_s=bytes_s),
            )
            if len(clients) >= task.bounds.moves_max or there.output_ratio > after.output_ratio:
                break
            clients.append(client)
            local, remote = after, there
    card = ReportCard(
        0, len(clients), local.output_ratio - remote.output_ratio, True, 0.0, 0.0, each[0] if each else 0.0
    )
    return OffloadChoice(clients, [card], local, remote, "the difference is halved")


class Weather(NamedTuple):
    """The shares of what goes wrong."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    dying: float = 0.0
    stuck: float = 0.0
    """The share of what a gateway is asked for and never answers."""
    slow: float = 0.0
    """The share of clients that are still on their way when time is up, and arrive later."""


FAIR = Weather()


@dataclass
class AgentsBroker:
    """One broker as its agent sees it (AgentView), and its agent."""

    name: GatewayId
    beside: list[GatewayId]
    bytes_s_max: float
    agent: Balancer
    kinds: Mapping[str, OffloadKind]
    clients: dict[ClientId, dict[SubscriptionKey, Subscription]] = field(default_factory=dict)
    wants: list[Filter] = field(default_factory=list)
    wheres: Sequence[str] = ()
    hops: int = 0
    life: int = 0
    busy_since: float | None = None
    is_settled: bool = False
    """Nobody of its clients can be moved."""
    leaving: set[ClientId] = field(default_factory=set)
    """Those of its clients that are on their way."""
    is_drained: bool = False
    """Who comes is sent on."""
    memory_beside: float = 0.0
    """The share of its memory that other things than clients take."""
    memory_each: float = 0.0
    """The share that each client takes."""

    def neighbours(self) -> Sequence[GatewayId]:
        """AgentView."""
        return self.beside

    def wishes(self) -> Mapping[ClientId, Mapping[SubscriptionKey, Subscription]]:
        """AgentView."""
        return self.clients

    def movable(self) -> Collection[ClientId]:
        """AgentView: everybody who is not on its way, or nobody."""
        return [] if self.is_settled else [client for client in self.clients if client not in self.leaving]

    def is_draining(self) -> bool:
        """AgentView."""
        return self.is_drained

    def covering_set(self) -> Sequence[Subscription]:
        """AgentView: all want the same."""
        return [WANTED] if self.clients else []

    def offload(self, name: str) -> OffloadKind | None:
        """AgentView."""
        return self.kinds.get(name)

    def load(self) -> Load:
        """Return what meters would say."""
        number = len(self.clients)
        rate = RATE if number else 0.0
        delay_s = 0.001 + 0.0001 * number
        return Load(
            input_ratio=rate * delay_s,
            delay_s=delay_s,
            output_ratio=number * RATE * EACH_BYTES / self.bytes_s_max,
            input_rate=rate,
            output_bytes_s=min(self.bytes_s_max, number * RATE * EACH_BYTES),
            output_bytes_s_max=self.bytes_s_max,
            subscriptions=number,
            memory_ratio=self.memory_beside + self.memory_each * number,
        )


class AgentsWorld:
    """Brokers joined by links, with clients that are told to move, and do at once."""

    def __init__(  # noqa: PLR0913  (a world has many sides)
        self,
        links: Sequence[tuple[str, str]],
        clients: Mapping[str, int],
        *,
        seed: int = 1,
        weather: Weather = FAIR,
        storm_s: float = 0.0,
        choose: Callable[[OffloadTask], OffloadChoice] = half,
        configured: BalanceSettings = ON,
        each: Mapping[str, BalanceSettings] | None = None,
        strength: Mapping[str, float] | None = None,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.weather, self.storm_s = weather, storm_s
        self.now, self.number, self.steps = 0.0, 0, 0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self.answers: list[BalanceAnswer] = []
        self.stubborn: set[ClientId] = set()
        self.moves: Counter[ClientId] = Counter()
        self.longest_busy_s = 0.0
        kinds = {name: OffloadKind(name, choose) for name in ("input", "match", "output")}
        self.brokers: dict[GatewayId, AgentsBroker] = {}
        self.settings = {name: (each or {}).get(name, configured) for name in dict.fromkeys(sum(links, ()))}
        for name in self.settings:
            beside = [GatewayId(b if a == name else a) for a, b in links if name in (a, b)]
            gateway = GatewayId(name)
            strong = 100_000.0 * (strength or {}).get(name, 1.0)
            self.brokers[gateway] = AgentsBroker(gateway, beside, strong, self.agent(gateway), kinds)
        self._serial = iter(range(1_000_000))
        for name, number in clients.items():
            self.join(name, number)
        for name in self.brokers:
            self._start(name)

    def join(self, name: str, number: int) -> None:
        """Let so many clients more connect to a broker."""
        clients, serials = self.brokers[GatewayId(name)].clients, islice(self._serial, number)
        for serial, n in zip(serials, range(len(clients), len(clients) + number), strict=True):
            clients[ClientId(f"{name}.{n:04}")] = {SubscriptionKey(GatewayId(name), 1, serial): WANTED}

    def agent(self, name: GatewayId) -> Balancer:
        """Return a new agent for a broker."""
        return Balancer(name, self.settings[name], random.Random(self.random.getrandbits(64)))  # noqa: S311

    def _start(self, name: GatewayId) -> None:
        broker = self.brokers[name]
        broker.life += 1
        broker.wants, broker.hops = [], 0
        broker.agent.see(broker)
        self.give(name, AgentWoke(), broker.life)
        for beside in broker.beside:
            if beside in self.brokers and self.brokers[beside].wants:
                self._tell(name, ControlsWanted(beside, self.brokers[beside].wheres, is_new=True))
        self._at(self.random.uniform(0, 5), lambda: self._sample(name, broker.life))

    @property
    def _is_storm(self) -> bool:
        return self.now < self.storm_s

    def _at(self, delay: float, call: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.queue, (self.now + delay, self.number, call))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self.queue and self.queue[0][0] <= until:
            self.now, _, call = heapq.heappop(self.queue)
            call()
            self.steps += 1
            assert self.steps < STEPS_S_MAX * len(self.brokers) * (self.now + 100.0), "somebody turns in circles"
        self.now = until

    def _sample(self, name: GatewayId, life: int) -> None:
        broker = self.brokers[name]
        if broker.life != life:
            return
        if self._is_storm and self.random.random() < self.weather.dying:
            broker.agent = self.agent(name)
            self._watch(broker)
            self._start(name)
            return
        self.give(name, LoadSampled(broker.load()), life)
        self._at(5.0, lambda: self._sample(name, life))

    def give(self, name: GatewayId, event: AgentEvent, life: int) -> None:
        """Hand an event to the agent of a broker, if it is still in this life, and do what it says."""
        broker = self.brokers[name]
        if broker.life != life:
            return  # it was for an earlier one
        effects = broker.agent.handle(event, self.now)
        broker.agent.check()
        self._watch(broker)
        for effect in effects:
            self._do(broker, effect, life)

    def _watch(self, broker: AgentsBroker) -> None:
        is_busy = broker.agent.part is not None and broker.agent.part.state is BalanceState.BUSY
        if not is_busy:
            broker.busy_since = None
        elif broker.busy_since is None:
            broker.busy_since = self.now
        else:
            self.longest_busy_s = max(self.longest_busy_s, self.now - broker.busy_since)

    def _do(self, broker: AgentsBroker, effect: AgentEffect, life: int) -> None:
        self.counts[type(effect).__name__] += 1
        name = broker.name
        is_stuck = self._is_storm and self.random.random() < self.weather.stuck
        match effect:
            case WakeAgentAt(at):
                assert at >= self.now
                self._at(at - self.now, lambda: self.give(name, AgentWoke(), life))
            case WantControls(wheres, hops):
                assert len(wheres) <= CONTROL_WHERES_MAX
                is_new = not broker.wants
                broker.wants, broker.wheres = [Filter.parse(where) for where in wheres], wheres
                broker.hops = hops
                self._tell_neighbours(broker, ControlsWanted(name, wheres, is_new))
            case PublishControl():
                assert len(effect.body) <= CONTROL_BYTES_MAX
                self._publish(name, effect)
            case TakeProfile(token) if not is_stuck:
                keys = [key for wanted in broker.clients.values() for key in wanted]
                samples = [Sample(keys, False, EACH_BYTES)] * effect.samples
                self._at(5.0, lambda: self.give(name, ProfileTaken(token, samples, 5.0), life))
            case Compute(token, function) if not is_stuck:
                result = function()
                self._at(0.1, lambda: self.give(name, Computed(token, result), life))
            case MoveClients(token) if not is_stuck:
                self._at(self.random.uniform(0.5, 20), lambda: self._move(broker, effect, life))
            case AnswerOperator(_, _, body):
                self.answers.append(decode_balance_answer(body))
            case AgentLog(level, text):
                self.log.append(f"{self.now:.1f} {name} {level}: {text}")
            case _:
                assert is_stuck

    def _move(self, broker: AgentsBroker, order: MoveClients, life: int) -> None:
        target = self.brokers[order.to]
        moved, stayed, under_way = [], {}, []
        for client in order.clients:
            if client in self.stubborn or client not in broker.clients:
                stayed[client] = "it did not connect in time"
            elif self._is_storm and self.weather.slow and self.random.random() < self.weather.slow:
                stayed[client] = f"it was on its way after {order.timeout_s:g} s"
                under_way.append(client)
                broker.leaving.add(client)
                self._at(self.random.uniform(1.0, 60.0), lambda client=client: self._arrive(client, broker, target))  # type: ignore[misc]
            else:
                self._arrive(client, broker, target)
                moved.append(client)
        self.give(broker.name, ClientsMoved(order.token, moved, stayed, under_way), life)

    def _arrive(self, client: ClientId, broker: AgentsBroker, target: AgentsBroker) -> None:
        broker.leaving.discard(client)
        target.clients[client] = broker.clients.pop(client)
        self.moves[client] += 1

    def _publish(self, origin: GatewayId, control: PublishControl) -> None:
        distances, front = {origin: 0}, [origin]
        for here in front:
            for beside in self.brokers[here].beside:
                if beside not in distances:
                    distances[beside] = distances[here] + 1
                    front.append(beside)
        for name, distance in distances.items():
            broker = self.brokers[name]
            is_near = 0 < distance <= min(control.hops, broker.hops)
            if is_near and any(want.matches(control.subject) for want in broker.wants):
                self._carry(origin, broker, control)

    def _tell_neighbours(self, broker: AgentsBroker, event: ControlsWanted) -> None:
        """What is wanted goes in order with everything else on a link: it is neither lost nor doubled."""
        for beside in broker.beside:
            self._at(LINK_S, lambda beside=beside: self._tell(beside, event))  # type: ignore[misc]

    def _tell(self, name: GatewayId, event: ControlsWanted) -> None:
        if self.brokers[name].agent.part is not None:  # it has begun
            self.give(name, event, self.brokers[name].life)

    def _carry(self, origin: GatewayId, broker: AgentsBroker, control: PublishControl) -> None:
        event = ControlReceived(origin, control.body, control.subject)
        copies = 1
        if self._is_storm:
            copies = (self.random.random() >= self.weather.lost) + (self.random.random() < self.weather.doubled)
        for _ in range(copies):
            is_late = self._is_storm and self.random.random() < self.weather.late
            delay = self.random.uniform(0, 30) if is_late else self.random.uniform(0.001, 0.05)
            self._at(delay, lambda: self.give(broker.name, event, broker.life))

    def ask(self, name: str, question: BalanceQuestion) -> BalanceAnswer:
        """Ask an agent as an operator does."""
        broker = self.brokers[GatewayId(name)]
        self.give(broker.name, AgentAsked(ClientId("operator"), 1, encode_balance_question(question)), broker.life)
        return self.answers.pop()

    def numbers(self) -> dict[str, int]:
        """Return how many clients are where."""
        return {name: len(broker.clients) for name, broker in self.brokers.items() if broker.clients}

    def agent_of(self, name: str) -> Balancer:
        """Return the agent of a broker."""
        return self.brokers[GatewayId(name)].agent
