"""A running gateway whose broker comes back without its store says so: on a real Mosquitto without persistence."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.gateway.drivers.mqtt_clients import MQTT_CLIENTS
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("client", MQTT_CLIENTS)
def test_it_is_counted_and_the_log_says_what_is_lost(
    tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MIN", 0.1)
    monkeypatch.setattr("mqloom.gateway.drivers.protocols.RECONNECT_S_MAX", 0.5)
    port = free_port()
    broker, path = tmp_path / "mosquitto.conf", tmp_path / "federation.toml"
    broker.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    path.write_text(
        f'[federation]\nname = "one"\ndata = ["stocks/#"]\nmqtt_client = "{client}"\n'
        f'[[brokers]]\nid = "west"\nport = {port}\n'
    )

    async def scenario() -> None:
        driver = build_driver(load_federation(path), GatewayId("west"))
        task = asyncio.create_task(driver.run())
        counters = driver.node.counters
        with mosquitto_process(broker, port):
            await wait_until_ready(driver, 20)
            assert counters.total("broker_sessions_lost") == 0
        with mosquitto_process(broker, port):
            await until(lambda: counters.reasons("broker_sessions_lost") == {"intake": 1})
        driver.stop()
        await task

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    (line,) = [each.getMessage() for each in caplog.records if "broker_sessions_lost" in each.getMessage()]
    assert "the broker west does not know our session any more" in line
