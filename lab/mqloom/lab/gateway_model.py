"""One gateway in virtual time: a production node, driven as the real driver drives it, on simulated connections.

Like the real driver this translates and nothing else. To its own broker a gateway has two connections: the intake
(`gateway_intake`), and the control connection for records, frames, its status and all that it publishes there itself;
and one more for each park (`gateway_parks`). A crash takes away everything but what the broker keeps for the gateway's
sessions; each start has a larger epoch.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqloom.core import layout
from mqloom.core.effects import (
    Acknowledge,
    AcknowledgeParked,
    CloseLink,
    ClosePark,
    Effect,
    Heard,
    HoldIntake,
    Log,
    OpenLink,
    OpenPark,
    PublishFence,
    PublishLocally,
    ReleaseIntake,
    RunBeside,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.events import (
    AcksReceived,
    DrainRead,
    Event,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    OrderAnswered,
    Ordered,
    PlaceRead,
    RanBeside,
    RecordReceived,
    RecordsRead,
    RosterRead,
    Started,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import DRIVER_BATCH_MAX, FLOW_QUEUE_MAX, INTAKE_WINDOW, LINK_WINDOW, STATUS_EVERY_S
from mqloom.core.migration_records import MigrationAnswer, decode_migration_answer
from mqloom.core.records import MoveAnswer, Status, decode_move, decode_status, encode_status
from mqloom.gateway.node import Node
from mqloom.gateway.reconfiguring import Reconfigured
from mqloom.lab.capacity import Capacity
from mqloom.lab.clock import Clock, Timer
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.gateway_intake import IntakeModel, IntakeSettings
from mqloom.lab.gateway_meter import GatewayMeter
from mqloom.lab.gateway_parks import Park
from mqloom.lab.gateway_topics import Kind, Topics
from mqloom.lab.packets import Publish

BuildNode = Callable[[GatewayId, int, Sequence[GatewayId], float], Node]


OPERATOR: Final = ClientId("operator")
"""Who orders gateways to move."""

DRAINER: Final = ClientId("drainer")
"""Who asks them to move their clients."""


BESIDE_S: Final = 0.1
"""How long computations beside the event loop take."""


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """A gateway before it runs: its way to its own broker, and who its neighbours are."""

    gateway: GatewayId
    build: BuildNode
    own: Place
    neighbours: Callable[[], Sequence[GatewayId]]
    """Those in the configuration, asked for at every start."""
    intake: IntakeSettings
    place_of: Callable[[GatewayId], Place]
    """The way to the broker of any other gateway."""
    work: Capacity | None = None
    """What it can do; None: its load is not measured."""
    window_s: float = 10.0
    """How often it is."""


class GatewayModel:
    """One gateway beside one broker; not running until it is started."""

    def __init__(self, plan: GatewayPlan, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self.id = plan.gateway
        self.plan = plan
        self.epoch = 0
        self.node: Node | None = None
        self.answers: list[tuple[float, MoveAnswer]] = []
        """What its operator was told, and when."""
        self.words: list[tuple[float, MigrationAnswer]] = []
        """What who moves its clients was told, and when."""
        self._clock = clock
        self._tell = tell
        self._topics = Topics(plan.gateway)

    @property
    def is_running(self) -> bool:
        """Whether it has not crashed."""
        return self.node is not None

    def start(self) -> None:
        """Start with nothing but the configuration, and a larger epoch."""
        assert self.node is None
        self.epoch += 1
        self._timer: Timer | None = None
        self._correction: Timer | None = None
        self._started = False
        self._status_at = 0.0
        self._alive: dict[GatewayId, bool] = {}
        self._epochs: dict[GatewayId, int] = {}
        self._place = b""
        self._has_place = False
        self._kept: dict[str, Publish] = {}
        self.node = self.plan.build(self.id, self.epoch, self.plan.neighbours(), self._clock.now)
        self._meter: GatewayMeter | None = None
        if self.plan.work is not None:
            station, work, window_s = self.plan.intake.station, self.plan.work, self.plan.window_s
            self._meter = GatewayMeter(self.id, self.node, self._clock, work, station, window_s, self._handle)
        self._open()

    def crash(self, notice_s: Callable[[], float]) -> None:
        """End without a word; the brokers notice after a while."""
        assert self.node is not None
        self.node = None
        parks = (*self.parks.values(), *self._discarding.values())
        for endpoint in (*self.endpoints(), *(park.endpoint for park in parks)):
            endpoint.crash(notice_s())
        for timer in (self._timer, self._correction):
            if timer is not None:
                timer.cancel()
        if self._meter is not None:
            self._meter.stop()

    def order(self, data: bytes) -> None:
        """An operator orders it to move; whoever does not run does not hear that."""
        self._handle(Ordered(client=OPERATOR, data=data))

    def ask(self, data: bytes) -> None:
        """An operator asks it to move clients; whoever does not run does not hear that."""
        self._handle(Ordered(client=DRAINER, data=data))

    def endpoints(self) -> list[Endpoint]:
        """Return the connections that are meant to be up."""
        return [self.intake.endpoint, self.control, *self.links.values()]

    def holdings(self) -> list[str]:
        """Return what the gateway holds that should be nothing at rest."""
        assert self.node is not None
        holdings = self.node.holdings()
        held = {
            "messages in its driver": self.intake.held,
            "unacknowledged messages of its broker": self.intake.unacknowledged,
            "open duties": holdings.duties,
            "publications taken in": holdings.intake,
            "local deliveries": holdings.deliveries,
            **{f"publications for {neighbour}": count for neighbour, count in holdings.flows.items()},
        }
        return [f"{count} {what}" for what, count in held.items() if count]

    def check(self) -> None:
        """State the invariants of the node, and that what it holds is within the bounds that it sets itself."""
        if self.node is None:
            return
        self.node.check()
        holdings = self.node.holdings()
        assert holdings.intake <= INTAKE_WINDOW + DRIVER_BATCH_MAX, holdings
        for neighbour, held in holdings.flows.items():
            assert held <= FLOW_QUEUE_MAX + LINK_WINDOW + DRIVER_BATCH_MAX, (neighbour, held)

    def _open(self) -> None:
        receipts = itertools.count(1)
        self.intake = IntakeModel(self.id, self.plan.own, self.plan.intake, self._handle, receipts)
        control = Manner(
            client_id=f"mqloom-{self.id}-control",
            clean=False,
            subscriptions=self._topics.subscriptions(gives_orders=self.node is not None and self.node.gives_orders),
            will=Publish(layout.status(self.id), self._status(alive=False), 1, True),
            on_up=self._control_up,
            on_lost=self._control_lost,
            on_messages=self._received,
            on_published=self._published,
        )
        self.control = Endpoint(self.plan.own, control)
        self.links: dict[GatewayId, Endpoint] = {}
        self.parks: dict[GatewayId, Park] = {}
        self._parks_by_topic: dict[str, Park] = {}
        self._receipts = receipts
        self._discarding: dict[GatewayId, Park] = {}
        self._puts: dict[int, Callable[[], int]] = {}
        self._put_numbers = itertools.count(-1, -1)  # the core's own are positive
        for endpoint in self.endpoints():
            endpoint.open()

    def _link(self, neighbour: GatewayId, place: Place) -> Endpoint:
        manner = Manner(
            client_id=f"mqloom-{self.id}-to-{neighbour}",
            clean=True,
            subscriptions=((layout.status(neighbour), 0), (layout.ack(neighbour, self.id), 0)),
            on_up=lambda _: self._link_up(neighbour),
            on_down=lambda: self._handle(LinkLost(neighbour=neighbour)),
            on_messages=partial(self._from_link, neighbour),
        )
        return Endpoint(place, manner)

    def _park(self, neighbour: GatewayId) -> Park:
        return Park(self.id, neighbour, self.plan.own, self._handle, self._receipts, self._put)

    # ---- inward --------------------------------------------------------------------------------------------------

    def _control_lost(self) -> None:
        for park in self.parks.values():
            park.doubt()

    def _control_up(self, session_present: bool) -> None:
        for park in self.parks.values():  # the broker may have lost its store
            park.create()
        self._say_status()
        if self._has_place and self._place:  # the broker may have lost its store
            self.control.publish(Publish(layout.place(self.id), self._place, 1, True))
        for message in self._kept.values():
            self.control.publish(message)
        if not self._started:
            self._started = True
            self._handle(Started())

    def _link_up(self, neighbour: GatewayId) -> None:
        if self._alive.get(neighbour):
            self._handle(LinkConnected(neighbour=neighbour))

    def _from_link(self, neighbour: GatewayId, messages: list[Publish]) -> None:
        if neighbour not in self.links:  # closed meanwhile
            return
        acks = []
        for message in messages:
            if message.topic == self._topics.acks[neighbour]:
                acks.append(message.payload)
                continue
            status = decode_status(message.payload)
            if status.alive or status.epoch >= self._epochs[neighbour]:
                self._epochs[neighbour] = status.epoch
                self._neighbour_is(neighbour, alive=status.alive)
        if acks:
            self._handle(AcksReceived(neighbour=neighbour, acks=tuple(acks)))

    def _neighbour_is(self, neighbour: GatewayId, *, alive: bool) -> None:
        if alive != self._alive[neighbour]:
            self._alive[neighbour] = alive
            if self.links[neighbour].is_up:
                self._handle(LinkConnected(neighbour=neighbour) if alive else LinkLost(neighbour=neighbour))

    def _received(self, messages: list[Publish]) -> None:
        """Hand a batch of the control connection to the node in its order, joining what stands together."""
        self.control.acknowledge(tuple(message.packet for message in messages if message.qos))
        kind_of = self._topics.kind
        start, kind = 0, kind_of(messages[0].topic)
        for index, message in enumerate(messages):
            other = kind_of(message.topic)
            if other != kind or index - start == DRIVER_BATCH_MAX:
                self._obey(kind, messages[start:index])
                start, kind = index, other
        self._obey(kind, messages[start:])

    def _obey(self, kind: Kind, messages: list[Publish]) -> None:
        what, who, urgent = kind
        if what == "link":
            if who in self._alive:  # whoever speaks is alive, whatever the status says
                self._neighbour_is(GatewayId(who), alive=True)
            frames = tuple(message.payload for message in messages)
            self._handle(FramesReceived(sender=GatewayId(who), frames=frames, urgent=urgent))
        elif what == "record":  # only the last counts: a record is the whole wish
            self._handle(RecordReceived(client=ClientId(who), data=messages[-1].payload))
        elif what == "place":
            if not self._has_place:
                self._place = messages[-1].payload
        elif what == "status":
            self._own_status(messages[-1])
        else:
            self._obey_about_orders(kind, messages[-1])

    def _obey_about_orders(self, kind: Kind, message: Publish) -> None:
        what, who, _ = kind
        if what == "roster":
            self._handle(RosterRead(data=message.payload))
        elif what == "drain":
            self._handle(DrainRead(data=message.payload))
        elif what == "answer":
            self._handle(OrderAnswered(client=ClientId(who), data=message.payload))

    def _own_status(self, message: Publish) -> None:
        """Our status came back to us: all records are read. If it is not what we said, say it again."""
        if message.payload == self._status(alive=True):
            if not self._has_place:
                self._has_place = True
                self._handle(PlaceRead(data=self._place))
            self._handle(RecordsRead())
        elif not message.retain and self._correction is None:
            self._correction = self._clock.timer_at(self._status_at + STATUS_EVERY_S, self._say_status)

    def _say_status(self) -> None:
        if self._correction is not None:
            self._correction.cancel()
            self._correction = None
        self._status_at = self._clock.now
        self.control.publish(Publish(layout.status(self.id), self._status(alive=True), 1, True))

    def _status(self, *, alive: bool) -> bytes:
        return encode_status(Status(alive=alive, gateway=self.id, version="lab", epoch=self.epoch))

    def _published(self, numbers: list[int]) -> None:
        kept = (self._puts.pop(number)() if number < 0 else number for number in numbers)
        named = tuple(number for number in kept if number)
        if named:
            self._handle(LocallyPublished(numbers=named))

    # ---- outward -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event | Reconfigured) -> None:
        if self.node is not None:
            for effect in self.node.handle(event, self._clock.now):
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PublishLocally():
                self._publish(effect)
            case SendFrame():
                topic = self._topics.link(effect.neighbour, urgent=effect.urgent)
                if effect.neighbour in self.links:
                    self.links[effect.neighbour].publish(Publish(topic, effect.frame))
            case SendAck():
                self.control.publish(Publish(self._topics.own_acks[effect.neighbour], effect.ack))
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._clock.timer_at(effect.at, partial(self._handle, Woke()))
            case Log():
                self._tell(self.id, f"{effect.level}: {effect.text}")
            case OpenLink() | CloseLink():
                self._carry_out_link(effect)
            case RunBeside():
                self._clock.at(self._clock.now + BESIDE_S, partial(self._ran, self.epoch, effect))
            case _:
                self._carry_out_custody(effect)

    def _ran(self, epoch: int, effect: RunBeside) -> None:
        """Run a function when its time is over, unless the gateway has crashed since."""
        if self.epoch != epoch:
            return
        result, problem = None, ""
        try:
            result = effect.function()
        except Exception as error:  # whatever it raises is its answer
            problem = f"{type(error).__name__}: {error}"
        self._handle(RanBeside(number=effect.number, result=result, problem=problem))

    def _publish(self, effect: PublishLocally) -> None:
        message = Publish(effect.topic, effect.payload, effect.qos, effect.retain)
        if self._meter is not None:
            self._meter.published(effect)
        if effect.topic == self._topics.place:
            self._place = effect.payload
        elif effect.topic in self._topics.kept:
            self._kept[effect.topic] = message
        elif effect.topic == layout.control(self.id, OPERATOR):
            self.answers.append((self._clock.now, decode_move(effect.payload)))
        elif effect.topic == layout.control(self.id, DRAINER):
            self.words.append((self._clock.now, decode_migration_answer(effect.payload)))
        park = self._parks_by_topic.get(effect.topic)
        if park is None:
            self.control.publish(message, effect.number)
        else:
            park.put(message, effect.number)

    def _carry_out_link(self, effect: OpenLink | CloseLink) -> None:
        peer = effect.neighbour
        if isinstance(effect, CloseLink):
            self._alive.pop(peer, None)
            if peer in self.links:
                self.links.pop(peer).close()
            if effect.is_primary:
                self._parks_by_topic.pop(layout.park(self.id, peer), None)
                park = self.parks.pop(peer) if peer in self.parks else self._park(peer)
                self._discarding[peer] = park
                numbers = tuple(park.discard())
                if numbers:
                    self._clock.at(self._clock.now, partial(self._handle, LocallyPublished(numbers=numbers)))
            return
        self._alive[peer], self._epochs[peer] = True, 0
        if effect.is_primary:
            if peer in self._discarding:
                self._discarding.pop(peer).endpoint.close()
            park = self.parks[peer] = self._park(peer)
            self._parks_by_topic[layout.park(self.id, peer)] = park
            if self.control.is_up:
                park.create()
        self.links[peer] = self._link(peer, self.plan.place_of(peer))
        self.links[peer].open()

    def _put(self, message: Publish, kept: Callable[[], int]) -> None:
        number = next(self._put_numbers)
        self._puts[number] = kept
        self.control.publish(message, number)

    def _carry_out_custody(self, effect: Effect) -> None:
        match effect:
            case Acknowledge():
                self.intake.acknowledge(effect.receipts)
            case PublishFence():
                self.intake.fence(effect.number)
            case HoldIntake():
                self.intake.hold()
            case ReleaseIntake():
                self.intake.release()
            case OpenPark():
                self.parks[effect.neighbour].open()
            case ClosePark():
                self.parks[effect.neighbour].close()
            case AcknowledgeParked():
                self.parks[effect.neighbour].acknowledge(effect.receipts)
            case Heard():
                pass  # whoever writes here is alive: there is no hostile client in this world
            case _:
                raise AssertionError(f"an effect that is not known here: {effect!r}")
