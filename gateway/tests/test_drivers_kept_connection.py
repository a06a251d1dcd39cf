"""What both MQTT clients' connections do with a broker that turns messages down, and with a host that is none."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import pytest

from mqloom.core.limits import IN_FLIGHT_MAX
from mqloom.gateway.drivers.mqtt import REFUSED, Connection, ConnectionPlan
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.protocols import absence
from mqloom.gateway.interfaces import BrokerAddress

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
QUOTA_EXCEEDED = 0x97

clients = pytest.mark.parametrize("client", MQTT_CLIENTS)


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def grudging_broker() -> AsyncIterator[int]:
    """Run a broker of MQTT 5 that acknowledges what is published on `no`, and says that it has no room for it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while head := await reader.read(1):
                body = await reader.readexactly((await reader.readexactly(1))[0])
                if head[0] == 0x10:
                    writer.write(b"\x20\x03\x00\x00\x00")
                elif head[0] & 0xF6 == 0x32:
                    behind = 2 + int.from_bytes(body[:2])
                    reason = bytes((QUOTA_EXCEEDED, 0)) if body[2:behind] == b"no" else b""
                    packet = body[behind : behind + 2]
                    writer.write(bytes((0x40, len(packet + reason))) + packet + reason)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with await asyncio.start_server(serve, sock=listening):
            yield int(listening.getsockname()[1])


class Person:
    """A connection, and what has happened to it."""

    def __init__(self, client: str, address: BrokerAddress) -> None:
        self.dropped: list[str] = []
        self.happened: list[str] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=address,
            client_id="us",
            clean_session=True,
            subscriptions=(),
            on_messages=lambda batch: None,
            on_up=self.up.set,
            on_down=lambda problem: None,
            on_drop=self.dropped.append,
        )
        self.connection: Connection = MQTT_CLIENTS[client](plan, LOG)
        self.connection.open()

    def done(self) -> None:
        self.happened.append("done")


@clients
def test_who_can_be_told_that_a_broker_turns_a_message_down_is_told_why(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with grudging_broker() as port:
            us = Person(client, BrokerAddress("127.0.0.1", port))
            await us.up.wait()
            us.connection.publish("no", b"x", 1, then=us.done, refused=us.happened.append)
            us.connection.publish("yes", b"x", 1, then=us.done, refused=us.happened.append)
            await until(lambda: len(us.happened) == 2)
            assert us.happened[0].lower() == "quota exceeded"
            assert us.happened[1] == "done"
            assert us.dropped == [REFUSED]
            await us.connection.close()

    asyncio.run(scenario())
    assert "it does not take what we publish on no: " in caplog.text


@clients
def test_who_cannot_be_told_waits_no_longer_and_what_is_turned_down_takes_no_place(client: str) -> None:
    async def scenario() -> None:
        async with grudging_broker() as port:
            us = Person(client, BrokerAddress("127.0.0.1", port))
            await us.up.wait()
            for _ in range(2 * IN_FLIGHT_MAX):
                us.connection.publish("no", b"x", 1)
            us.connection.publish("no", b"x", 1, then=us.done)
            await until(lambda: us.happened == ["done"])
            assert us.dropped == [REFUSED] * (2 * IN_FLIGHT_MAX + 1)
            await us.connection.close()

    asyncio.run(scenario())


@clients
def test_a_host_that_is_none_is_told_and_tried_again(
    client: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MIN", 0.01)

    async def scenario() -> None:
        us = Person(client, BrokerAddress("a..b", 1883))
        await until(lambda: caplog.text.count("'a..b' is no name of a host") > 1)
        await us.connection.close()

    asyncio.run(scenario())


@clients
def test_a_mistake_of_ours_is_told_and_does_not_end_the_trying(
    client: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MIN", 0.01)
    asked: list[int] = []

    def fail(address: BrokerAddress) -> None:
        asked.append(address.port)
        raise KeyError("tls")

    monkeypatch.setattr("mqloom.gateway.drivers.protocols.secure", fail)

    async def scenario() -> None:
        us = Person(client, BrokerAddress("127.0.0.1", 1))
        await until(lambda: len(asked) > 1)
        await us.connection.close()

    asyncio.run(scenario())
    assert "please report it: KeyError('tls')" in caplog.text


def test_what_is_said_of_a_broker_that_is_away_names_the_cause() -> None:
    address = BrokerAddress("there", 1883)
    assert absence(address, ConnectionRefusedError("refused")) == "it does not answer (refused)"
    assert "'there' is no name of a host" in absence(address, UnicodeError("label too long"))
