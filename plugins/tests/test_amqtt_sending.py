"""The embedded broker sends again what a client has not acknowledged: to real sockets, byte by byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.ports import free_ports
from mqloom.plugins import amqtt_sending
from mqloom.plugins.amqtt_adapter import AmqttAdapter

PING, PONG = b"\xc0\0", b"\xd0\0"
NEW_1, AGAIN_1, NEW_2, AGAIN_2 = 0x32, 0x3A, 0x34, 0x3C
PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70


class Peer:
    """A client that does nothing by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def say(self, kind: int, packet_id: int) -> None:
        self.send(bytes([kind, 2]) + packet_id.to_bytes(2))

    async def read(self, count: int) -> bytes:
        return await asyncio.wait_for(self._reader.readexactly(count), 5)

    async def heard(self) -> tuple[int, int, bytes]:
        """Return the next packet: its first byte, its packet id, and what was published."""
        kind, length = await self.read(2)
        rest = await self.read(length)
        if kind & 0xF0 != 0x30:
            return kind, int.from_bytes(rest), b""
        assert rest[:3] == b"\0\1t"
        return kind, int.from_bytes(rest[3:5]), rest[5:]

    async def hears_nothing(self) -> bool:
        """Whether nothing has come before the answer to a ping."""
        self.send(PING)
        return await self.read(2) == PONG

    async def subscribe(self, qos: int) -> None:
        self.send(b"\x82\6\0\1\0\1t" + bytes([qos]))
        assert await self.read(5) == b"\x90\3\0\1" + bytes([qos])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def is_closed(self) -> bool:
        return await asyncio.wait_for(self._reader.read(), 5) == b""


class House:
    """An embedded broker, and its one client, by turns."""

    def __init__(self, port: int, broker: Any) -> None:
        self._port = port
        self.broker = broker

    async def come(self, *, is_known: bool, is_clean: bool = False) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port))
        peer.send(b"\x10\x10\0\4MQTT\4" + bytes([2 * is_clean]) + b"\0\x3c\0\4kept")
        assert await peer.read(4) == b"\x20\2" + bytes([is_known, 0])
        return peer

    async def leave(self, peer: Peer) -> None:
        """Close a connection, and wait until the broker knows."""
        await peer.close()
        while self.broker.sessions["kept"][0].transitions.is_connected():
            await asyncio.sleep(0.01)

    async def publish(self, *payloads: bytes, qos: int = 1) -> None:
        for payload in payloads:
            await self.broker.internal_message_broadcast("t", payload, qos)


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    (port,) = free_ports(1)
    adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
    await adapter.start()
    try:
        yield House(port, adapter._broker)
    finally:
        await adapter.stop()


@pytest.mark.parametrize("is_noticed", [True, False])
def test_what_was_not_acknowledged_comes_again_before_all_that_is_newer(is_noticed: bool) -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            await here.publish(b"1", b"2", b"3")
            assert [await peer.heard() for _ in range(3)] == [(NEW_1, number, b"%d" % number) for number in (1, 2, 3)]
            peer.say(PUBACK, 2)
            assert await peer.hears_nothing()
            if is_noticed:
                await here.leave(peer)
            await here.publish(b"4")
            later = await here.come(is_known=True)
            await here.publish(b"5")
            heard = [await later.heard() for _ in range(4)]
            if is_noticed:
                assert heard == [(AGAIN_1, 1, b"1"), (AGAIN_1, 3, b"3"), (NEW_1, 4, b"4"), (NEW_1, 5, b"5")]
            else:  # the connection before may have had the fourth, too
                assert [payload for _, _, payload in heard] == [b"1", b"3", b"4", b"5"]
            for _, packet_id, _ in heard:
                later.say(PUBACK, packet_id)
            assert await later.hears_nothing()
            await later.close()
            last = await here.come(is_known=True)
            assert await last.hears_nothing()
            await last.close()
            await peer.close()

    asyncio.run(scenario())


def test_what_is_not_acknowledged_for_long_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """amqtt had forgotten it after five seconds, though the connection stood."""

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            await here.publish(b"1")
            assert await peer.heard() == (NEW_1, 1, b"1")
            loop = asyncio.get_running_loop()
            before = loop.time
            monkeypatch.setattr(loop, "time", lambda: before() + 10)
            assert await peer.hears_nothing()
            await here.leave(peer)
            later = await here.come(is_known=True)
            assert await later.heard() == (AGAIN_1, 1, b"1")
            await later.close()

    asyncio.run(scenario())


