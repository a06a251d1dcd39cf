"""The embedded broker: a connection on which it stumbles costs nobody else anything."""

import asyncio
import socket

import pytest
from amqtt.events import BrokerEvents

from mqloom.gateway.interfaces import BrokerAddress
from mqloom.plugins.amqtt_adapter import AmqttAdapter
from mqloom.plugins.amqtt_broker import _Steady


def test_a_connection_on_which_the_broker_stumbles_is_closed_and_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    async def stumble(*arguments: object) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    async def run() -> bytes:
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        await adapter.start()
        monkeypatch.setattr(adapter._broker, "external_connected", stumble)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await writer.wait_closed()
        await adapter.stop()
        return answer

    assert asyncio.run(run()) == b""
    assert "dropped a connection: RuntimeError: dictionary changed size" in caplog.text


def test_who_subscribes_while_another_connects_costs_nobody_a_connection() -> None:
    subscriptions = _Steady({f"t{number}": [] for number in range(5)})
    seen = []
    for topic in subscriptions:
        seen.append(topic)
        subscriptions[f"more {topic}"] = []
    assert seen == [f"t{number}" for number in range(5)]
    for topic, sessions in subscriptions.items():
        subscriptions[f"still more {topic}"] = sessions
    assert len(subscriptions) == 20


def test_a_client_that_is_back_before_its_last_connection_is_done_with_gets_what_comes() -> None:
    """amqtt had taken the end of the earlier connection for that of the session: nothing came any more."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    connect = b"\x10\x10\0\4MQTT\4\0\0\x3c\0\4kept"
    subscribe, publish = b"\x82\6\0\1\0\1t\1", b"\x30\4\0\1t!"

    async def open_one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(connect)
        assert (await reader.readexactly(4))[:2] == b"\x20\2"
        return reader, writer

    async def run() -> None:
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        await adapter.start()
        earlier, earlier_writer = await open_one()
        reader, writer = await open_one()  # takes the session over
        assert await asyncio.wait_for(earlier.read(), 5) == b""
        writer.write(subscribe)
        assert await asyncio.wait_for(reader.readexactly(5), 5) == b"\x90\3\0\1\1"
        writer.write(publish)
        assert (await asyncio.wait_for(reader.readexactly(5), 5))[4:] == b"t"
        for each in (writer, earlier_writer):
            each.close()
        await adapter.stop()

    asyncio.run(run())


def test_what_comes_while_a_connection_begins_follows_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """amqtt handed it out first: the client that came back had its messages out of order."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    async def open_one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x10\x10\0\4MQTT\4\0\0\x3c\0\4kept")
        assert (await asyncio.wait_for(reader.readexactly(4), 5))[:2] == b"\x20\2"
        return reader, writer

    async def run() -> list[bytes]:
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        await adapter.start()
        broker, fire = adapter._broker, adapter._broker.plugins_manager.fire_event
        reader, writer = await open_one()
        writer.write(b"\x82\6\0\1\0\1t\1")
        assert await asyncio.wait_for(reader.readexactly(5), 5) == b"\x90\3\0\1\1"
        writer.write(b"\xe0\0")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        for kept in (b"1", b"2"):
            await broker.internal_message_broadcast("t", kept, 1)

        async def another_comes(event: object, **more: object) -> None:
            await fire(event, **more)
            if event is BrokerEvents.CLIENT_CONNECTED:
                await broker.internal_message_broadcast("t", b"3", 1)
                await asyncio.sleep(0.1)

        monkeypatch.setattr(broker.plugins_manager, "fire_event", another_comes)
        reader, writer = await open_one()
        await broker.internal_message_broadcast("t", b"4", 1)
        packets = [await asyncio.wait_for(reader.readexactly(8), 5) for _ in range(4)]
        assert {packet[0] for packet in packets} == {0x32}  # not said to be retained
        writer.close()
        await adapter.stop()
        return [packet[7:] for packet in packets]

    heard = asyncio.run(run())
    assert heard[:2] == [b"1", b"2"]
    assert sorted(heard[2:]) == [b"3", b"4"]


def test_who_connects_is_sent_no_retained_message_that_only_others_have_subscribed_to() -> None:
    """amqtt sends everybody's to each: to a client of a federation the records of all others, with their tokens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    retain, ping, pong = b"\x31\4\0\1t!", b"\xc0\0", b"\xd0\0"

    async def open_one(name: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x10\x0d\0\4MQTT\4\2\0\x3c\0\1" + name)
        assert await asyncio.wait_for(reader.readexactly(4), 5) == b"\x20\2\0\0"
        return reader, writer

    async def run() -> None:
        adapter = AmqttAdapter(BrokerAddress("127.0.0.1", port))
        await adapter.start()
        reader, writer = await open_one(b"a")
        writer.write(retain + b"\x82\6\0\1\0\1t\0")
        assert await asyncio.wait_for(reader.readexactly(5), 5) == b"\x90\3\0\1\0"
        assert await asyncio.wait_for(reader.readexactly(6), 5) == retain
        other, other_writer = await open_one(b"b")
        other_writer.write(ping)
        assert await asyncio.wait_for(other.readexactly(2), 5) == pong  # and nothing before it
        other_writer.write(b"\x82\6\0\1\0\1u\0" + ping)
        assert await asyncio.wait_for(other.readexactly(7), 5) == b"\x90\3\0\1\0" + pong
        for each in (writer, other_writer):
            each.close()
        await adapter.stop()

    asyncio.run(run())


def test_stopping_what_never_started_is_no_mistake() -> None:
    async def run() -> None:
        await AmqttAdapter(BrokerAddress("127.0.0.1", 1)).stop()

    asyncio.run(run())
