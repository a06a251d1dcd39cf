"""A client of the embedded broker may do its worst: nobody else loses anything by it. To real sockets, byte by byte."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from amqtt.session import IncomingApplicationMessage, OutgoingApplicationMessage

from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.ports import free_ports
from mqloom.plugins import amqtt_sending
from mqloom.plugins.amqtt_adapter import AmqttAdapter

PING, PONG = b"\xc0\0", (0xD0, b"")
OVER_LONG = b"\xff" * 20_000
"""A topic that amqtt takes for its Python text, which is four times as long."""


def text(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def packet(kind: int, body: bytes) -> bytes:
    size, head = len(body), bytearray([kind])
    while True:
        size, low = divmod(size, 128)
        head.append(low | (128 if size else 0))
        if not size:
            return bytes(head) + body


def publish(topic: bytes, data: bytes, *, retain: bool = False) -> bytes:
    return packet(0x30 | retain, text(topic) + data)


class Peer:
    """A client that does nothing by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def heard(self) -> tuple[int, bytes]:
        """Return the next packet: its first byte, and all after its length."""
        return await asyncio.wait_for(self._heard(), 10)

    async def _heard(self) -> tuple[int, bytes]:
        kind, size, shift = (await self._reader.readexactly(1))[0], 0, 0
        while True:
            (byte,) = await self._reader.readexactly(1)
            size |= (byte & 127) << shift
            if byte < 128:
                return kind, await self._reader.readexactly(size)
            shift += 7

    async def hears_nothing(self) -> bool:
        self.send(PING)
        return await self.heard() == PONG

    async def subscribe(self, topic_filter: bytes, qos: int) -> int:
        """Return what was granted."""
        self.send(packet(0x82, b"\0\1" + text(topic_filter) + bytes([qos])))
        kind, body = await self.heard()
        assert kind == 0x90
        return body[2]

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self._reader.read(), 10) is not None
        except ConnectionResetError:
            return True


class House:
    """An embedded broker, and whoever comes."""

    def __init__(self, port: int, adapter: AmqttAdapter) -> None:
        self._port, self._peers = port, list[Peer]()
        self.adapter = adapter
        self.broker: Any = adapter._broker

    async def come(self, name: bytes, flags: int = 0, more: bytes = b"") -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port))
        self._peers.append(peer)
        peer.send(packet(0x10, b"\0\4MQTT\4" + bytes([flags]) + b"\0\0" + text(name) + more))
        assert (await peer.heard())[0] == 0x20
        return peer

    async def ends(self, peer: Peer, name: str) -> None:
        """Cut a connection, and wait until the broker knows."""
        peer.writer.transport.abort()
        await self.until(lambda: not self.broker.sessions[name][0].transitions.is_connected())

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)

    def close(self) -> None:
        for peer in self._peers:
            peer.writer.transport.abort()


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    (port,) = free_ports(1)
    adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
    await adapter.start()
    here = House(port, adapter)
    try:
        yield here
    finally:
        here.close()
        await adapter.stop()


