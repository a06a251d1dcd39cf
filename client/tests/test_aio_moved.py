"""The client for asyncio, moved between real Mosquittos while publications flow."""

import asyncio
import json
from pathlib import Path

import pytest

from mqloom.client import aio
from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.demo_town import EAST, WEST, running_town

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
WAIT_S_MAX = 30.0


def test_the_loop_over_messages_goes_on_and_misses_nothing(tmp_path: Path) -> None:
    moves: list[tuple[str, str]] = []

    async def program() -> None:
        client = aio.Client(port=town.ports[WEST], client_id="aio", clean_session=False, federation=town.federation)
        client.on_migrated = lambda source, to: moves.append((source, to))
        found: set[int] = set()
        async with client:
            await client.subscribe("stocks/#")
            with town.publishing() as sent:
                move = asyncio.create_task(asyncio.to_thread(town.migrate, "aio", EAST))
                async for message in client:
                    number = json.loads(message.payload)["number"]
                    assert number not in found
                    found.add(number)
                    if move.done() and len(found) > 200:
                        break
                assert await move == 0
            while not found >= set(sent):  # perhaps all has come: then there is nothing to wait for
                message = await anext(client)
                found.add(json.loads(message.payload)["number"])
            assert client.broker == EAST

    with running_town(tmp_path) as town:
        asyncio.run(asyncio.wait_for(program(), WAIT_S_MAX))
    assert moves == [(WEST, EAST)]
