"""The client for asyncio on a real Mosquitto with a real gateway."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage

from mqloom.client import aio
from mqloom.client.limits import BACKLOG_MAX
from mqloom.core.errors import BrokerError, FilterError
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
WAIT_S_MAX = 20.0
HOT = "volume > 300000"
BROKER = "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
FEDERATION = '[federation]\nname = "one"\ndata = ["stocks/#"]\n[[brokers]]\nid = "WEST"\nport = {port}\n'


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("aio")
    (port,) = free_ports(1)
    (folder / "mosquitto.conf").write_text(BROKER.format(port=port))
    (folder / "federation.toml").write_text(FEDERATION.format(port=port))
    with mosquitto_process(folder / "mosquitto.conf", port), gateways_in_thread(folder / "federation.toml", ["WEST"]):
        yield port


def run(program: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(program, WAIT_S_MAX))


async def publish(port: int, *volumes: int, topic: str = "stocks/YHOO") -> None:
    async with aio.Client(port=port) as client:
        for volume in volumes:
            await client.publish(topic, json.dumps({"volume": volume}), qos=1)


async def volumes(client: aio.Client, count: int) -> list[int]:
    found: list[int] = []
    async for message in client:
        found.append(json.loads(message.payload)["volume"])
        if len(found) == count:
            break
    return found


def test_subscribing_by_content_and_iterating(port: int) -> None:
    async def program() -> None:
        async with aio.Client(port=port, federation=True) as client:
            await client.subscribe("stocks/#", where=HOT)
            assert client.broker == "WEST"
            await publish(port, 5, 400_000, 6, 400_001)
            assert await volumes(client, 2) == [400_000, 400_001]
            assert client.stats().received == 2
            await client.unsubscribe("stocks/#")

    run(program())


def test_outside_a_federation_it_is_a_plain_client(port: int) -> None:
    async def program() -> None:
        async with aio.Client(port=port, federation=False) as client:
            await client.subscribe("rooms/#", 1)
            await publish(port, 1, topic="rooms/2")
            assert await volumes(client, 1) == [1]
            assert client.broker is None

    run(program())


def test_what_is_wrong_is_raised_where_it_is_awaited(port: int) -> None:
    async def program() -> None:
        async with aio.Client(port=port, federation=True) as client:
            with pytest.raises(FilterError):
                await client.subscribe("stocks/#", where="volume >> 3")
            with pytest.raises(BrokerError, match="only stocks/# take part"):
                await client.subscribe("rooms/#")

    run(program())


def test_a_broker_that_is_not_there_is_named() -> None:
    async def program() -> None:
        (port,) = free_ports(1)
        with pytest.raises(BrokerError, match=f"127.0.0.1:{port}: cannot be reached"):
            async with aio.Client(port=port):
                pass

    run(program())


def test_iterating_ends_with_the_connection(port: int) -> None:
    async def program() -> None:
        async with aio.Client(port=port) as client:
            iterating = asyncio.create_task(volumes(client, 1))
            await asyncio.sleep(0)
        assert await iterating == []

    run(program())


def test_a_message_on_which_the_body_raised_comes_again(port: int) -> None:
    async def program() -> None:
        async def life() -> list[int]:
            async with aio.Client(port=port, client_id="raising", clean_session=False, federation=True) as client:
                await client.subscribe("stocks/#")
                if not lives:
                    await publish(port, *range(1, 101))
                taken: list[int] = []
                async for message in client:
                    taken.append(json.loads(message.payload)["volume"])
                    if not lives:
                        raise RuntimeError("in trouble")
                    if taken[-1] == 100:
                        await client.unsubscribe("stocks/#")
                        break
            return taken

        lives: list[int] = []
        with pytest.raises(RuntimeError, match="in trouble"):
            await life()
        lives.append(1)
        assert await life() == list(range(1, 101))

    run(program())


def test_of_qos_0_only_so_many_wait() -> None:
    async def program() -> None:
        client = aio.Client()
        for _ in range(BACKLOG_MAX + 3):
            client._on_message(None, None, MQTTMessage(topic=b"t"))
        assert client.dropped == 3

    run(program())
