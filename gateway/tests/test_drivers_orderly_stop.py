"""A gateway that is stopped in order has nothing handed over again that its broker had taken from it already."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.gateway.drivers.intake import IntakeDriver
from mqloom.gateway.drivers.mqtt import Connection, ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

WEST, READER = GatewayId("west"), ClientId("reader")
PUBLICATIONS = 20


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


async def run_once(path: Path, reader: Connection, came: list[Received], begin: int) -> None:
    """Start a gateway, publish some numbers one after the other, and stop it when all have come."""
    driver = build_driver(load_federation(path), WEST)
    outward = driver._outward
    task = asyncio.create_task(driver.run())
    await wait_until_ready(driver, 20)
    await until(lambda: driver.node.subscriptions == 1)
    for number in range(begin, begin + PUBLICATIONS):
        reader.publish("stocks/YHOO", json.dumps({"number": number}).encode(), 1)
        await until(lambda: len(came) > number)  # noqa: B023 - it is called in this turn
    await until(lambda: not outward._under_way)
    assert outward._published
    driver.stop()
    await task


def test_a_plain_subscriber_gets_nothing_twice_by_a_stop_and_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the broker acknowledges to the gateway is gathered, here for longer than the gateway runs.
    monkeypatch.setattr("mqloom.gateway.drivers.outward.PUBLISHED_EVERY_S", 60.0)
    monkeypatch.setattr("mqloom.gateway.drivers.outward.PUBLISHED_AT_ONCE", 1)
    monkeypatch.setattr(IntakeDriver, "owes", False)
    port = free_port()
    broker, path = tmp_path / "mosquitto.conf", tmp_path / "federation.toml"
    broker.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    path.write_text(f'federation = {{ name = "one", data = ["stocks/#"] }}\n[[brokers]]\nid = "west"\nport = {port}\n')
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}}
    came: list[Received] = []
    plan = ConnectionPlan(
        address=BrokerAddress("127.0.0.1", port),
        client_id="reader",
        clean_session=False,
        subscriptions=[TopicSubscription(f"{layout.out(WEST, READER)}/#", 1)],
        on_messages=came.extend,
        on_up=lambda: None,
        on_down=lambda problem: None,
    )

    async def scenario() -> None:
        with mosquitto_process(broker, port):
            reader = make_connection(plan, logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"}))
            reader.open()
            await until(lambda: reader.is_up)
            reader.publish(layout.record(WEST, READER), json.dumps(record).encode(), 1, retain=True)
            for begin in (0, PUBLICATIONS):
                await run_once(path, reader, came, begin)
            await reader.close()

    asyncio.run(scenario())
    assert [json.loads(each.payload)["number"] for each in came] == list(range(2 * PUBLICATIONS))
