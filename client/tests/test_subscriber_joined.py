"""A subscriber back to back with a real node, through a broker in miniature."""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from mqloom.client.limits import ASK_AGAIN_S, LEASE_S
from mqloom.client.states import State
from mqloom.client.subscriber import Subscriber
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Effect,
    Event,
    Finished,
    MessageReceived,
    Publish,
    Subscribe,
    Tell,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core import effects as gateway_effects
from mqloom.core import events as gateway_events
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.publication import Incoming
from mqloom.core.records import (
    Record,
    Status,
    Wish,
    encode_status,
)
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Codec
from mqloom.gateway.node import Node, NodeParts
from mqloom.plugins import json_codec
from mqloom.plugins.scan_matcher import ScanMatcher
from mqloom.plugins.tree_overlay import TreeOverlay

EDGE = GatewayId("EDGE1")
ME = ClientId("me")
HOT = Wish(topics="stocks/#", where="volume > 300000")
ALL = Wish(topics="stocks/#")
RECORD = "mqloom/v1/EDGE1/sub/me"
OUT = "mqloom/v1/EDGE1/out/me"
CTL = "mqloom/v1/EDGE1/ctl/me"
STATUS = "mqloom/v1/EDGE1/status"


class Broker:
    """The least broker: one subscriber, one gateway, retained messages, and a clock for both."""

    def __init__(self) -> None:
        self.now = 0.0
        self.retained: dict[str, bytes] = {}
        self.subscriptions: list[str] = []
        self.shown: list[Effect] = []
        self.subscriber = Subscriber(ME, {"hot": HOT, "bad": Wish(topics="stocks/#", where="volume >")})
        self._epochs = itertools.count(1)
        self._pending: deque[tuple[str, bytes]] = deque()
        self._is_busy = False
        self._wakings: dict[str, float] = {}
        self.start_gateway()

    def start_gateway(self) -> None:
        self.epoch = next(self._epochs)
        self.node = Node(
            NodeParts(
                gateway=EDGE,
                epoch=self.epoch,
                neighbours=[],
                matcher=ScanMatcher(),
                overlay=TreeOverlay(EDGE, []),
                codecs=[("#", Codec("json", json_codec.decode))],
            ),
            self.now,
        )
        self.to_node(gateway_events.Started())
        self.to_node(gateway_events.RecordsRead())
        for topic, payload in list(self.retained.items()):
            self.hand_to_node(topic, payload)
        self.say_status(alive=True)

    def say_status(self, *, alive: bool) -> None:
        status = Status(alive=alive, gateway=EDGE, version="0.1.0", epoch=self.epoch)
        self.publish(STATUS, encode_status(status), retain=True)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Hand a message to both, after those before it, and after what these cause."""
        if retain:
            self.retained[topic] = payload
            if not payload:
                del self.retained[topic]
        self._pending.append((topic, payload))
        self.pump()

    def pump(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        while self._pending:
            topic, payload = self._pending.popleft()
            if any(topic_matches(text, topic) for text in self.subscriptions):
                self._carry_out(self.subscriber.handle(MessageReceived(topic=topic, payload=payload), self.now))
            self.hand_to_node(topic, payload)
        self._is_busy = False

    def hand_to_node(self, topic: str, payload: bytes) -> None:
        if topic_matches(layout.records(EDGE), topic):
            self.to_node(gateway_events.RecordReceived(client=layout.record_client(EDGE, topic), data=payload))
        elif not topic.startswith(layout.RESERVED):
            self.to_node(
                gateway_events.PublishesReceived(publications=(Incoming(topic=topic, payload=payload, qos=1),))
            )

    def to_node(self, event: gateway_events.Event) -> None:
        for effect in self.node.handle(event, self.now):
            match effect:
                case gateway_effects.PublishLocally():
                    self.publish(effect.topic, effect.payload, retain=effect.retain)
                case gateway_effects.WakeAt():
                    self._wakings["node"] = effect.at

    def to_subscriber(self, event: Event) -> None:
        self._carry_out(self.subscriber.handle(event, self.now))
        self.pump()
        self.subscriber.check()
        self.node.check()

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Subscribe():
                    self.subscriptions.append(effect.topic)
                    found = [each for each in self.retained.items() if topic_matches(effect.topic, each[0])]
                    self._pending.extend(found)
                case Publish():
                    self.publish(effect.topic, effect.payload, retain=effect.retain)
                case WakeAt():
                    self._wakings["subscriber"] = effect.at
                case _:
                    self.shown.append(effect)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self._wakings and min(self._wakings.values()) <= end:
            who = min(self._wakings, key=lambda each: self._wakings[each])
            self.now = max(self.now, self._wakings.pop(who))
            if who == "node":
                self.to_node(gateway_events.Woke())
            else:
                self.to_subscriber(Woke())
        self.now = end

    def delivered(self) -> list[int]:
        deliveries = [effect for effect in self.shown if isinstance(effect, Deliver)]
        return [msgspec.json.decode(each.publication.payload)["volume"] for each in deliveries]

    def told(self) -> list[tuple[str, str]]:
        return [(effect.answer.answer, effect.answer.name) for effect in self.shown if isinstance(effect, Tell)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.subscriber.check()
    broker.node.check()


def offer(broker: Broker, *volumes: int) -> None:
    for volume in volumes:
        broker.publish("stocks/YHOO", msgspec.json.encode({"volume": volume}))


def test_with_a_gateway_it_gets_what_it_asked_for_and_nothing_else(broker: Broker) -> None:
    broker.to_subscriber(Connected())
    assert sorted(broker.told()) == [("established", "hot"), ("refused", "bad")]
    offer(broker, 300_000, 300_001, 5, 400_000)
    assert broker.delivered() == [300_001, 400_000]


def test_with_a_gateway_the_subscriptions_live_as_long_as_they_are_renewed(broker: Broker) -> None:
    broker.to_subscriber(Connected())
    broker.pass_time(10 * LEASE_S)
    offer(broker, 400_000)
    assert broker.delivered() == [400_000]


def test_with_a_gateway_the_subscriptions_of_a_dead_client_end_with_their_lease(broker: Broker) -> None:
    broker.to_subscriber(Connected())
    broker.to_subscriber(ConnectionLost())
    broker.subscriptions.clear()
    broker.pass_time(LEASE_S + 1)
    assert broker.node.subscription_counts() == (0, 0)
    broker.to_subscriber(Connected())
    offer(broker, 400_000)
    assert broker.delivered() == [400_000]


def test_with_a_gateway_that_restarts_it_is_served_again(broker: Broker) -> None:
    broker.to_subscriber(Connected())
    broker.say_status(alive=False)
    broker.start_gateway()
    offer(broker, 400_000)
    assert broker.delivered() == [400_000]
    assert broker.told().count(("established", "hot")) == 2


def test_with_a_gateway_closing_leaves_nothing_behind(broker: Broker) -> None:
    broker.to_subscriber(Connected())
    broker.to_subscriber(CloseRequested())
    assert broker.shown[-1] == Finished()
    assert broker.node.subscription_counts() == (0, 0)
    assert list(broker.retained) == [STATUS]
    offer(broker, 400_000)
    assert broker.delivered() == []


def test_with_a_gateway_a_filter_changed_under_the_same_name_is_settled(broker: Broker) -> None:
    """The gateway then says `established` for the new filter and `ended` for the old, both by the same name."""
    old = Record(subscriptions={"hot": ALL}, format="frame", lease_s=LEASE_S)
    broker.publish(RECORD, msgspec.json.encode(old), retain=True)
    broker.to_subscriber(Connected())
    broker.pass_time(ASK_AGAIN_S)
    assert broker.subscriber.state is State.SERVED
    offer(broker, 5, 400_000)
    assert broker.delivered() == [400_000]


def test_with_a_gateway_subscriptions_come_and_go_without_disturbing_the_others(broker: Broker) -> None:
    broker.subscriber = Subscriber(ME, {}, lasting=True)
    broker.to_subscriber(Connected())
    broker.to_subscriber(WishAdded(name="hot", wish=HOT))
    offer(broker, 5, 400_000)
    broker.to_subscriber(WishAdded(name="all", wish=ALL))
    broker.pass_time(1.0)
    offer(broker, 6, 400_001)
    broker.to_subscriber(WishRemoved(name="all"))
    broker.pass_time(1.0)
    offer(broker, 7, 400_002)
    broker.to_subscriber(WishRemoved(name="hot"))
    broker.pass_time(1.0)
    offer(broker, 8, 400_003)
    assert broker.delivered() == [400_000, 6, 400_001, 400_002]
    expected = [("established", "hot"), ("established", "all"), ("ended", "all"), ("ended", "hot")]
    assert broker.told() == expected
    assert broker.node.subscription_counts() == (0, 0)
    assert RECORD not in broker.retained
