"""The broker model against what was measured of Mosquitto, and what MQTT says."""

import random

import pytest

from mqloom.lab.broker_model import Broker, BrokerSettings
from mqloom.lab.clock import Clock
from mqloom.lab.network import Connection, Path, Quality, Traffic
from mqloom.lab.packets import Connack, Connect, Disconnect, Packet, Puback, Publish, Suback, Subscribe


class Party:
    """A client that does only what it is told."""

    def __init__(self, bench: "Bench", client_id: str, *, clean: bool = False, will: Publish | None = None) -> None:
        self.bench = bench
        self.received: list[Packet] = []
        self.is_lost = False
        self.connection = Connection(bench.clock, bench.path, self, bench.broker, Traffic())
        self.send(Connect(client_id, clean, will))

    def receive(self, connection: Connection, packets: list[Packet]) -> None:
        self.received += packets

    def lose(self, connection: Connection) -> None:
        self.is_lost = True

    def send(self, *packets: Packet) -> None:
        for packet in packets:
            self.connection.to_broker.send(packet)
        self.bench.clock.run(self.bench.clock.now + 1)

    def subscribe(self, topics: str, qos: int = 1) -> None:
        self.send(Subscribe(1, ((topics, qos),)))

    def messages(self) -> list[Publish]:
        return [packet for packet in self.received if isinstance(packet, Publish)]

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages()]

    def drop(self) -> None:
        self.connection.break_off(0.0, 0.0)
        self.bench.clock.run(self.bench.clock.now + 1)


class Bench:
    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.clock = Clock()
        self.broker = Broker("B", self.clock, settings)
        self.path = Path("path", Quality(), random.Random(1))

    def party(self, client_id: str, *, clean: bool = False, will: Publish | None = None) -> Party:
        return Party(self, client_id, clean=clean, will=will)

    def publish(self, topic: str, *payloads: str, qos: int = 1, retain: bool = False) -> None:
        for payload in payloads:
            self.broker.publish(Publish(topic, payload.encode(), qos, retain))
        self.clock.run(self.clock.now + 1)

    def restart(self, *, with_store: bool) -> None:
        self.broker.stop(lambda: 0.0)
        self.clock.run(self.clock.now + 1)
        self.broker.start(with_store=with_store)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_a_publisher_is_acknowledged_and_a_subscriber_served(bench: Bench) -> None:
    subscriber = bench.party("s")
    subscriber.subscribe("a/+")
    publisher = bench.party("p")
    publisher.send(Publish("a/b", b"1", 1, False, 7), Publish("x", b"2", 1, False, 8))
    assert publisher.received == [Connack(False), Puback((7, 8))]
    assert subscriber.received == [Connack(False), Suback(1), Publish("a/b", b"1", 1, False, 1)]


def test_overlapping_filters_give_a_message_once_at_the_higher_qos(bench: Bench) -> None:
    subscriber = bench.party("s")
    subscriber.subscribe("a/#", 0)
    subscriber.subscribe("a/+", 1)
    bench.publish("a/b", "1")
    assert [(m.payload, m.qos) for m in subscriber.messages()] == [(b"1", 1)]


def test_the_window_bounds_what_is_in_flight_and_queued_messages_follow_in_order(bench: Bench) -> None:
    subscriber = bench.party("s")
    subscriber.subscribe("a")
    bench.publish("a", *numbers(25))
    assert [m.packet for m in subscriber.messages()] == list(range(1, 21))
    bench.publish("a", "urgent", qos=0)
    assert subscriber.payloads()[-1] == b"urgent"  # QoS 0 passes a full window
    subscriber.send(Puback((1, 2, 3)))
    assert [m.packet for m in subscriber.messages()[-3:]] == [21, 22, 23]
    bench.broker.check()


def test_acknowledgements_out_of_order_are_tolerated(bench: Bench) -> None:
    subscriber = bench.party("s")
    subscriber.subscribe("a")
    bench.publish("a", *numbers(3))
    subscriber.send(Puback((3, 1)))
    assert list(bench.broker.sessions["s"].in_flight) == [2]


def test_after_a_drop_the_unacknowledged_come_again_with_the_same_packet_ids_and_dup_then_the_rest(
    bench: Bench,
) -> None:
    first = bench.party("s")
    first.subscribe("a")
    bench.publish("a", *numbers(3))
    first.send(Puback((1,)))
    first.drop()
    bench.publish("a", "3")
    bench.publish("a", "not kept", qos=0)
    second = bench.party("s")
    assert second.received[0] == Connack(True)
    again = [(m.packet, m.payload, m.again) for m in second.messages()]
    assert again == [(2, b"1", True), (3, b"2", True), (4, b"3", False)]


