"""Whoever is told that a connection is crowded is told when there is room again, whatever had filled it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mqloom.gateway.drivers import packets
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.protocols import MQTT_3, QUESTION
from mqloom.gateway.interfaces import BrokerAddress

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})


class SlowBroker:
    """Speaks 3.1.1; reads only while it is to, and acknowledges only what it is told to."""

    def __init__(self) -> None:
        self.packets: list[int] = []
        self.reads = asyncio.Event()
        self.reads.set()
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
                await self.reads.wait()
        except ConnectionError:
            pass
        writer.close()

    def _answer(self, first: int, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind = first & 0xF0
        if kind == 0x10:
            self.writer = writer
            writer.write(b"\x20\x02\x00\x00")
        elif kind == 0x80:
            writer.write(b"\x90\x03" + body[:2] + b"\x01")
        elif kind == packets.PUBLISH:
            self.packets.append(packets.read_publish(first, body, MQTT_3, 0).token[1])

    def acknowledge(self, packet: int) -> None:
        assert self.writer is not None
        self.writer.write(packets.puback(packet))


class Story:
    """A connection to it, and how often there was room again."""

    def __init__(self, client: str, port: int, broker: SlowBroker) -> None:
        self.broker = broker
        self.rooms = 0
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id="us",
            clean_session=False,
            subscriptions=[TopicSubscription("a", 1)],
            on_messages=lambda batch: None,
            on_up=self.up.set,
            on_down=lambda problem: None,
            on_room=self._has_room,
        )
        self.connection: Connection = MQTT_CLIENTS[client](plan, LOG)
        self.connection.open()

    def _has_room(self) -> None:
        self.rooms += 1


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def story(client: str) -> AsyncIterator[Story]:
    broker = SlowBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with server:
        one = Story(client, server.sockets[0].getsockname()[1], broker)
        try:
            yield one
        finally:
            await one.connection.close()
            if broker.writer is not None:
                broker.writer.close()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("client", MQTT_CLIENTS)
def test_room_is_told_when_what_had_waited_for_the_broker_to_come_is_acknowledged(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"mqloom.gateway.drivers.{client}_connection.LINK_QUEUE_MAX", 20)
    monkeypatch.setattr("mqloom.gateway.drivers.kept_connection.LEAVE_S_MAX", 0.05)

    async def scenario() -> None:
        async with story(client) as one:
            for _ in range(15):
                assert one.connection.publish("a", b"", 1)
            assert not one.connection.is_crowded  # who is away holds nobody back
            await until(lambda: one.up.is_set() and len(one.broker.packets) == 15)
            assert one.connection.is_crowded
            assert one.rooms == 0
            for packet in one.broker.packets:
                one.broker.acknowledge(packet)
            await until(lambda: one.rooms == 1)
            assert not one.connection.is_crowded

    asyncio.run(scenario())


def test_room_is_told_when_it_was_acknowledgements_that_let_so_many_bytes_go_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.asyncio_connection.LINK_QUEUE_BYTES_MAX", 1_000_000)
    monkeypatch.setattr("mqloom.gateway.drivers.asyncio_connection.IN_FLIGHT_MAX", 10)
    monkeypatch.setattr("mqloom.gateway.drivers.kept_connection.LEAVE_S_MAX", 0.05)
    count, payload = 500, bytes(100_000)

    async def scenario() -> None:
        async with story("asyncio") as one:
            await one.up.wait()
            for _ in range(count):
                one.connection.publish("a", payload, 1)
            await until(lambda: len(one.broker.packets) == 10)
            one.broker.reads.clear()
            acknowledged = 0
            while not one.connection.is_crowded:  # as of a broker that acknowledges faster than the network takes more
                one.broker.acknowledge(one.broker.packets[0] + acknowledged)
                acknowledged += 1
                assert acknowledged < count
                await asyncio.sleep(0.001)
            rooms = one.rooms
            one.broker.reads.set()
            await until(lambda: one.rooms > rooms)
            assert not one.connection.is_crowded

    asyncio.run(scenario())