# ---- what cannot be sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "qos"), [(b"stocks/+", 1), (b"stocks/a\0b", 1), (OVER_LONG, 1), (b"", 1), (b"stocks/a", 3)]
)
def test_a_will_that_cannot_be_sent_ends_nobodys_connection(
    topic: bytes, qos: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with house() as here:
            victim = await here.come(b"victim")
            assert await victim.subscribe(b"#", 1) == 1
            hostile = await here.come(b"hostile", 0x24 | qos << 3, text(topic) + text(b"will"))
            await here.ends(hostile, "hostile")
            victim.send(publish(b"stocks/good", b"!"))
            assert await victim.heard() == (0x32, text(b"stocks/good") + b"\0\1!")
            assert await victim.hears_nothing()
            newcomer = await here.come(b"newcomer")
            assert await newcomer.subscribe(b"#", 1) == 1
            assert await newcomer.hears_nothing()  # it is not retained, either

    asyncio.run(scenario())
    assert "refuses a publication (1 so far, this one of 'hostile')" in caplog.text


def test_a_publication_that_others_could_not_read_is_refused_and_told_of_more_and_more_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with house() as here:
            victim = await here.come(b"victim")
            assert await victim.subscribe(b"#", 1) == 1
            victim.send(9 * publish(b"stocks/a\0b", b"?") + publish(b"stocks/good", b"!"))
            assert await victim.heard() == (0x32, text(b"stocks/good") + b"\0\1!")

    asyncio.run(scenario())
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [1, 2, 4, 8]


def test_what_cannot_be_sent_though_it_was_taken_is_dropped_and_not_kept_in_flight(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with house() as here:
            victim = await here.come(b"victim")
            assert await victim.subscribe(b"#", 1) == 1
            monkeypatch.setattr(here.broker, "_can_be_sent", lambda *_: True)
            monkeypatch.setattr(amqtt_sending, "BODY_BYTES_MAX", 100)
            for topic, data, qos in [("a/+", b"", 1), ("x" * 65_536, b"", 1), ("a", b"", 3), ("a", bytes(99), 1)]:
                await here.broker.internal_message_broadcast(topic, data, qos)
            await here.broker.internal_message_broadcast("a", b"!", 1)
            assert await victim.heard() == (0x32, text(b"a") + b"\0\5!")
            assert list(here.broker.sessions["victim"][0].inflight_out) == [5]

    asyncio.run(scenario())
    assert "drops what cannot be sent (4 so far" in caplog.text


def test_a_subscription_with_a_qos_that_there_is_not_is_refused() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.subscribe(b"t", 3) == 0x80
            peer.send(publish(b"t", b"!"))
            assert await peer.hears_nothing()

    asyncio.run(scenario())


def test_who_publishes_with_a_qos_that_there_is_not_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            peer.send(3 * packet(0x36, text(b"t") + b"\0\1!"))
            assert await peer.is_closed()
            await here.until(lambda: not here.broker.sessions["peer"][0].transitions.is_connected())

    asyncio.run(scenario())
    assert "ends a connection (1 so far, this one of 'peer'): there is no QoS 3" in caplog.text


# ---- who takes nothing -----------------------------------------------------------------------------------------------


def test_a_connection_that_is_reset_is_sent_no_more(caplog: pytest.LogCaptureFixture) -> None:
    count = 20_000

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.subscribe(b"t", 1) == 1
            await here.ends(peer, "peer")
            session, _ = here.broker.sessions["peer"]
            for _ in range(count):
                await here.broker.internal_message_broadcast("t", b"", 1)
            await here.until(lambda: session.retained_messages.qsize() == count)
            peer = await here.come(b"peer")
            reset = struct.pack("ii", 1, 0)
            peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            await here.ends(peer, "peer")
            assert 0 < session.retained_messages.qsize() == count - len(session.inflight_out)

    asyncio.run(scenario())
    assert caplog.text == ""


def test_others_have_their_turn_while_one_client_is_sent_much(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Counter[int] = Counter()
    turn = 0

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def count_turns() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count_turns)

        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.subscribe(b"t", 1) == 1
            await here.ends(peer, "peer")
            send_packet = amqtt_sending.Sender._send_packet

            async def counted(sender: Any, what: Any) -> None:
                sent[turn] += 1
                await send_packet(sender, what)

            monkeypatch.setattr(amqtt_sending.Sender, "_send_packet", counted)
            count_turns()
            for again in (False, True):
                for _ in range(0 if again else 1_000):
                    await here.broker.internal_message_broadcast("t", b"", 1)
                await here.until(here.broker._broadcast_queue.empty)
                peer = await here.come(b"peer")
                for _ in range(1_000):
                    assert (await peer.heard())[0] == 0x32 | again << 3
                await here.ends(peer, "peer")

    asyncio.run(scenario())
    assert sum(sent.values()) >= 2_000
    assert max(sent.values()) <= amqtt_sending.BURST + 1


async def _fill(here: House, peer: Peer, topic: str, qos: int, count: int = 40) -> None:
    """Send more than the sockets take up, each a megabyte."""
    assert await peer.subscribe(topic.encode(), qos) == qos
    for _ in range(count):
        await here.broker.internal_message_broadcast(topic, bytes(1_000_000), qos)
    await here.until(here.broker._broadcast_queue.empty)


def test_of_qos_0_only_so_much_waits_for_a_client_that_does_not_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqtt_sending, "WAITING_MAX", 10)

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            await _fill(here, peer, "t", 0)
            assert here.broker.sessions["peer"][0].retained_messages.qsize() == 10
            assert len(asyncio.all_tasks()) < 20
            dropped = here.broker._drops._counts["drops what is of QoS 0"]
            for _ in range(40 - dropped):
                assert (await peer.heard())[0] == 0x30
            assert await peer.hears_nothing()

    asyncio.run(scenario())
    assert "drops what is of QoS 0 (1 so far, this one of 'peer'): 10 messages wait for it" in caplog.text


def test_past_the_bound_of_what_is_in_flight_qos_0_waits_its_turn_and_only_for_this_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqtt_sending, "IN_FLIGHT_MAX", 1)
    monkeypatch.setattr(amqtt_sending, "WAITING_MAX", 10)

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.subscribe(b"t", 1) == 1
            for data, qos in [(b"1", 1), *30 * [(b"0", 0)], (b"2", 1)]:
                await here.broker.internal_message_broadcast("t", data, qos)
            assert await peer.heard() == (0x32, text(b"t") + b"\0\0011")
            assert await peer.hears_nothing()
            session, _ = here.broker.sessions["peer"]
            await here.until(lambda: session.retained_messages.qsize() == 11)
            assert len(asyncio.all_tasks()) < 20
            await here.ends(peer, "peer")
            peer = await here.come(b"peer")
            assert await peer.heard() == (0x3A, text(b"t") + b"\0\0011")
            peer.send(b"\x40\2\0\1")
            assert await peer.heard() == (0x32, text(b"t") + b"\0\0022")
            await here.broker.internal_message_broadcast("t", b"new", 0)
            assert await peer.hears_nothing()
            peer.send(b"\x40\2\0\2")
            assert await peer.heard() == (0x30, text(b"t") + b"new")

    asyncio.run(scenario())


