"""One gateway in virtual time: a production node, driven as the real driver drives it, on simulated connections.

Like the real driver this translates and nothing else. A crash takes away everything but what the broker keeps for the
gateway's sessions; each start has a larger epoch.
"""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqloom.core import layout
from mqloom.core.effects import (
    Acknowledge,
    AcknowledgeParked,
    ClosePark,
    Effect,
    HoldIntake,
    Log,
    OpenPark,
    PublishLocally,
    ReleaseIntake,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.events import (
    AcksReceived,
    BrokerLost,
    Event,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import GatewayId
from mqloom.core.limits import DRIVER_BATCH_MAX, STATUS_EVERY_S
from mqloom.core.publication import Incoming
from mqloom.core.records import Status, decode_status, encode_status
from mqloom.gateway.node import Node
from mqloom.lab.capacity import Station
from mqloom.lab.clock import Clock, Timer
from mqloom.lab.endpoint import Endpoint, Manner, Place
from mqloom.lab.gateway_parks import Park
from mqloom.lab.gateway_topics import Kind, Topics
from mqloom.lab.packets import Publish

CUSTODY: Final = hasattr(Node, "holdings")
"""Whether the node says itself what is to be acknowledged."""

BuildNode = Callable[[GatewayId, int, Sequence[GatewayId], float], Node]


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """A gateway before it runs. `acknowledges_at_once` is a mistake that checkers must find."""

    gateway: GatewayId
    data: tuple[str, ...]
    build: BuildNode
    own: Place
    links: dict[GatewayId, Place]
    intake: Station | None = None
    acknowledges_at_once: bool = False


class GatewayModel:
    """One gateway beside one broker; not running until it is started."""

    def __init__(self, plan: GatewayPlan, clock: Clock, tell: Callable[[str, str], None]) -> None:
        self.id = plan.gateway
        self.plan = plan
        self.epoch = 0
        self.node: Node | None = None
        self._clock = clock
        self._tell = tell
        self._topics = Topics(plan.gateway, plan.data)

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
        self._receipts: dict[int, int] = {}  # of the present connection: packet ids
        self._receipt = itertools.count(1)
        self._held: deque[Publish] | None = None
        self._alive = dict.fromkeys(self.plan.links, True)
        self._epochs = dict.fromkeys(self.plan.links, 0)
        self.node = self.plan.build(self.id, self.epoch, tuple(self.plan.links), self._clock.now)
        self._open()

    def crash(self, notice_s: Callable[[], float]) -> None:
        """End without a word; the brokers notice after a while."""
        assert self.node is not None
        self.node = None
        for endpoint in (self.own, *self.links.values()):
            endpoint.crash(notice_s())
        for park in self.parks.values():
            park.endpoint.crash(notice_s())
        for timer in (self._timer, self._correction):
            if timer is not None:
                timer.cancel()

    def _open(self) -> None:
        own = Manner(
            client_id=f"mqloom-{self.id}",
            clean=False,
            subscriptions=self._topics.subscriptions,
            will=Publish(layout.status(self.id), self._status(alive=False), 1, True),
            on_up=self._own_up,
            on_lost=self._own_lost,
            on_messages=self._arrived,
            on_published=self._published,
        )
        self.own = Endpoint(self.plan.own, own)
        self.links = {neighbour: self._link(neighbour, place) for neighbour, place in self.plan.links.items()}
        self.parks = {
            neighbour: Park(self.id, neighbour, self.plan.own, self._handle, self._receipt, self._parked)
            for neighbour in self.plan.links
        }
        for park in self.parks.values():  # before anything can be parked
            park.create()
        if not self.parks:
            self.own.open()
        for link in self.links.values():
            link.open()

    def endpoints(self) -> list[Endpoint]:
        """Return the connections that are meant to be up."""
        return [self.own, *self.links.values()]

    def holdings(self) -> list[str]:
        """Return what the gateway holds that should be nothing at rest."""
        assert self.node is not None
        held = []
        if self._held:
            held.append(f"{len(self._held)} publications in its driver")
        if self._receipts:
            held.append(f"{len(self._receipts)} unacknowledged messages of its broker")
        return held

    def _parked(self) -> None:
        """A park has its session; when all have, the broker can be served."""
        if all(park.is_created for park in self.parks.values()):
            self.own.open()

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

    # ---- inward --------------------------------------------------------------------------------------------------

    def _own_up(self, session_present: bool) -> None:
        if not session_present:
            for park in self.parks.values():
                park.create()
        self._say_status()
        if not self._started:
            self._started = True
            self._handle(Started())

    def _own_lost(self) -> None:
        self._receipts.clear()
        if self._held is not None:  # what has a receipt comes again
            self._held = deque(message for message in self._held if not message.qos)
        self._handle(BrokerLost())

    def _link_up(self, neighbour: GatewayId) -> None:
        if self._alive[neighbour]:
            self._handle(LinkConnected(neighbour=neighbour))

    def _from_link(self, neighbour: GatewayId, messages: list[Publish]) -> None:
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

    def _arrived(self, messages: list[Publish]) -> None:
        if self.plan.intake is None:
            self._received(messages)
        else:
            connection, node = self.own.connections, self.node

            def serve() -> None:
                if self.own.connections == connection and self.node is node and self.own.is_open:
                    self._received(messages)

            self.plan.intake.submit(len(messages), sum(len(each.payload) for each in messages), serve)

    def _received(self, messages: list[Publish]) -> None:
        """Hand a batch to the node in its order, joining what stands together."""
        kind_of = self._topics.kind
        start, kind = 0, kind_of(messages[0].topic)
        for index, message in enumerate(messages):
            other = kind_of(message.topic)
            if other != kind or index - start == DRIVER_BATCH_MAX:
                self._obey(kind, messages[start:index])
                start, kind = index, other
        self._obey(kind, messages[start:])

    def _obey(self, kind: Kind, messages: list[Publish]) -> None:
        if self.node is None:
            return
        what, who, urgent = kind
        if what == "data":
            self._data(messages)
        elif what == "link":
            if who in self._alive:  # whoever speaks is alive, whatever the status says
                self._neighbour_is(GatewayId(who), alive=True)
            frames = tuple(message.payload for message in messages)
            self._handle(FramesReceived(sender=GatewayId(who), frames=frames, urgent=urgent))
        elif what == "record":
            for message in messages:
                receipt = self._receive(message)
                self._handle(RecordReceived(client=self._topics.client(who), data=message.payload, receipt=receipt))
                self._acknowledge_for_node(message)
        else:
            if what == "status":
                self._own_status(messages[-1])
            self.own.acknowledge(tuple(message.packet for message in messages if message.qos))

    def _data(self, messages: list[Publish]) -> None:
        if self._held is not None:
            self._held.extend(messages)
            return
        incoming = tuple(
            Incoming(
                topic=message.topic,
                payload=message.payload,
                qos=message.qos,
                retain=message.retain,
                receipt=self._receive(message),
                packet=message.packet,
                again=message.again,
            )
            for message in messages
        )
        if self.plan.acknowledges_at_once:
            self.own.acknowledge(tuple(message.packet for message in messages if message.qos))
        self._handle(PublishesReceived(publications=incoming))
        self._acknowledge_for_node(*messages)

    def _receive(self, message: Publish) -> int:
        if not message.qos:
            return 0
        receipt = next(self._receipt)
        self._receipts[receipt] = message.packet
        return receipt

    def _acknowledge_for_node(self, *messages: Publish) -> None:
        if not CUSTODY:
            self.own.acknowledge(tuple(message.packet for message in messages if message.qos))
            self._receipts.clear()

    def _own_status(self, message: Publish) -> None:
        if message.payload == self._status(alive=True):
            self._handle(RecordsRead())
        elif not message.retain and self._correction is None:
            self._correction = self._clock.timer_at(self._status_at + STATUS_EVERY_S, self._say_status)

    def _say_status(self) -> None:
        if self._correction is not None:
            self._correction.cancel()
            self._correction = None
        self._status_at = self._clock.now
        self.own.publish(Publish(layout.status(self.id), self._status(alive=True), 1, True))

    def _status(self, *, alive: bool) -> bytes:
        return encode_status(Status(alive=alive, gateway=self.id, version="lab", epoch=self.epoch))

    def _published(self, numbers: list[int]) -> None:
        named = tuple(number for number in numbers if number)
        if named:
            self._handle(LocallyPublished(numbers=named))

    # ---- outward -------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if self.node is not None:
            for effect in self.node.handle(event, self._clock.now):
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901 - one case for each effect
        match effect:
            case PublishLocally():
                message = Publish(effect.topic, effect.payload, effect.qos, effect.retain)
                self.own.publish(message, effect.number)
            case SendFrame():
                topic = self._topics.link(effect.neighbour, urgent=effect.urgent)
                self.links[effect.neighbour].publish(Publish(topic, effect.frame))
            case SendAck():
                self.own.publish(Publish(self._topics.own_acks[effect.neighbour], effect.ack))
            case Acknowledge():
                packets = (self._receipts.pop(receipt, None) for receipt in effect.receipts)
                self.own.acknowledge(tuple(packet for packet in packets if packet is not None))
            case AcknowledgeParked():
                self.parks[effect.neighbour].acknowledge(effect.receipts)
            case OpenPark():
                self.parks[effect.neighbour].open()
            case ClosePark():
                self.parks[effect.neighbour].close()
            case HoldIntake():
                self._held = deque() if self._held is None else self._held
            case ReleaseIntake():
                self._release()
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._clock.timer_at(effect.at, partial(self._handle, Woke()))
            case Log():
                self._tell(self.id, f"{effect.level}: {effect.text}")

    def _release(self) -> None:
        held, self._held = self._held, None
        if held:  # behind the event at hand
            self._clock.at(self._clock.now, partial(self._hand_back, self.own.connections, self.node, list(held)))

    def _hand_back(self, connection: int, node: Node | None, messages: list[Publish]) -> None:
        if self.node is node and self.own.connections == connection:
            self._data(messages)
