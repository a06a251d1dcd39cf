"""Whole nodes joined by soft links: what breaks, restarts or crashes loses nothing and doubles nothing."""

from collections import Counter

import pytest

from mqloom.core.effects import (
    Acknowledge,
    Effect,
    OpenLink,
    PublishFence,
    PublishLocally,
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
from mqloom.core.ids import GatewayId
from mqloom.core.publication import Incoming
from mqloom.core.records import Record, Wish, encode_record
from mqloom.gateway.node import Node, NodeParts
from mqloom.gateway.soft_links import SoftState
from mqloom.lab.gate import ANN, parts_of
from mqloom.lab.woven import WaysOverlay
from mqloom.plugins.scan_matcher import ScanMatcher


class Chain:
    """Nodes in a row, each linked to the next, and a soft link from the first to the last.

    Frames and acknowledgements arrive in their order, brokers answer at once unless they are in `slow`; what is between
    two gateways in `cut` is lost. A broker keeps what its gateway has not acknowledged.
    """

    def __init__(self, *names: GatewayId) -> None:
        self.names = names
        self.now = 0.0
        self.cut: set[tuple[GatewayId, GatewayId]] = set()
        self.slow: set[GatewayId] = set()
        self.unanswered: dict[GatewayId, list[int]] = {name: [] for name in names}
        self.delivered: list[bytes] = []
        self.waiting: list[tuple[GatewayId, Event]] = []
        self.epochs = dict.fromkeys(names, 0)
        self.nodes: dict[GatewayId, Node] = {}
        self.done: list[int] = []
        self.receipts = 0
        self.answers_fences = True
        self.wakes: dict[GatewayId, float] = {}
        for name in names:
            self.start(name)
        self.pass_time(6.0)

    def start(self, name: GatewayId) -> None:
        self.epochs[name] += 1
        place = self.names.index(name)
        neighbours = self.names[max(0, place - 1) : place] + self.names[place + 1 : place + 2]
        ways = {each: self.names[place + 1 : place + 1 + hops] for hops, each in enumerate(self.names[place + 1 :], 1)}
        ways |= {each: self.names[index:place][::-1] for index, each in enumerate(self.names[:place])}
        opens = self.names[-1:] if place == 0 else ()
        self.nodes[name] = Node(
            NodeParts(
                gateway=name,
                epoch=self.epochs[name],
                neighbours=neighbours,
                matcher=ScanMatcher(),
                overlay=WaysOverlay(name, neighbours, ways, opens),
                codecs=parts_of().codecs,
                peers=[each for each in self.names if each != name],
            ),
            self.now,
        )
        self.wakes.pop(name, None)
        self.unanswered[name] = []
        self.happen(name, Started())
        for neighbour in neighbours:
            self.happen(name, LinkConnected(neighbour=neighbour))
        if name == self.names[-1]:
            wishes = {"one": Wish(topics="a/#", where="")}
            self.happen(name, RecordReceived(client=ANN, data=encode_record(Record(subscriptions=wishes))))
        self.happen(name, RecordsRead())

    def happen(self, name: GatewayId, event: Event) -> None:
        self.waiting.append((name, event))

    def run(self) -> None:
        while self.waiting:
            name, event = self.waiting.pop(0)
            for effect in self.nodes[name].handle(event, self.now):
                self.carry_out(name, effect)
            self.nodes[name].check()

    def carry_out(self, name: GatewayId, effect: Effect) -> None:
        match effect:
            case SendFrame() if (name, effect.neighbour) not in self.cut:
                frames = FramesReceived(sender=name, frames=(effect.frame,), urgent=effect.urgent)
                self.happen(effect.neighbour, frames)
            case SendAck() if (effect.neighbour, name) not in self.cut:
                self.happen(effect.neighbour, AcksReceived(neighbour=name, acks=(effect.ack,)))
            case OpenLink() if (name, effect.neighbour) not in self.cut:
                self.happen(name, LinkConnected(neighbour=effect.neighbour))
            case PublishLocally():
                self.publish_locally(name, effect)
            case PublishFence() if self.answers_fences:
                self.happen(name, FencePassed(number=effect.number))
            case Acknowledge():
                self.done += effect.receipts
            case WakeAt():
                self.wakes[name] = effect.at

    def publish_locally(self, name: GatewayId, effect: PublishLocally) -> None:
        if "/park/" in effect.topic:
            peer = GatewayId(effect.topic.rsplit("/", 1)[1])
            self.receipts += 1
            self.happen(
                name, ParkedReceived(neighbour=peer, messages=(Parked(data=effect.payload, receipt=self.receipts),))
            )
        elif "/out/" in effect.topic and name not in self.slow:
            self.delivered.append(effect.payload)
        if effect.number and name in self.slow and "/out/" in effect.topic:
            self.unanswered[name].append(effect.number)
        elif effect.number:
            self.happen(name, LocallyPublished(numbers=(effect.number,)))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        self.run()
        while self.wakes and min(self.wakes.values()) <= end:
            name = min(self.wakes, key=lambda each: self.wakes[each])
            self.now = max(self.now, self.wakes.pop(name))
            self.happen(name, Woke())
            self.run()
        self.now = end

    def publish(self, payload: bytes, receipt: int, *, again: bool = False) -> None:
        incoming = Incoming(topic="a/b", payload=payload, qos=1, receipt=receipt, packet=receipt, again=again)
        self.happen(self.names[0], PublishesReceived(publications=(incoming,)))
        self.run()

    @property
    def first(self) -> Node:
        return self.nodes[self.names[0]]


ONE, TWO, THREE = (GatewayId(name) for name in ("ONE", "TWO", "THREE"))


def three() -> Chain:
    chain = Chain(ONE, TWO, THREE)
    assert chain.first._soft_links.states() == {THREE: SoftState.UP}
    return chain


def test_joined_it_is_acknowledged_upstream_only_after_the_far_gateway_delivered() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    assert chain.nodes[TWO].counters.total("publications_received") == 0
    assert chain.nodes[THREE].counters.total("publications_received") == 1
    assert chain.done == []
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(1.0)
    assert chain.done == [1]


def test_joined_a_soft_link_that_breaks_loses_nothing_and_doubles_nothing() -> None:
    chain = three()
    chain.publish(b"0", 1)
    chain.cut.add((ONE, THREE))
    chain.publish(b"1", 2)
    chain.pass_time(2.0)
    assert chain.done == [1]
    chain.happen(ONE, LinkLost(neighbour=THREE))
    chain.pass_time(2.0)
    assert chain.done == [1, 2]
    assert Counter(chain.delivered) == {b"0": 1, b"1": 1}
    chain.cut.clear()
    chain.happen(ONE, LinkConnected(neighbour=THREE))
    chain.pass_time(5.0)
    chain.publish(b"2", 3)
    chain.pass_time(1.0)
    assert Counter(chain.delivered) == {b"0": 1, b"1": 1, b"2": 1}
    assert chain.nodes[TWO].counters.total("publications_received") == 1
    assert not any(node.holdings().duties for node in chain.nodes.values())


def test_joined_only_the_acknowledgements_are_lost_and_nothing_comes_twice() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.happen(ONE, LinkLost(neighbour=THREE))  # what we sent has come, but we shall not hear of it
    chain.pass_time(1.0)
    assert chain.nodes[THREE].counters.total("duplicates") == 1
    assert chain.done == []  # the second way waits for THREE as the first did
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(1.0)
    assert chain.done == [1]
    assert len(chain.unanswered[THREE]) == 1


def test_joined_a_receiver_that_crashes_after_its_sender_gave_the_link_up_is_sent_it_again() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.happen(ONE, LinkLost(neighbour=THREE))
    chain.pass_time(1.0)
    chain.slow.clear()  # what its broker did not get is lost with it
    chain.start(THREE)
    chain.pass_time(40.0)
    assert chain.done == [1]
    assert chain.delivered == [b"0"]


@pytest.mark.parametrize("noticed", [False, True])
def test_joined_a_receiver_that_restarts_is_sent_it_again_and_the_link_stands_once_more(noticed: bool) -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.slow.clear()
    chain.start(THREE)
    if noticed:
        chain.happen(ONE, LinkLost(neighbour=THREE))
        chain.happen(ONE, LinkConnected(neighbour=THREE))
    chain.pass_time(40.0)
    assert chain.done == [1]
    assert chain.delivered == [b"0"]
    assert chain.first._soft_links.states() == {THREE: SoftState.UP}
    chain.publish(b"1", 2)
    chain.pass_time(1.0)
    assert chain.delivered == [b"0", b"1"]


def test_joined_a_sender_that_restarts_and_goes_another_way_waits_for_the_receiver_too() -> None:
    chain = three()
    chain.slow.add(THREE)
    chain.publish(b"0", 1)
    chain.pass_time(1.0)
    chain.cut.add((ONE, THREE))
    chain.answers_fences = False  # its broker sends again what was not acknowledged, before it answers anything
    chain.start(ONE)
    chain.pass_time(6.0)
    chain.publish(b"0", 1, again=True)
    chain.pass_time(2.0)
    assert chain.nodes[TWO].counters.total("publications_received") == 1
    assert chain.done == []
    chain.happen(THREE, LocallyPublished(numbers=tuple(chain.unanswered[THREE])))
    chain.pass_time(2.0)
    assert chain.done == [1]
    assert len(chain.unanswered[THREE]) == 1