def test_retained_messages_come_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqtt_sending, "WAITING_MAX", 10)

    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            peer.send(b"".join(publish(b"t/%d" % number, b"!", retain=True) for number in range(30)))
            await here.until(lambda: len(here.broker._retained_messages) == 30)
            assert await peer.subscribe(b"t/+", 0) == 0
            for number in range(30):
                assert await peer.heard() == (0x31, text(b"t/%d" % number) + b"!")

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_is_cut_when_its_session_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqtt_sending, "CLOSE_S_MAX", 0.1)

    async def scenario() -> None:
        async with house() as here:
            stuck = await here.come(b"peer")
            await _fill(here, stuck, "t", 1)
            stuck.send(packet(0x82, b"\0\2" + text(b"u") + b"\0"))  # the broker waits to answer this
            await asyncio.sleep(0.1)
            later = await here.come(b"peer")
            kind, body = await later.heard()
            assert (kind, body[:5]) == (0x3A, text(b"t") + b"\0\1")
            await here.until(lambda: len(here.adapter._connections) == 1)
            assert await stuck.is_closed()

    asyncio.run(scenario())


def test_the_broker_stops_though_many_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqtt_sending, "CLOSE_S_MAX", 0.5)

    async def scenario() -> None:
        async with house() as here:
            for number in range(5):
                await _fill(here, await here.come(b"%d" % number), f"t{number}", number % 2, 20)
            before = asyncio.get_running_loop().time()
            await asyncio.wait_for(here.adapter.stop(), 10)
            assert asyncio.get_running_loop().time() - before < 2  # all at once, not one after the other
            here.adapter._server = None

    asyncio.run(scenario())


def test_a_client_that_is_gone_before_it_is_served_is_known_to_be_gone() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = Peer(*await asyncio.open_connection("127.0.0.1", here._port))
            peer.send(packet(0x10, b"\0\4MQTT\4\0\0\0" + text(b"peer")))
            peer.writer.close()
            await here.until(lambda: "peer" in here.broker.sessions)
            session, _ = here.broker.sessions["peer"]
            await here.until(lambda: not session.transitions.is_connected())

    asyncio.run(scenario())


def test_a_client_that_is_dropped_for_what_it_publishes_is_known_to_be_gone() -> None:
    async def scenario() -> None:
        async with house() as here:
            victim = await here.come(b"victim")
            assert await victim.subscribe(b"t", 0) == 0
            hostile = await here.come(b"hostile", 0x04, text(b"t") + text(b"will"))
            session, _ = here.broker.sessions["hostile"]
            hostile.send(publish(b"$SYS/x", b"!"))
            assert await hostile.is_closed()
            await here.until(lambda: not session.transitions.is_connected())
            assert await victim.heard() == (0x30, text(b"t") + b"will")

    asyncio.run(scenario())


# ---- smaller things --------------------------------------------------------------------------------------------------


def test_what_is_let_go_of_again_is_said_again_to_be_taken() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.subscribe(b"t", 0) == 0
            peer.send(b"\x62\2\0\7")
            assert await peer.heard() == (0x70, b"\0\7")
            peer.send(packet(0x34, text(b"t") + b"\0\7!"))
            assert await peer.heard() == (0x50, b"\0\7")
            peer.send(2 * b"\x62\2\0\7")
            heard = [await peer.heard() for _ in range(3)]
            assert sorted(heard) == [(0x30, text(b"t") + b"!"), (0x70, b"\0\7"), (0x70, b"\0\7")]
            assert await peer.hears_nothing()

    asyncio.run(scenario())


def test_a_new_session_takes_from_nobody_what_the_one_before_it_has_sent() -> None:
    async def scenario() -> None:
        async with house() as here:
            other = await here.come(b"other")
            assert await other.subscribe(b"t", 0) == 0
            peer = await here.come(b"peer", 2)
            await here.ends(peer, "peer")
            session, _ = here.broker.sessions["peer"]
            session.delivered_message_queue.put_nowait(IncomingApplicationMessage(1, "t", 1, b"!", False))
            await here.come(b"peer")
            assert await other.heard() == (0x30, text(b"t") + b"!")

    asyncio.run(scenario())


def test_what_amqtt_keeps_while_a_connection_is_open_is_sent_when_it_is_opened_again() -> None:
    async def scenario() -> None:
        async with house() as here:
            peer = await here.come(b"peer")
            assert await peer.hears_nothing()
            session, sender = here.broker.sessions["peer"]
            message = OutgoingApplicationMessage(None, "t", 1, b"!", False)
            session.retained_messages.put_nowait(message)
            sender.open()
            assert await peer.heard() == (0x32, text(b"t") + b"\0\1!")

    asyncio.run(scenario())
