"""A whole federation in virtual time: brokers, gateways, clients and the ways between them, built from a plan."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import BalanceState
from mqloom.core.orders import MoveOrder, Roster, RosterBroker, sign_order, sign_roster
from mqloom.core.records import Order, Wish, encode_order
from mqloom.core.seals import seal_request
from mqloom.gateway.links import LinkState
from mqloom.lab.broker_model import Broker, BrokerSettings
from mqloom.lab.capacity import Capacity, Station
from mqloom.lab.client_model import Lookup, SubscriberModel
from mqloom.lab.clock import Clock
from mqloom.lab.endpoint import Endpoint, Place
from mqloom.lab.gateway_intake import IntakeSettings
from mqloom.lab.gateway_model import OPERATOR, BuildNode, GatewayModel, GatewayPlan
from mqloom.lab.network import Path, Quality, Traffic
from mqloom.lab.node_builders import (
    BALANCE_WINDOW_S,
    DATA,
    FEDERATION,
    FEDERATION_KEY,
    BalancedNodes,
    build_node,
    build_restless,
    build_sealed,
)
from mqloom.lab.packets import Publish
from mqloom.lab.plan import Plan, PublicationPlan, SubscriberPlan
from mqloom.lab.plan_checks import PlanError, check_plan
from mqloom.lab.publisher_model import PublisherModel, Sent
from mqloom.lab.trace import Trace, numbers_in
from mqloom.lab.traveller_model import ORDER_KEY, TravellerModel

ORDER_S: Final = 60.0
"""How long an order to a client counts."""

SETTLE_S: Final = 600.0
"""How long a world may take to come to rest when nothing goes wrong any more."""

STEP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What an experiment may choose about a world; capacities switch on the cost of work."""

    build: BuildNode = build_node
    broker_intake: Capacity | None = None
    broker_output: Capacity | None = None
    gateway_intake: Capacity | None = None
    traced: bool = False
    sealed: bool = False
    """Whether the federation has a key."""
    tick_s: float = 0.0


@dataclass(slots=True)
class Losses:
    """What brokers that lost their stores alone had: whole publications, and publications for one client or park."""

    publications: set[int] = field(default_factory=set)
    parked: set[int] = field(default_factory=set)
    for_client: set[tuple[int, str]] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.publications) + len(self.parked) + len(self.for_client)


