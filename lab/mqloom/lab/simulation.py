"""A federation in virtual time: the cores that production runs, joined by links that are in order and as slow as told.

Everything that happens is one entry in a heap, ordered by time and then by the order of its making, so that a run is
the same whenever its seed is. A link may be cut: what is under way on it is lost, as with a broker that dies.
"""

import heapq
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence

from mqloom.core import layout
from mqloom.core.effects import (
    AcknowledgeParked,
    ClosePark,
    Effect,
    HoldIntake,
    Log,
    OpenPark,
    PublishFence,
    PublishLocally,
    ReleaseIntake,
    SendAck,
    SendFrame,
    WakeAt,
)
from mqloom.core.events import (
    AcksReceived,
    Event,
    FencePassed,
    FramesReceived,
    LinkConnected,
    LinkLost,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
    Woke,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Incoming
from mqloom.core.records import Answer, Record, Wish, decode_answer, decode_envelope, encode_record
from mqloom.core.seen import Seen
from mqloom.gateway.node import Node, NodeParts
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

Delay = Callable[[], float]
LinkName = tuple[GatewayId, GatewayId]


class Client:
    """A subscriber as the simulation sees it: what it wrote, what it was answered, what it received."""

    def __init__(self, world: "World", gateway: GatewayId, name: str) -> None:
        self._world = world
        self.gateway = gateway
        self.id = ClientId(name)
        self.wishes: dict[str, Wish] = {}
        self.answers: list[tuple[float, Answer]] = []
        self.received: list[tuple[object, tuple[str, ...]]] = []
        self.seen = Seen()

    def subscribe(self, name: str, topics: str, where: str = "") -> None:
        """Add one subscription to the record."""
        self.wishes[name] = Wish(topics=topics, where=where)
        self._write()

    def unsubscribe(self, name: str) -> None:
        """Take one subscription out of the record."""
        del self.wishes[name]
        self._write()

    def answer(self, name: str) -> str | None:
        """Return the last answer for a subscription, if there was one."""
        said = [answer.answer for _, answer in self.answers if answer.name == name]
        return said[-1] if said else None

    def _write(self) -> None:
        data = encode_record(Record(subscriptions=dict(self.wishes), format="frame")) if self.wishes else b""
        self._world.happen(self.gateway, RecordReceived(client=self.id, data=data))


class World:
    """Gateways, links and clients under one clock."""

    def __init__(self, links: Sequence[LinkName], gateways: Sequence[GatewayId], delay: Delay) -> None:
        self.now = 0.0
        self.logs: list[str] = []
        self._delay = delay
        self._links = list(links)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._arrival: dict[LinkName, float] = {}
        self._cut: dict[LinkName, int] = {}
        self._woken: dict[GatewayId, float] = {}
        self._clients: dict[tuple[GatewayId, ClientId], Client] = {}
        self._receipts = itertools.count(1)
        self._intakes: dict[GatewayId, list[Incoming]] = {}
        self._open_intakes: set[GatewayId] = set()
        self._parks: dict[LinkName, list[Parked]] = {}
        self._open_parks: set[LinkName] = set()
        self.nodes: dict[GatewayId, Node] = {}
        for gateway in gateways:
            self.start(gateway, epoch=1)

    def neighbours(self, gateway: GatewayId) -> list[GatewayId]:
        """Return whom a gateway is linked to."""
        return [other for link in self._links for other in link if gateway in link and other != gateway]

    def start(self, gateway: GatewayId, epoch: int) -> None:
        """Start a gateway, or start it anew with nothing but its configuration and a larger epoch."""
        neighbours = self.neighbours(gateway)
        parts = NodeParts(
            gateway=gateway,
            epoch=epoch,
            neighbours=neighbours,
            matcher=ScanMatcher(),
            overlay=TreeOverlay(gateway, neighbours),
            codecs=[("#", json_codec.mqloom_codec())],
        )
        self.nodes[gateway] = Node(parts, self.now)
        self._open_intakes.discard(gateway)
        self._open_parks -= {(gateway, neighbour) for neighbour in neighbours}
        self.happen(gateway, Started())
        self.happen(gateway, RecordsRead())
        for neighbour in neighbours:
            self.happen(gateway, LinkConnected(neighbour=neighbour))

    def client(self, gateway: GatewayId, name: str) -> Client:
        """Return a new client at a gateway's broker."""
        client = Client(self, gateway, name)
        self._clients[gateway, client.id] = client
        return client

    def publish(self, gateway: GatewayId, topic: str, attributes: Mapping[str, object]) -> None:
        """Let somebody publish on a gateway's broker, now."""
        payload = json.dumps(attributes).encode()
        receipt = next(self._receipts)
        incoming = Incoming(topic=topic, payload=payload, qos=1, receipt=receipt, packet=receipt % 65_535 + 1)
        if gateway in self._open_intakes:
            self.happen(gateway, PublishesReceived(publications=(incoming,)))
        else:
            self._intakes.setdefault(gateway, []).append(incoming)

    def cut(self, one: GatewayId, other: GatewayId) -> None:
        """Lose everything under way between two neighbours, and let both know that the connection is gone."""
        for sender, receiver in ((one, other), (other, one)):
            self._cut[sender, receiver] = self._cut.get((sender, receiver), 0) + 1
            self.happen(sender, LinkLost(neighbour=receiver))

    def heal(self, one: GatewayId, other: GatewayId) -> None:
        """Connect two neighbours again."""
        for sender, receiver in ((one, other), (other, one)):
            self.happen(sender, LinkConnected(neighbour=receiver))

    def drop_under_way(self, sender: GatewayId, receiver: GatewayId) -> None:
        """Lose everything under way in one direction, with nobody told."""
        self._cut[sender, receiver] = self._cut.get((sender, receiver), 0) + 1

    def happen(self, gateway: GatewayId, event: Event) -> None:
        """Hand an event to a gateway now, and carry out what it asks for."""
        for effect in self.nodes[gateway].handle(event, self.now):
            self._carry_out(gateway, effect)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._heap, (time, next(self._order), action))

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = until

    def check(self) -> None:
        """State the invariants of every gateway."""
        for node in self.nodes.values():
            node.check()

    def _carry_out(self, gateway: GatewayId, effect: Effect) -> None:
        match effect:
            case SendFrame():
                self._send(gateway, effect)
            case WakeAt():
                self._woken[gateway] = effect.at
                self.at(max(effect.at, self.now), lambda: self._wake(gateway, effect.at))
            case SendAck():
                self._acknowledge(gateway, effect)
            case PublishLocally():
                self._deliver(gateway, effect)
                if effect.number:
                    self._soon(gateway, LocallyPublished(numbers=(effect.number,)))
            case Log():
                self.logs.append(f"{self.now:.3f} {gateway} {effect.level}: {effect.text}")
            case _:
                self._carry_out_custody(gateway, effect)

    def _carry_out_custody(self, gateway: GatewayId, effect: Effect) -> None:
        """Be a broker that forgets what it has handed over, and keeps what is parked."""
        match effect:
            case PublishFence():
                self._soon(gateway, FencePassed(number=effect.number))
            case ReleaseIntake():
                self._open_intakes.add(gateway)
                held = self._intakes.pop(gateway, [])
                self._soon(gateway, PublishesReceived(publications=tuple(held)))
            case HoldIntake():
                self._open_intakes.discard(gateway)
            case OpenPark():
                self._open_parks.add((gateway, effect.neighbour))
                self._unpark((gateway, effect.neighbour), list(self._parks.get((gateway, effect.neighbour), ())))
            case ClosePark():
                self._open_parks.discard((gateway, effect.neighbour))
            case AcknowledgeParked():
                park = self._parks[gateway, effect.neighbour]
                park[:] = [parked for parked in park if parked.receipt not in effect.receipts]

    def _send(self, sender: GatewayId, effect: SendFrame) -> None:
        link = (sender, effect.neighbour)
        arrival = self.now + self._delay()
        if not effect.urgent:
            arrival = self._arrival[link] = max(arrival, self._arrival.get(link, 0.0))
        cut = self._cut.get(link, 0)
        event = FramesReceived(sender=sender, frames=(effect.frame,), urgent=effect.urgent)

        def arrive() -> None:
            if self._cut.get(link, 0) == cut:
                self.happen(effect.neighbour, event)

        self.at(arrival, arrive)

    def _acknowledge(self, receiver: GatewayId, effect: SendAck) -> None:
        """Acknowledgements take the connection of the one who sent the frames."""
        link = (effect.neighbour, receiver)
        cut = self._cut.get(link, 0)

        def arrive() -> None:
            if self._cut.get(link, 0) == cut:
                self.happen(effect.neighbour, AcksReceived(neighbour=receiver, acks=(effect.ack,)))

        self.at(self.now + self._delay(), arrive)

    def _soon(self, gateway: GatewayId, event: Event) -> None:
        """Hand an event to a gateway after what happens now, unless it is started anew before."""
        node = self.nodes[gateway]
        self.at(self.now, lambda: self.happen(gateway, event) if self.nodes[gateway] is node else None)

    def _unpark(self, park: LinkName, messages: list[Parked]) -> None:
        gateway, neighbour = park

        def give_back() -> None:
            if messages and park in self._open_parks:
                self.happen(gateway, ParkedReceived(neighbour=neighbour, messages=tuple(messages)))

        self.at(self.now, give_back)

    def _wake(self, gateway: GatewayId, at: float) -> None:
        if self._woken.get(gateway) == at:  # a later WakeAt replaces an earlier one
            self.happen(gateway, Woke())

    def _deliver(self, gateway: GatewayId, effect: PublishLocally) -> None:
        for neighbour in self.neighbours(gateway):
            if effect.topic == layout.park(gateway, neighbour):
                parked = Parked(data=effect.payload, receipt=next(self._receipts))
                self._parks.setdefault((gateway, neighbour), []).append(parked)
                self._unpark((gateway, neighbour), [parked])
        for (where, name), client in self._clients.items():
            if where != gateway:
                continue
            if effect.topic == layout.control(gateway, name):
                client.answers.append((self.now, decode_answer(effect.payload)))
            elif effect.topic == layout.out(gateway, name):
                for delivered in decode_envelope(effect.payload):
                    if client.seen.earlier(delivered.publication) is None:
                        client.received.append((json.loads(delivered.publication.payload), delivered.names))


def random_tree(count: int, randomness: random.Random) -> tuple[list[GatewayId], list[LinkName]]:
    """Return gateways and the links of a random tree over them."""
    gateways = [GatewayId(f"G{index}") for index in range(count)]
    links = [(gateways[randomness.randrange(index)], gateways[index]) for index in range(1, count)]
    return gateways, links
