"""One node whose neighbours and clients are played by hand: for tests of the node, and for trying things out."""

import itertools
from collections.abc import Callable, Mapping, Sequence

from mqloom.core import layout
from mqloom.core.effects import Acknowledge, Effect, Log, PublishLocally, SendAck, SendFrame, WakeAt
from mqloom.core.events import (
    AcksReceived,
    Event,
    FramesReceived,
    LinkConnected,
    LocallyPublished,
    Parked,
    ParkedReceived,
    PublishesReceived,
    RecordReceived,
    RecordsRead,
    Started,
)
from mqloom.core.ids import ClientId, Conversation, GatewayId, SubscriptionKey
from mqloom.core.messages import (
    Hello,
    Message,
    Synced,
)
from mqloom.core.publication import Incoming, Publication
from mqloom.core.records import Answer, Delivered, Format, Record, Wish, decode_answer, decode_envelope, encode_record
from mqloom.core.wire import Ack, Frame, decode, decode_ack, encode, encode_ack
from mqloom.gateway import node as node_module
from mqloom.gateway.agent_interfaces import Agent, AgentEffect, AgentEvent, PublishControl, WakeAgentAt
from mqloom.gateway.interfaces import CodecChoice, Matcher, SubscribeRequest
from mqloom.gateway.links import LinkState
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.subscribers import Standing
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

US, A, B = GatewayId("US"), GatewayId("A"), GatewayId("B")
ANN, BOB = ClientId("ann"), ClientId("bob")
FIRST = Conversation(1, 0)
FROM_HAND = 1_000_000
"""Numbers of what is put into a park by hand: above all that the gateway gives itself."""
JSON = json_codec.mqloom_codec()
Admit = Callable[[SubscribeRequest], str | None]


class Gate:
    """One node, its neighbours played by hand; every event is followed by the node's own check.

    Its broker takes over at once what is published there, unless `answers_local` is false. Of the neighbours only those
    in `obliging` take over at once what is sent to them; for the others say `ack`.
    """

    def __init__(self, parts: NodeParts | None = None) -> None:
        self.now = 0.0
        self.answers_local = True
        self.obliging: set[GatewayId] = set()
        self.frames: dict[GatewayId, Frame] = {}
        self.places: dict[GatewayId, int] = {}
        self.node = Node(parts or parts_of(), self.now)
        self.sequences: dict[GatewayId, itertools.count[int]] = {}
        self.receipts = itertools.count(1)
        self.park_receipts = itertools.count(1)
        self.handle(Started())
        self.handle(RecordsRead())

    def handle(self, event: Event) -> list[Effect]:
        """Hand an event to the node, check its invariants, and return its effects."""
        effects = self._handle(event)
        if self.answers_local:
            numbers = tuple(each.number for each in effects if isinstance(each, PublishLocally) and each.number)
            if numbers:
                effects += self._handle(LocallyPublished(numbers=numbers))
        for neighbour in sorted(self.obliging):
            if any(isinstance(each, SendFrame) and each.neighbour == neighbour for each in effects):
                effects += self.ack(neighbour)
        return effects

    def _handle(self, event: Event) -> list[Effect]:
        effects = self.node.handle(event, self.now)
        self.node.check()
        for effect in effects:
            if isinstance(effect, SendFrame) and not effect.urgent:
                self.note(effect.neighbour, decode(effect.frame))
        return effects

    def note(self, neighbour: GatewayId, frame: Frame) -> None:
        """Remember the last frame to a neighbour, and how many publications were in all of its conversation."""
        last = self.frames.get(neighbour)
        if last is None or frame.conversation != last.conversation:
            self.places[neighbour] = 0
        elif frame.sequence <= last.sequence:  # it is sent again
            return
        self.frames[neighbour] = frame
        publications = [message for message in frame.messages if isinstance(message, Publication)]
        self.places[neighbour] += sum(publication.qos > 0 for publication in publications)

    def up(self, *neighbours: GatewayId) -> "Gate":
        """Let links come up."""
        for neighbour in neighbours:
            self.handle(LinkConnected(neighbour=neighbour))
            self.sequences[neighbour] = itertools.count()
            self.hear(neighbour, Hello(FIRST, True))
            self.hear(neighbour, Synced())
            assert self.node.link_states()[neighbour] is LinkState.UP
            self.marker_back(neighbour)
        return self

    def marker_back(self, neighbour: GatewayId, number: int = 1) -> list[Effect]:
        """Let the broker give back a marker of the park, the first one: there was nothing in it."""
        frame = Frame(US, Conversation(1, number), FROM_HAND + next(self.park_receipts), ())
        return self.unpark(neighbour, encode(frame))

    def unpark(self, neighbour: GatewayId, *messages: bytes) -> list[Effect]:
        """Let the broker give back what is in the park."""
        parked = tuple(Parked(data=data, receipt=next(self.park_receipts)) for data in messages)
        return self.handle(ParkedReceived(neighbour=neighbour, messages=parked))

    def hear(self, neighbour: GatewayId, *messages: Message) -> list[Effect]:
        """Let a neighbour say something, in order."""
        frame = Frame(neighbour, FIRST, next(self.sequences[neighbour]), messages)
        return self.handle(FramesReceived(sender=neighbour, frames=(encode(frame),)))

    def hear_urgently(self, neighbour: GatewayId, *messages: Message) -> list[Effect]:
        """Let a neighbour say something on the urgent stream."""
        frame = Frame(neighbour, FIRST, 0, messages)
        return self.handle(FramesReceived(sender=neighbour, frames=(encode(frame),), urgent=True))

    def ack(
        self, neighbour: GatewayId, *, received: int | None = None, done: int | None = None, ahead: Sequence[int] = ()
    ) -> list[Effect]:
        """Let a neighbour acknowledge frames and publications: as many as said, or all."""
        last = self.frames[neighbour]
        received = last.sequence + 1 if received is None else received
        done = self.places[neighbour] if done is None else done
        ack = Ack(neighbour, last.conversation, received, done, tuple(ahead))
        return self.handle(AcksReceived(neighbour=neighbour, acks=(encode_ack(ack),)))

    def publish(self, *payloads: bytes, topic: str = "a/b") -> list[Effect]:
        """Let a client of our own broker publish."""
        incoming = []
        for payload in payloads:
            receipt = next(self.receipts)
            incoming.append(Incoming(topic=topic, payload=payload, qos=1, receipt=receipt, packet=receipt))
        return self.handle(PublishesReceived(publications=tuple(incoming)))

    def record(
        self,
        client: ClientId,
        wishes: Mapping[str, tuple[str, str]],
        format: Format = "frame",  # noqa: A002 - the record's own word
        lease_s: float = 0,
    ) -> list[Effect]:
        """Let a client write its record."""
        subscriptions = {name: Wish(topics=topics, where=where) for name, (topics, where) in wishes.items()}
        record = Record(subscriptions=subscriptions, format=format, lease_s=lease_s)
        return self.handle(RecordReceived(client=client, data=encode_record(record)))

    def counted(self, name: str) -> dict[str, int]:
        """Return a counter by reason."""
        return self.node.counters.reasons(name)


