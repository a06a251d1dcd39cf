"""The embedded broker: a connection on which it stumbles costs nobody else anything."""

import asyncio
import socket

import pytest

from mqloom.gateway.interfaces import BrokerAddress
from mqloom.plugins.amqtt_adapter import AmqttAdapter, _Steady


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


def test_stopping_what_never_started_is_no_mistake() -> None:
    async def run() -> None:
        await AmqttAdapter(BrokerAddress("127.0.0.1", 1)).stop()

    asyncio.run(run())