def test_what_is_sent_again_does_not_hold_up_the_connection() -> None:
    """amqtt waits up to ten seconds for all of it before it reads a subscription."""

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            await here.publish(b"1")
            assert await peer.heard() == (NEW_1, 1, b"1")
            peer.send(b"\x34\6\0\1u\0\7!")
            assert await peer.heard() == (PUBREC, 7, b"")
            await here.leave(peer)
            later = await here.come(is_known=True)
            assert {await later.heard() for _ in range(2)} == {(AGAIN_1, 1, b"1"), (PUBREC, 7, b"")}
            await later.subscribe(1)
            later.say(PUBREL, 7)
            assert await later.heard() == (PUBCOMP, 7, b"")
            await later.close()

    asyncio.run(scenario())


def test_a_message_of_qos_2_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(2)
            await here.publish(b"1", qos=2)
            assert await peer.heard() == (NEW_2, 1, b"1")
            await here.leave(peer)
            peer = await here.come(is_known=True)
            assert await peer.heard() == (AGAIN_2, 1, b"1")
            peer.say(PUBREC, 1)
            assert await peer.heard() == (PUBREL, 1, b"")
            await here.leave(peer)
            peer = await here.come(is_known=True)
            assert await peer.heard() == (PUBREL, 1, b"")
            peer.say(PUBACK, 1)  # means nothing here
            peer.say(PUBCOMP, 1)
            assert await peer.hears_nothing()
            await here.leave(peer)
            peer = await here.come(is_known=True)
            assert await peer.hears_nothing()
            await peer.close()

    asyncio.run(scenario())


def test_past_the_bound_of_what_is_in_flight_messages_wait_for_acknowledgements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqtt_sending, "IN_FLIGHT_MAX", 2)

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            here.broker.sessions["kept"][0]._packet_id = 65_534
            await here.publish(b"1", b"2", b"3", b"4")
            assert [await peer.heard() for _ in range(2)] == [(NEW_1, 65_535, b"1"), (NEW_1, 1, b"2")]
            assert await peer.hears_nothing()
            peer.say(PUBACK, 1)
            assert await peer.heard() == (NEW_1, 2, b"3")
            await here.leave(peer)
            here.broker.sessions["kept"][0]._packet_id = 65_534  # as if all ids had been round
            later = await here.come(is_known=True)
            assert [await later.heard() for _ in range(2)] == [(AGAIN_1, 65_535, b"1"), (AGAIN_1, 2, b"3")]
            later.say(PUBACK, 2)
            assert await later.heard() == (NEW_1, 1, b"4")
            await later.close()

    asyncio.run(scenario())


def test_who_comes_without_a_session_gets_nothing_of_an_earlier_one() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            await here.publish(b"1")
            assert await peer.heard() == (NEW_1, 1, b"1")
            await here.leave(peer)
            await here.publish(b"2")
            later = await here.come(is_known=False, is_clean=True)
            assert await later.hears_nothing()
            await later.close()

    asyncio.run(scenario())


def test_a_session_that_lasts_is_none_of_the_one_that_ended_right_before_it() -> None:
    """amqtt had gone on with that one, and kept nothing: so for a client that had ended its session and came again."""

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False, is_clean=True)
            await peer.subscribe(0)
            await here.leave(peer)
            peer = await here.come(is_known=False)
            await here.publish(b"nobody wants this")
            await peer.subscribe(1)
            assert await peer.hears_nothing()
            await here.leave(peer)
            await here.publish(b"1")
            peer = await here.come(is_known=True)
            assert await peer.heard() == (NEW_1, 1, b"1")
            await peer.close()

    asyncio.run(scenario())


def test_a_connection_that_takes_nothing_more_is_closed_and_its_messages_are_kept(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(is_known=False)
            await peer.subscribe(1)
            with monkeypatch.context() as broken:

                async def stumble(sender: object, packet: object) -> None:
                    raise OSError("no route to host")

                broken.setattr(amqtt_sending.Sender, "_send_packet", stumble)
                await here.publish(b"1")
                assert await peer.is_closed()
            await here.leave(peer)
            later = await here.come(is_known=True)
            assert await later.heard() == (AGAIN_1, 1, b"1")
            await later.close()

    asyncio.run(scenario())
    assert "ends a connection (1 so far, this one of 'kept'): OSError: no route to host" in caplog.text