def test_packet_ids_count_up_around_and_pass_over_those_in_flight(bench: Bench) -> None:
    subscriber = bench.party("s")
    subscriber.subscribe("a")
    bench.publish("a", "kept")
    bench.broker.sessions["s"]._packet = 65_534
    bench.publish("a", "x", "y")
    assert [m.packet for m in subscriber.messages()] == [1, 65_535, 2]


def test_a_clean_session_keeps_nothing(bench: Bench) -> None:
    first = bench.party("s", clean=True)
    first.subscribe("a")
    first.drop()
    bench.publish("a", "1")
    second = bench.party("s", clean=True)
    assert second.received == [Connack(False)]


def test_connecting_clean_makes_the_broker_forget_a_session(bench: Bench) -> None:
    first = bench.party("s")
    first.subscribe("a")
    first.send(Disconnect())
    bench.party("s", clean=True).send(Disconnect())
    assert not bench.broker.sessions


def test_retained_messages_are_replayed_at_every_subscription_also_on_a_resumed_session(bench: Bench) -> None:
    bench.publish("r/1", "old", retain=True)
    bench.publish("r/1", "new", retain=True)
    bench.publish("r/2", "gone", retain=True)
    bench.publish("r/2", "", retain=True)
    subscriber = bench.party("s")
    subscriber.subscribe("r/+")
    subscriber.subscribe("r/+")
    assert [(m.payload, m.retain) for m in subscriber.messages()] == [(b"new", True), (b"new", True)]
    bench.publish("r/1", "live", retain=True)
    assert not subscriber.messages()[-1].retain


def test_a_queue_limit_drops_what_its_publisher_was_told_is_kept() -> None:
    bench = Bench(BrokerSettings(queue_max=1_000))
    subscriber = bench.party("s")
    subscriber.subscribe("a")
    subscriber.drop()
    bench.publish("a", *numbers(5_000))
    assert len(bench.broker.sessions["s"].held()) == 1_000
    assert bench.broker.dropped() == 4_000
    bench.broker.check()


def test_the_last_will_is_handed_out_when_a_connection_breaks_but_not_when_it_is_left(bench: Bench) -> None:
    watcher = bench.party("w")
    watcher.subscribe("will")
    for client_id in "ab":
        bench.party(client_id, will=Publish("will", client_id.encode(), 1, True))
    bench.party("c", will=Publish("will", b"c", 1)).send(Disconnect())
    bench.party("d", will=Publish("will", b"d", 1)).drop()
    assert watcher.payloads() == [b"d"]


def test_a_later_connection_takes_a_session_over(bench: Bench) -> None:
    first = bench.party("s", will=Publish("will", b"", 1))
    first.subscribe("a")
    second = bench.party("s")
    assert first.is_lost
    bench.publish("a", "1")
    assert (first.payloads(), second.payloads()) == ([], [b"1"])
    first.connection.is_broken = False
    bench.broker.receive(first.connection, [Subscribe(2, (("b", 1),)), Puback((1,))])
    assert list(bench.broker.sessions["s"].in_flight) == [1]
    assert "b" not in bench.broker.sessions["s"].subscriptions


def test_a_restart_with_its_store_keeps_sessions_in_flight_queues_and_retained(bench: Bench) -> None:
    first, watcher = bench.party("s"), bench.party("w", clean=True)
    first.subscribe("a")
    bench.publish("a", *numbers(22))
    bench.publish("r", "kept", retain=True)
    bench.restart(with_store=True)
    assert first.is_lost
    assert watcher.is_lost
    assert list(bench.broker.sessions) == ["s"]
    second = bench.party("s")
    assert [m.packet for m in second.messages()] == list(range(1, 21))
    assert all(m.again for m in second.messages())
    second.subscribe("r")
    assert not bench.broker.losses


def test_a_restart_without_its_store_lists_what_it_lost_and_what_it_then_misses(bench: Bench) -> None:
    first = bench.party("s")
    first.subscribe("a")
    bench.publish("a", "1")
    bench.publish("r", "kept", retain=True)
    bench.restart(with_store=False)
    assert not bench.broker.retained
    bench.publish("a", "2")
    second = bench.party("s")
    assert second.received == [Connack(False)]
    second.subscribe("a")
    bench.publish("a", "3")
    assert second.payloads() == [b"3"]
    assert [(loss.client_id, loss.message.payload) for loss in bench.broker.losses] == [("s", b"1"), ("s", b"2")]


def test_a_broker_that_is_down_accepts_nobody(bench: Bench) -> None:
    bench.broker.stop(lambda: 0.0)
    party = bench.party("s")
    assert party.is_lost
    assert not party.received