class Chatty:
    """An agent that answers everything by a control publication."""

    name = "chatty"

    def __init__(self) -> None:
        self.happened: list[AgentEvent] = []

    def handle(self, event: AgentEvent, now: float) -> Sequence[AgentEffect]:
        """Note the event, answer, and ask for a waking."""
        self.happened.append(event)
        return [PublishControl(b"%d" % len(self.happened), 2), WakeAgentAt(now + 60)]


def parts_of(
    *neighbours: GatewayId,
    codecs: Sequence[CodecChoice] = (("#", JSON),),
    matcher: Matcher | None = None,
    standing: Sequence[Standing] = (),
    agents: Sequence[Agent] = (),
    admit: Admit = node_module.admit_all,
) -> NodeParts:
    """Return the parts of a node with these neighbours, with what ships where nothing is said."""
    return NodeParts(
        gateway=US,
        epoch=1,
        neighbours=neighbours,
        matcher=matcher or ScanMatcher(),
        overlay=TreeOverlay(US, neighbours),
        codecs=codecs,
        standing=standing,
        agents=agents,
        admit=admit,
    )


def with_two() -> Gate:
    """Return a node with two neighbours, both up."""
    return Gate(parts_of(A, B)).up(A, B)


def alone() -> Gate:
    """Return a node without neighbours."""
    return Gate()


def key(gateway: GatewayId, number: int) -> SubscriptionKey:
    """Return the key of some gateway's subscription."""
    return SubscriptionKey(gateway, 1, number)


def publication(sequence: int = 0, payload: bytes = b'{"x": 7}', origin: GatewayId = A, hops: int = 1) -> Publication:
    """Return a publication as a neighbour would send it."""
    return Publication(origin, 1, sequence, 0, hops, "a/b", payload, 1)


def said_to(effects: Sequence[Effect], client: ClientId) -> list[bytes]:
    """Return what was written to a client, or an operator, on its control topic."""
    topic = layout.control(US, client)
    return [each.payload for each in effects if isinstance(each, PublishLocally) and each.topic == topic]


def answers(effects: Sequence[Effect], client: ClientId = ANN) -> list[Answer]:
    """Return what a client was answered."""
    return [decode_answer(data) for data in said_to(effects, client)]


def delivered(effects: Sequence[Effect], client: ClientId = ANN) -> list[Delivered]:
    """Return what a client was given, by envelopes."""
    topic = layout.out(US, client)
    return [
        each
        for effect in effects
        if isinstance(effect, PublishLocally) and effect.topic == topic
        for each in decode_envelope(effect.payload)
    ]


def payloads(effects: Sequence[Effect], client: ClientId = ANN) -> list[bytes]:
    """Return the payloads that a client was given."""
    return [each.publication.payload for each in delivered(effects, client)]


def local(effects: Sequence[Effect]) -> list[tuple[str, bytes]]:
    """Return all that is published on our own broker."""
    return [(effect.topic, effect.payload) for effect in effects if isinstance(effect, PublishLocally)]


def sent(effects: Sequence[Effect], neighbour: GatewayId, *, urgent: bool = False) -> list[Message]:
    """Return what a neighbour is told."""
    return [
        message
        for effect in effects
        if isinstance(effect, SendFrame) and effect.neighbour == neighbour and effect.urgent == urgent
        for message in decode(effect.frame).messages
    ]


def acknowledged(effects: Sequence[Effect]) -> list[int]:
    """Return the receipts that are acknowledged to our own broker."""
    return [receipt for effect in effects if isinstance(effect, Acknowledge) for receipt in effect.receipts]


def acks(effects: Sequence[Effect], neighbour: GatewayId) -> list[tuple[int, int]]:
    """Return how many of its frames a neighbour is told have come, and how many of its publications are done."""
    told = [effect.ack for effect in effects if isinstance(effect, SendAck) and effect.neighbour == neighbour]
    return [(ack.received, ack.done) for ack in map(decode_ack, told)]


def wakings(effects: Sequence[Effect]) -> list[float]:
    """Return the times to wake at."""
    return [effect.at for effect in effects if isinstance(effect, WakeAt)]


def logs(effects: Sequence[Effect]) -> list[str]:
    """Return the lines of the log."""
    return [effect.text for effect in effects if isinstance(effect, Log)]
