"""The MQTT connection against a real embedded broker."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field

import pytest

from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.plugins.amqtt_adapter import AmqttAdapter

pytestmark = pytest.mark.parametrize("client", MQTT_CLIENTS)

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})


def free_address() -> BrokerAddress:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return BrokerAddress("127.0.0.1", probe.getsockname()[1])


@asynccontextmanager
async def broker(address: BrokerAddress) -> AsyncIterator[None]:
    adapter = AmqttAdapter(address)
    await adapter.start()
    try:
        yield
    finally:
        await adapter.stop()


@dataclass
class Peer:
    """A connection, and what has happened to it."""

    connection: Connection
    up: asyncio.Event = field(default_factory=asyncio.Event)
    down: list[str] = field(default_factory=list)
    batches: list[list[Received]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    pruned: list[bool] = field(default_factory=list)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for batch in self.batches for message in batch]


def connect(client: str, address: BrokerAddress, name: str, *topics: str) -> Peer:
    peer: Peer

    def up() -> None:
        peer.up.set()

    def down(problem: str) -> None:
        peer.down.append(problem)

    def messages(batch: list[Received]) -> None:
        peer.batches.append(batch)

    def dropped(reason: str) -> None:
        peer.dropped.append(reason)

    plan = ConnectionPlan(
        address=address,
        client_id=name,
        clean_session=True,
        subscriptions=[TopicSubscription(topic, 1) for topic in topics],
        on_messages=messages,
        on_up=up,
        on_down=down,
        on_drop=dropped,
        on_pruned=lambda: peer.pruned.append(True),
    )
    peer = Peer(MQTT_CLIENTS[client](plan, LOG))
    peer.connection.open()
    return peer


async def until(condition: object, timeout_s: float = 10) -> None:
    assert callable(condition)
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def test_messages_arrive_in_order_and_in_batches(client: str) -> None:
    async def run() -> None:
        address = free_address()
        async with broker(address):
            receiver, sender = connect(client, address, "receiver", "a/#"), connect(client, address, "sender")
            await receiver.up.wait()
            await sender.up.wait()
            for number in range(300):
                assert sender.connection.publish("a/b", str(number).encode(), 1)
            await until(lambda: len(receiver.payloads) >= 300)
            assert receiver.payloads == [str(number).encode() for number in range(300)]
            await receiver.connection.close()
            await sender.connection.close()

    asyncio.run(run())


def test_a_broker_that_comes_late_is_found_and_what_waited_is_sent(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        address = free_address()
        sender = connect(client, address, "sender")
        await until(lambda: "does not answer" in caplog.text)
        assert not sender.connection.is_up
        assert sender.connection.publish("a/b", b"waits", 1)
        assert not sender.connection.publish("a/b", b"does not wait", 0)
        assert sender.dropped == ["not connected"]
        async with broker(address):
            receiver = connect(client, address, "receiver", "a/#")
            await receiver.up.wait()
            await sender.up.wait()
            await until(lambda: receiver.payloads == [b"waits"])
            await receiver.connection.close()
            await sender.connection.close()

    asyncio.run(run())


def test_what_is_not_subscribed_to_any_more_comes_no_more_and_all_else_without_a_break(client: str) -> None:
    async def run() -> None:
        address = free_address()
        async with broker(address):
            receiver, sender = connect(client, address, "receiver", "a/#", "b"), connect(client, address, "sender")
            await receiver.up.wait()
            await sender.up.wait()
            receiver.connection.resubscribe([TopicSubscription("c", 1), TopicSubscription("a/b", 1)])

            def is_changed() -> bool:
                sender.connection.publish("c", b"new", 1)
                return b"new" in receiver.payloads

            await until(is_changed)
            await until(lambda: receiver.pruned == [True])
            for topic, payload in (("b", b"gone"), ("a/x", b"gone"), ("a/b", b"stays"), ("c", b"last")):
                sender.connection.publish(topic, payload, 1)
            await until(lambda: receiver.payloads[-1] == b"last")
            assert [each for each in receiver.payloads if each != b"new"] == [b"stays", b"last"]
            assert receiver.down == []
            await receiver.connection.close()
            await sender.connection.close()

    asyncio.run(run())


def test_a_broker_that_goes_away_is_noticed(client: str) -> None:
    async def run() -> None:
        address = free_address()
        async with broker(address):
            peer = connect(client, address, "peer", "a/#")
            await peer.up.wait()
        await until(lambda: bool(peer.down))
        assert not peer.connection.is_up
        await peer.connection.close()

    asyncio.run(run())


def test_a_topic_that_mqtt_does_not_allow_is_dropped_and_told(client: str) -> None:
    async def run() -> None:
        peer = connect(client, free_address(), "peer")
        assert not peer.connection.publish("a/#", b"", 1)
        assert peer.dropped == ["invalid"]
        await peer.connection.close()

    asyncio.run(run())


def test_the_queue_of_a_connection_that_is_not_up_is_bounded(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.LINK_QUEUE_MAX", 5)

    async def run() -> None:
        peer = connect(client, free_address(), "peer")
        taken = [peer.connection.publish("a", b"", 1) for _ in range(200)]
        assert 0 < sum(taken) < 200
        assert set(peer.dropped) == {"queue full"}
        await peer.connection.close()

    asyncio.run(run())


def test_a_slow_reader_makes_the_broker_wait_and_loses_nothing(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.backlog.DRIVER_BACKLOG_MAX", 10)
    monkeypatch.setattr("mqloom.gateway.drivers.backlog.DRIVER_BATCH_MAX", 3)

    async def run() -> None:
        address = free_address()
        async with broker(address):
            receiver, sender = connect(client, address, "receiver", "a"), connect(client, address, "sender")
            await receiver.up.wait()
            await sender.up.wait()
            for number in range(100):
                sender.connection.publish("a", str(number).encode(), 1)
            await until(lambda: len(receiver.payloads) >= 100)
            assert receiver.payloads == [str(number).encode() for number in range(100)]
            assert max(len(batch) for batch in receiver.batches) <= 3
            await receiver.connection.close()
            await sender.connection.close()

    asyncio.run(run())


def test_what_waited_while_paused_comes_behind_whoever_resumes(client: str) -> None:
    async def scenario() -> None:
        address = free_address()
        async with broker(address):
            reader, writer = connect(client, address, "reader", "stocks/#"), connect(client, address, "writer")
            await until(lambda: reader.up.is_set() and writer.up.is_set())
            reader.connection.pause()
            writer.connection.publish("stocks/a", b"1", 1)
            await until(lambda: len(reader.connection._backlog) == 1)  # type: ignore[attr-defined]
            reader.connection.resume()
            assert reader.payloads == []  # the effects of the event at hand are carried out first
            await until(lambda: reader.payloads == [b"1"])
            await reader.connection.close()
            await writer.connection.close()

    asyncio.run(scenario())
