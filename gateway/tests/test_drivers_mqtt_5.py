"""MQTT 5 on a real Mosquitto: what it adds, and what the broker's limits do to us."""

import asyncio
import getpass
import logging
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqloom.core.limits import FRAME_BYTES_MAX, READ_BYTES_MAX
from mqloom.gateway.drivers.mqtt import (
    REFUSED,
    Connection,
    ConnectionPlan,
    Received,
    RetainedMessages,
    TopicSubscription,
)
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.gateway.drivers.protocols import MQTT_5
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.ports import free_port

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")

pytestmark = [
    pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine"),
    pytest.mark.parametrize("client", MQTT_CLIENTS),
]


class Person:
    """A connection, and what has happened to it."""

    def __init__(
        self,
        client: str,
        port: int,
        name: str,
        *subscriptions: TopicSubscription,
        clean_session: bool = True,
        has_few_topics: bool = False,
    ) -> None:
        self.messages: list[Received] = []
        self.dropped: list[str] = []
        self.down: list[str] = []
        self.up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id=name,
            clean_session=clean_session,
            subscriptions=subscriptions,
            on_messages=self.messages.extend,
            on_up=self.up.set,
            on_down=self.down.append,
            on_drop=self.dropped.append,
            has_few_topics=has_few_topics,
        )
        self.connection: Connection = MQTT_CLIENTS[client](plan, LOG)
        self.connection.open()

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@asynccontextmanager
async def mosquitto(folder: Path, *settings: str) -> AsyncIterator[int]:
    port = free_port()
    file = folder / "mosquitto.conf"
    file.write_text("\n".join([f"listener {port} 127.0.0.1", "allow_anonymous true", *settings]) + "\n")
    assert MOSQUITTO is not None
    process = subprocess.Popen([MOSQUITTO, "-c", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)


@asynccontextmanager
async def person(
    client: str,
    port: int,
    name: str,
    *subscriptions: TopicSubscription,
    clean_session: bool = True,
    has_few_topics: bool = False,
) -> AsyncIterator[Person]:
    someone = Person(client, port, name, *subscriptions, clean_session=clean_session, has_few_topics=has_few_topics)
    try:
        async with asyncio.timeout(10):
            await someone.up.wait()
        yield someone
    finally:
        await someone.connection.close()


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def test_user_properties_and_content_type_travel_both_ways(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        async with mosquitto(tmp_path) as port, person(client, port, "us", TopicSubscription("a/#", 1)) as us:
            assert us.connection.protocol == MQTT_5
            pairs = (("name", "grün"), ("name", "again"))
            us.connection.publish("a/ü", b"x", 1, content_type="text/plain", user_properties=pairs)
            us.connection.publish("a/ü", b"y", 0)
            await until(lambda: len(us.messages) == 2)
            first, second = us.messages
            assert (first.topic, first.content_type, first.user_properties) == ("a/ü", "text/plain", pairs)
            assert (second.content_type, second.user_properties) == ("", ())

    asyncio.run(scenario())


def test_what_a_connection_publishes_does_not_come_back_if_it_says_so(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        mine = TopicSubscription("a/#", 1, no_local=True)
        async with (
            mosquitto(tmp_path) as port,
            person(client, port, "us", mine) as us,
            person(client, port, "it") as it,
        ):
            us.connection.publish("a/b", b"ours", 1)
            it.connection.publish("a/b", b"theirs", 1)
            await until(lambda: bool(us.messages))
            assert us.payloads == [b"theirs"]

    asyncio.run(scenario())


def test_retained_messages_come_as_the_subscription_wants_them(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        never = TopicSubscription("a/#", 1, retained=RetainedMessages.NEVER, retain_as_published=True)
        async with mosquitto(tmp_path) as port, person(client, port, "it") as it:
            is_there = asyncio.Event()
            it.connection.publish("a/old", b"old", 1, retain=True, then=is_there.set)
            await is_there.wait()
            async with person(client, port, "us", never) as us:
                it.connection.publish("a/new", b"new", 1, retain=True)
                await until(lambda: bool(us.messages))
                assert [(message.payload, message.retain) for message in us.messages] == [(b"new", True)]

    asyncio.run(scenario())


def test_a_session_that_persists_keeps_what_comes_meanwhile(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        async with mosquitto(tmp_path) as port, person(client, port, "it") as it:
            async with person(client, port, "us", wish, clean_session=False):
                pass
            done: list[int] = []
            it.connection.publish("a/b", b"kept", 1, then=lambda: done.append(1))
            await until(lambda: bool(done))
            async with person(client, port, "us", wish, clean_session=False) as us:
                await until(lambda: us.payloads == [b"kept"])

    asyncio.run(scenario())


def test_what_is_too_large_for_the_broker_is_dropped_and_the_connection_stays(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        async with mosquitto(tmp_path, "max_packet_size 1000") as port, person(client, port, "us", wish) as us:
            done: list[str] = []
            assert not us.connection.publish("a/b", bytes(2000), 1, then=lambda: done.append("never"))
            assert not us.connection.publish("a/b", bytes(2000), 0)
            assert us.connection.publish("a/b", b"small", 1)
            await until(lambda: us.payloads == [b"small"] and done == ["never"])
            assert us.dropped == ["too large", "too large"]
            assert us.down == []

    asyncio.run(scenario())


def test_what_an_access_list_forbids_is_told_with_its_reason_and_the_connection_stays(
    tmp_path: Path, client: str
) -> None:
    access_list = tmp_path / "access"
    access_list.write_text("topic readwrite a/#\n")
    settings = f"acl_file {access_list}", f"user {getpass.getuser()}"  # else it may not read the file

    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        async with mosquitto(tmp_path, *settings) as port, person(client, port, "us", wish) as us:
            told: list[str] = []
            us.connection.publish("b/c", b"", 1, then=lambda: told.append("done"), refused=told.append)
            us.connection.publish("a/b", b"small", 1)
            await until(lambda: us.payloads == [b"small"])
            assert [each.lower() for each in told] == ["not authorized"]
            assert us.dropped == [REFUSED]
            assert us.down == []

    asyncio.run(scenario())


def test_messages_too_large_for_us_hold_up_nothing_behind_them(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        settings = "max_inflight_messages 3"  # each that were not acknowledged would take a place for ever
        async with (
            mosquitto(tmp_path, settings) as port,
            person(client, port, "it") as it,
            person(client, port, "us", wish) as us,
        ):
            for _ in range(5):
                assert it.connection.publish("a/b", bytes(READ_BYTES_MAX + 1_000_000), 1)
            assert it.connection.publish("a/b", b"small", 1)
            await until(lambda: us.payloads[-1:] == [b"small"])
            assert len(us.messages) == 6
            assert all(FRAME_BYTES_MAX < len(payload) <= READ_BYTES_MAX + 65_536 for payload in us.payloads[:5])
            assert us.down == []

    asyncio.run(scenario())


def test_a_topic_that_has_a_number_means_the_same(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        async with (
            mosquitto(tmp_path, "max_topic_alias 2") as port,
            person(client, port, "reader", TopicSubscription("#", 0)) as reader,
            person(client, port, "writer", TopicSubscription("nothing", 0), has_few_topics=True) as writer,
        ):
            topics = ["one", "two", "three", "one", "three", "two", "one"]
            for number, topic in enumerate(topics):
                assert writer.connection.publish(topic, b"%d" % number, 0)
            assert writer.connection.publish("one", b"last", 0, user_properties=(("a", "b"),))
            await until(lambda: len(reader.messages) == len(topics) + 1)
            assert [message.topic for message in reader.messages] == [*topics, "one"]

    asyncio.run(scenario())


def test_no_more_is_in_flight_than_the_broker_takes(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        async with mosquitto(tmp_path, "max_inflight_messages 3") as port, person(client, port, "us", wish) as us:
            for number in range(200):
                assert us.connection.publish("a/b", str(number).encode(), 1)
            await until(lambda: len(us.messages) == 200)
            assert us.payloads == [str(number).encode() for number in range(200)]
            assert us.down == []  # a broker ends the connection of whoever sends more

    asyncio.run(scenario())


def test_a_broker_that_keeps_nothing_retained_gets_the_message_all_the_same(tmp_path: Path, client: str) -> None:
    async def scenario() -> None:
        wish = TopicSubscription("a/#", 1)
        async with mosquitto(tmp_path, "retain_available false") as port, person(client, port, "us", wish) as us:
            us.connection.publish("a/b", b"x", 1, retain=True)
            await until(lambda: us.payloads == [b"x"])
            assert us.down == []

    asyncio.run(scenario())
