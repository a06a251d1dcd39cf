"""What custody needs of a connection, against a broker that is played by hand, packet by packet."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.protocols import MQTT_3, QUESTION
from mqloom.gateway.interfaces import BrokerAddress

pytestmark = pytest.mark.parametrize("client", MQTT_CLIENTS)

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})


class HandBroker:
    """Speaks 3.1.1, acknowledges nothing by itself, and shows what it was sent; `writer` is the connection at hand."""

    def __init__(self) -> None:
        self.published: list[Received] = []
        self.acknowledged: list[int] = []
        self.connections = 0
        self.has_session = True
        self.answers_subscribe = True
        self.writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = packets.Splitter()
        try:
            while data := await reader.read(65_536):
                if data == QUESTION:
                    writer.write(b"\x20\x02\x00\x01")
                    break
                for first, body in splitter.feed(data):
                    self._answer(first, body, writer)
        except ConnectionError:
            pass
        writer.close()

    def _answer(self, first: int, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind = first & 0xF0
        if kind == 0x10:
            self.connections += 1
            self.writer = writer
            writer.write(bytes((0x20, 2, self.has_session, 0)))
        elif kind == 0x80 and self.answers_subscribe:
            writer.write(b"\x90\x03" + body[:2] + b"\x01")
        elif kind == packets.PUBLISH:
            self.published.append(packets.read_publish(first, body, MQTT_3, 0))
        elif kind == packets.PUBACK:
            self.acknowledged.append(packets.read_puback(body)[0])

    def deliver(self, *numbers: int) -> None:
        """Send messages of QoS 1, their packet ids being their payloads."""
        assert self.writer is not None
        for number in numbers:
            self.writer.write(
                packets.publish(packets.PUBLISH | 2, packets.topic_bytes("a"), number, b"", str(number).encode())
            )

    def cut(self) -> None:
        assert self.writer is not None
        self.writer.transport.abort()


class Story:
    """A connection to a broker that is played by hand, and what has come by it."""

    def __init__(self, client: str, port: int, broker: HandBroker) -> None:
        self.broker = broker
        self.received: list[Received] = []
        self.broken = 0
        self.up = 0
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id="us",
            clean_session=False,
            subscriptions=[TopicSubscription("a", 1)],
            on_messages=self.received.extend,
            on_up=self._rose,
            on_down=lambda problem: None,
            on_broken=self._broke,
            acknowledges=False,
        )
        self.connection: Connection = MQTT_CLIENTS[client](plan, LOG)
        self.connection.open()

    def _rose(self) -> None:
        self.up += 1

    def _broke(self) -> None:
        self.broken += 1

    async def reconnect(self) -> None:
        before = self.up
        self.broker.cut()
        await until(lambda: self.up > before)


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def story(client: str) -> AsyncIterator[Story]:
    broker = HandBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        one = Story(client, server.sockets[0].getsockname()[1], broker)
        try:
            await until(lambda: one.up == 1)
            yield one
        finally:
            await one.connection.close()
            if broker.writer is not None:
                broker.writer.close()
            await asyncio.sleep(0.05)


def run(client: str, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Story], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with story(client) as one:
            await scenario(one)

    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MIN", 0.02)
    monkeypatch.setattr("mqloom.gateway.drivers.kept_connection.LEAVE_S_MAX", 0.05)
    asyncio.run(whole())


def test_acknowledgements_leave_when_they_are_given_and_in_that_order(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(one: Story) -> None:
        one.broker.deliver(1, 2, 3)
        await until(lambda: len(one.received) == 3)
        assert one.broker.acknowledged == []
        one.connection.acknowledge([one.received[2].token])
        one.connection.acknowledge([one.received[0].token, one.received[1].token])
        await until(lambda: len(one.broker.acknowledged) == 3)
        assert one.broker.acknowledged == [3, 1, 2]

    run(client, monkeypatch, scenario)


def test_many_acknowledgements_at_once_hold_nobody_back(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.LINK_QUEUE_MAX", 4)

    async def scenario(one: Story) -> None:
        one.broker.deliver(*range(1, 51))
        await until(lambda: len(one.received) == 50)
        one.connection.acknowledge([message.token for message in one.received])
        assert not one.connection.is_crowded  # whoever pauses now is never told of room: nothing was published
        await until(lambda: len(one.broker.acknowledged) == 50)

    run(client, monkeypatch, scenario)


def test_an_acknowledgement_of_an_earlier_connection_is_discarded(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(one: Story) -> None:
        one.broker.deliver(1)
        await until(lambda: len(one.received) == 1)
        await one.reconnect()
        assert one.broken >= 1
        one.broker.deliver(1)
        await until(lambda: len(one.received) == 2)
        one.broker.deliver(2)
        await until(lambda: len(one.received) == 3)
        one.connection.acknowledge([one.received[0].token])
        one.connection.acknowledge([one.received[0].token, one.received[2].token])
        await until(lambda: bool(one.broker.acknowledged))
        assert one.broker.acknowledged == [2]

    run(client, monkeypatch, scenario)


def test_a_session_that_was_lost_is_told_also_if_the_first_connection_without_it_came_to_nothing(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(one: Story) -> None:
        assert one.connection.is_resumed
        one.broker.has_session = one.broker.answers_subscribe = False
        one.broker.cut()
        await until(lambda: one.broker.connections == 2)
        one.broker.has_session = one.broker.answers_subscribe = True
        await one.reconnect()
        assert not one.connection.is_resumed
        await one.reconnect()
        assert one.connection.is_resumed

    run(client, monkeypatch, scenario)


def test_what_was_not_acknowledged_is_sent_again_and_marked_and_in_order(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(one: Story) -> None:
        done: list[int] = []
        for number in range(3):
            one.connection.publish("a", str(number).encode(), 1, then=lambda number=number: done.append(number))  # type: ignore[misc]
        await until(lambda: len(one.broker.published) == 3)
        assert one.broker.writer is not None
        one.broker.writer.write(packets.puback(one.broker.published[0].token[1]))
        await until(lambda: done == [0])
        await one.reconnect()
        await until(lambda: len(one.broker.published) == 5)
        again = one.broker.published[3:]
        assert [(each.payload, each.again) for each in again] == [(b"1", True), (b"2", True)]
        for each in again:
            one.broker.writer.write(packets.puback(each.token[1]))
        await until(lambda: done == [0, 1, 2])

    run(client, monkeypatch, scenario)


def test_a_broker_that_allows_less_than_before_is_not_sent_more(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(one: Story) -> None:
        for number in range(10):
            one.connection.publish("a", str(number).encode(), 1)
        await until(lambda: len(one.broker.published) == 10)
        name = "PAHO_IN_FLIGHT_MAX" if client == "paho" else "IN_FLIGHT_MAX"
        monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.{name}", 3)
        await one.reconnect()
        sent_again = 3 if client == "asyncio" else 10  # paho sends everything again by itself
        await until(lambda: len(one.broker.published) == 10 + sent_again)
        await asyncio.sleep(0.05)
        assert [each.payload for each in one.broker.published[10:]] == [b"%d" % number for number in range(sent_again)]
        assert one.broker.writer is not None
        for place in range(10, 20):
            await until(lambda place=place: len(one.broker.published) > place)  # type: ignore[misc]
            one.broker.writer.write(packets.puback(one.broker.published[place].token[1]))
        assert [each.payload for each in one.broker.published[10:]] == [b"%d" % number for number in range(10)]

    run(client, monkeypatch, scenario)


def test_what_somebody_waits_for_is_never_refused_for_want_of_room(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("PENDING_MAX", "LINK_QUEUE_MAX"):
        monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.{limit}", 5)

    async def scenario(one: Story) -> None:
        done: list[int] = []
        for number in range(20):
            assert one.connection.publish("a", b"", 1, then=lambda number=number: done.append(number))  # type: ignore[misc]
        assert not one.connection.publish("a", b"", 1)
        assert one.broker.writer is not None
        for place in range(20):
            await until(lambda place=place: len(one.broker.published) > place)  # type: ignore[misc]
            one.broker.writer.write(packets.puback(one.broker.published[place].token[1]))
        await until(lambda: done == list(range(20)))

    run(client, monkeypatch, scenario)


def test_what_waits_for_a_paused_reader_is_gone_with_its_connection(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(one: Story) -> None:
        one.connection.pause()
        one.broker.deliver(1)
        await until(lambda: len(one.connection._backlog) == 1)  # type: ignore[attr-defined]
        called: list[int] = []
        one.connection.in_order(lambda: called.append(1))
        await one.reconnect()
        one.connection.resume()
        one.broker.deliver(2)
        await until(lambda: bool(one.received))
        assert [each.payload for each in one.received] == [b"2"]
        assert called == []

    run(client, monkeypatch, scenario)


def test_what_is_called_in_order_is_called_behind_what_has_come(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(one: Story) -> None:
        one.connection.pause()
        one.broker.deliver(1, 2)
        await until(lambda: len(one.connection._backlog) == 2)  # type: ignore[attr-defined]
        seen: list[int] = []
        one.connection.in_order(lambda: seen.append(len(one.received)))
        assert seen == []
        one.connection.resume()
        await until(lambda: bool(seen))
        assert seen == [2]

    run(client, monkeypatch, scenario)