class World:
    """One run. Build it, `run` it, ask the checkers. Raises PlanError if the plan contradicts itself."""

    def __init__(self, plan: Plan, options: Options | None = None) -> None:
        check_plan(plan)
        self.plan = plan
        self.options = options or Options()
        self.balanced = BalancedNodes(plan) if plan.is_balanced else None
        """Who has built the nodes, if they have load agents."""
        if self.options.sealed:
            self.options = replace(self.options, build=partial(build_sealed, plan, self.balanced))
        if self.options.build is build_node and self.balanced is not None:
            self.options = replace(self.options, build=self.balanced)
        if plan.is_restless and self.options.build is build_node:
            self.options = replace(self.options, build=partial(build_restless, plan))
        self.clock = Clock()
        self.traffic = Traffic()
        self.trace = Trace(self.clock) if self.options.traced else None
        self.paths: dict[str, Path] = {}
        self.sent: dict[int, Sent] = {}
        self._sent: dict[bytes, Sent] = {}
        self._joining = {join.gateway for join in plan.joins}
        self.links = [pair for pair in plan.links if self._joining.isdisjoint(pair)]
        """The links of the configuration, as it is now."""
        self.left: set[str] = set()
        """Gateways that are gone for good, with their brokers."""
        self.has_faults_scheduled = False
        self.brokers = {name: self._broker(name) for name in plan.gateways}
        self.gateways = {name: self._gateway(name) for name in plan.gateways}
        self.publishers = {name: self._publisher(name, gateway) for name, gateway in plan.publishers.items()}
        self.subscribers: dict[str, SubscriberModel | TravellerModel] = {}
        for each in plan.subscribers:
            self.subscribers[each.name] = self._subscriber(each)
        self._schedule()

    def tell(self, who: str, what: str) -> None:
        """Note something in the trace, if there is one."""
        if self.trace is not None:
            self.trace.tell(who, what)

    # ---- building ------------------------------------------------------------------------------------------------

    def _station(self, capacity: Capacity | None) -> Station | None:
        return None if capacity is None else Station(self.clock, capacity)

    def _broker(self, name: str) -> Broker:
        settings = BrokerSettings(window=self.plan.window, queue_max=self.plan.queue_max)
        options = self.options
        intake, output = self._station(options.broker_intake), self._station(options.broker_output)
        return Broker(name, self.clock, settings, intake, output)

    def link_path(self, one: str, other: str) -> Path:
        """Return the way of a gateway to another's broker, be it used already or not."""
        return self._place(f"{one}>{other}", other, self.plan.link_latency_s).path

    def _place(self, path: str, broker: str, latency_s: float) -> Place:
        """Return the place of whoever reaches a broker by a path of this name."""
        if path not in self.paths:
            quality = Quality(latency_s=latency_s, jitter_s=latency_s, tick_s=self.options.tick_s)
            self.paths[path] = Path(path, quality, self.plan.randomness(f"path {path}"))
        watch = None if self.trace is None else partial(self.trace.watch, broker=f"@{broker}")
        randomness = self.plan.randomness(f"place {path}")
        return Place(self.clock, self.paths[path], self.brokers[broker], self.traffic, randomness, watch)

    def _gateway(self, name: str) -> GatewayModel:
        latency_s = self.plan.link_latency_s
        plan = GatewayPlan(
            gateway=GatewayId(name),
            build=self.options.build,
            own=self._place(f"{name}~", name, 0.000_2),
            neighbours=partial(self.configured, name),
            intake=IntakeSettings(
                data=DATA,
                station=self._station(self.options.gateway_intake),
                on_taken_in=self._taken_in,
            ),
            place_of=lambda other: self._place(f"{name}>{other}", other, latency_s),
            work=None if self.balanced is None else self.balanced.work_of(name),
            window_s=BALANCE_WINDOW_S,
        )
        return GatewayModel(plan, self.clock, self.tell)

    def _publisher(self, name: str, gateway: str) -> PublisherModel:
        return PublisherModel(name, GatewayId(gateway), self._place(f"{name}~", gateway, 0.001), self.tell)

    def _subscriber(self, plan: SubscriberPlan) -> SubscriberModel | TravellerModel:
        wishes = {name: Wish(topics=topics, where=where) for name, (topics, where) in plan.wishes.items()}
        look = Lookup(self._number_of, self.under_way)
        if plan.travels:

            def place_of(gateway: str) -> Place:
                return self._place(f"{plan.name}~{gateway}", gateway, 0.001)

            return TravellerModel(plan.name, GatewayId(plan.gateway), wishes, place_of, look, self.tell)
        place = self._place(f"{plan.name}~", plan.gateway, 0.001)
        return SubscriberModel(plan.name, GatewayId(plan.gateway), wishes, place, look, self.tell)

    def _schedule(self) -> None:
        for name, gateway in self.gateways.items():
            if name not in self._joining:
                self.clock.at(0.0, gateway.start)
        for join in self.plan.joins:
            self.clock.at(join.at, partial(self.join, join.gateway))
        for publisher in self.publishers.values():
            self.clock.at(0.0, publisher.endpoint.open)
        for each in self.plan.subscribers:
            subscriber = self.subscribers[each.name]
            self.clock.at(each.starts_at, subscriber.start)
            if each.closes_at is not None:
                self.clock.at(each.closes_at, subscriber.close)
        for number, move in enumerate(self.plan.moves, 1):
            self.clock.at(move.at, partial(self.move, move.gateway, move.to, number))
        self._schedule_migrations()
        for publication in self.plan.publications:
            self.clock.at(publication.at, partial(self._publish, publication))

    def move(self, gateway: str, to: str, number: int = 0) -> None:
        """Order a gateway to move a primary link, if it runs; whether it does, its trace says."""
        mover = self.gateways[gateway]
        order = encode_order(Order(number=number, move_to=GatewayId(to)))
        if self.options.sealed:
            order = seal_request(FEDERATION_KEY, layout.order(mover.id, OPERATOR), mover.epoch, number + 1, order)
        mover.order(order)

    def _schedule_migrations(self) -> None:
        for number, each in enumerate(self.plan.migrations, 1):
            self.clock.at(each.at, partial(self.migrate, each.subscriber, each.to, f"session {number}"))
        if any(each.travels for each in self.plan.subscribers) and self.balanced is None:
            self._keep_roster()

    def _keep_roster(self) -> None:
        """Let every broker have the roster, as its gateway would write it."""
        brokers = {GatewayId(name): RosterBroker(host=name) for name in self.plan.gateways}
        roster = sign_roster(Roster(federation=FEDERATION, serial=1, brokers=brokers), ORDER_KEY)
        for broker in self.brokers.values():
            broker.publish(Publish(layout.roster(), roster, 1, True))

    def migrate(self, subscriber: str, to: str, session: str) -> None:
        """Order a subscriber to another broker, as the gateway where it is would do; whether it goes, it decides."""
        model = self.subscribers[subscriber]
        assert isinstance(model, TravellerModel)
        now = self.clock.now
        client, source = ClientId(subscriber), GatewayId(model.at)
        order = MoveOrder(
            federation=FEDERATION,
            client=client,
            incarnation=model.incarnation,
            session=session,
            source=source,
            to=GatewayId(to),
            issued_at=now,
            expires_at=now + ORDER_S,
        )
        message = Publish(layout.control(source, client), sign_order(order, ORDER_KEY), 1)
        self.tell(source, f"orders {subscriber} to {to}")
        if self.brokers[source].is_up:
            self.brokers[source].publish(message)

    def configured(self, gateway: str) -> tuple[GatewayId, ...]:
        """Return whom the configuration names as a gateway's neighbours, now."""
        return tuple(GatewayId(other) for pair in self.links if gateway in pair for other in pair if other != gateway)

    def join(self, gateway: str) -> None:
        """Let a gateway join: its links come into the configuration, with which its neighbours are started anew."""
        self.links += [pair for pair in self.plan.links if gateway in pair]
        for neighbour in self.configured(gateway):
            self.restart(neighbour)
        self.gateways[gateway].start()

    def leave(self, gateway: str) -> None:
        """Let a gateway leave for good, out of the configuration, with which its neighbours are started anew."""
        model = self.gateways.pop(gateway)
        if model.is_running:
            model.crash(lambda: 0.0)
        self.left.add(gateway)
        self.links = [pair for pair in self.links if gateway not in pair]
        for name, other in self.gateways.items():
            if other.node is not None and gateway in other.node.link_states():
                self.restart(name)

    def restart(self, gateway: str) -> None:
        """Start a gateway anew, if it runs: one that has crashed is started when that is mended."""
        model = self.gateways[gateway]
        if model.is_running:
            model.crash(lambda: 0.0)
            model.start()

    def _publish(self, plan: PublicationPlan) -> None:
        publisher = self.publishers[plan.publisher]
        payload = msgspec.json.encode({"id": plan.number, **plan.attributes})
        sent = Sent(plan.number, plan.topic, plan.attributes, publisher.gateway, payload, qos=plan.qos)
        self.sent[plan.number] = self._sent[payload] = sent
        publisher.publish(sent)

    def _number_of(self, payload: bytes) -> int:
        sent = self._sent.get(payload)
        if sent is not None:
            return sent.number
        return next(iter(numbers_in(payload)), -1)  # an experiment published it without the plan

    def _taken_in(self, payload: bytes) -> None:
        sent = self._sent.get(payload)  # None: an experiment published it without the plan
        if sent is not None and sent.taken_in_at is None:
            sent.taken_in_at = self.clock.now

    # ---- running -------------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        """Let time pass. Raises PlanError if the plan has faults, and nobody has let them happen."""
        if self.plan.faults and not self.has_faults_scheduled:
            raise PlanError("it has faults that would not happen: call mqloom.lab.faults.schedule(world) before run")
        self.clock.run(until)

    def settle(self) -> bool:
        """Let time pass until nothing is under way any more; whether that came to pass."""
        until = self.clock.now + SETTLE_S
        while self.clock.now < until:
            self.run(self.clock.now + STEP_S)
            if next(self.unsettled(), None) is None:
                return True
        return False

    def unsettled(self) -> Iterator[str]:
        """Yield what is still under way, or not as it should be at rest."""
        for name, gateway in self.gateways.items():
            yield from self._unsettled_gateway(name, gateway)
        for name, publisher in self.publishers.items():
            if publisher.pending:
                yield f"publisher {name}: {publisher.pending} publications without PUBACK"
        for name, subscriber in self.subscribers.items():
            if isinstance(subscriber, TravellerModel):
                yield from (f"subscriber {name} {what}" for what in subscriber.unsettled())
                continue
            lost_at = self.brokers[subscriber.gateway].store_lost_at  # it counts when it is answered again
            yield from (f"subscriber {name} {what}" for what in _unsettled_subscriber(subscriber, lost_at))
        for broker in (each for name, each in self.brokers.items() if name not in self.left):
            for client_id, session in broker.sessions.items():
                held = len(session.in_flight) + len(session.queue)
                if held:
                    yield f"broker {broker.name}: {held} messages held for {client_id}"

    def _unsettled_gateway(self, name: str, gateway: GatewayModel) -> Iterator[str]:
        node = gateway.node
        if node is None:
            yield f"gateway {name} is not running"
            return
        for endpoint in gateway.endpoints():
            if not endpoint.is_up or endpoint.pending:
                yield f"gateway {name}: {_state(endpoint)}"
        agent = None if self.balanced is None else self.balanced.agents.get(name)
        part = None if agent is None else agent.part
        if part is not None and (part.state is BalanceState.BUSY or not part.mediator.is_free):
            yield f"gateway {name}: its load agent is in a session, or looks for one"
        if node.look().migrating:
            yield f"gateway {name}: {node.look().migrating} clients are being moved"
        if node.is_moving:
            yield f"gateway {name}: is moving a primary link"
        for neighbour, state in node.link_states().items():
            if state is not LinkState.UP:
                yield f"gateway {name}: link to {neighbour} is {state.name}"
        yield from (f"gateway {name} holds {what}" for what in gateway.holdings())

    def under_way(self) -> frozenset[int]:
        """Return the publications that brokers hold for somebody: with custody, all that are not delivered yet."""
        return frozenset(
            number
            for broker in self.brokers.values()
            for session in broker.sessions.values()
            for message in session.held()
            for number in numbers_in(message.payload)
        )

    def sessions_held(self) -> int:
        """Return in how many sessions load agents have moved clients, as far as they remember."""
        agents = () if self.balanced is None else self.balanced.agents.values()
        return sum(each.is_offloading and each.moved != 0 for agent in agents for each in agent.decisions.last())

    def moves_made(self) -> int:
        """Return how many primary links were moved, as far as gateways that moved have not crashed since."""
        nodes = (gateway.node for gateway in self.gateways.values())
        return sum(node.counters.value("moves_made", "") for node in nodes if node is not None)

    def losses(self) -> Losses:
        """Return what brokers lost with their stores, by what it means for whom."""
        losses = Losses()
        for broker in self.brokers.values():
            for loss in broker.losses:
                numbers = numbers_in(loss.message.payload)
                if loss.client_id.startswith("sub-"):
                    losses.for_client.update((number, loss.client_id.removeprefix("sub-")) for number in numbers)
                elif "-park-" in loss.client_id:
                    if loss.was_held:  # else the gateway, which knows of the park, has it still
                        losses.parked.update(numbers)
                else:
                    losses.publications.update(numbers)
        return losses


def _unsettled_subscriber(subscriber: SubscriberModel, lost_at: float) -> Iterator[str]:
    answered = {name for name, times in subscriber.life.established.items() if times[-1] > lost_at}
    missing = set(subscriber.life.wishes) - answered
    if not subscriber.is_over and not subscriber.endpoint.is_up:
        yield "is not connected"
    elif not subscriber.is_over and missing:
        yield f"was never told that {', '.join(sorted(missing))} is established"
    if subscriber.endpoint.pending:
        yield f"has {subscriber.endpoint.pending} messages without PUBACK"


def _state(endpoint: Endpoint) -> str:
    client_id = endpoint.manner.client_id
    if not endpoint.is_up:
        return f"{client_id} is not connected"
    return f"{endpoint.pending} messages of {client_id} without PUBACK"
