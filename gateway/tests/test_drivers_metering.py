"""A gateway on an embedded broker whose load is measured, and whose output is limited."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mqloom.core import layout
from mqloom.core.events import AcksReceived, FramesReceived, LocallyPublished, Started
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import Load
from mqloom.core.publication import Publication
from mqloom.core.records import decode_envelope
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import wait_until_ready
from mqloom.gateway.drivers.metering import machine_bytes
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received, TopicSubscription
from mqloom.gateway.drivers.mqtt_clients import make_connection
from mqloom.gateway.drivers.peers import Peers
from mqloom.gateway.interfaces import BrokerAddress
from mqloom.gateway.meters import OUTPUT_RATIO_MAX
from mqloom.gateway.pacing import Pacer

LOG = logging.LoggerAdapter(logging.getLogger("test"), {"gateway": "test"})
A, ME = GatewayId("A"), ClientId("me")
LIMIT = 20_000
PLUGIN = """
from mqloom.gateway.agent_interfaces import LoadSampled
from mqloom.gateway.hookspecs import hookimpl

LOADS = []


class Listening:
    name = "listening"

    def handle(self, event, now):
        if isinstance(event, LoadSampled):
            LOADS.append(event.load)
        return ()


@hookimpl
def mqloom_agent(gateway):
    return Listening()
"""


def write(folder: Path) -> tuple[Path, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (folder / "plugins.d").mkdir()
    (folder / "plugins.d" / "listening.py").write_text(PLUGIN)
    path = folder / "federation.toml"
    path.write_text(
        f"""
        [federation]
        name = "test"
        data = ["stocks/#"]
        load_window_s = 0.5
        [[brokers]]
        id = "A"
        port = {port}
        adapter = "amqtt"
        output_bytes_s_max = {LIMIT}
        """
    )
    return path, port


async def until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


def test_clients_get_no_more_than_the_limit_nothing_is_lost_and_agents_are_told_how_full_it_is(tmp_path: Path) -> None:
    path, port = write(tmp_path)
    record = {"subscriptions": {"all": {"topics": "stocks/#"}}, "format": "frame", "qos": 1}
    received: list[tuple[float, Received]] = []
    loads: list[Load] = []

    async def scenario() -> None:
        federation = load_federation(path)
        driver = build_driver(federation, A)
        running = asyncio.create_task(driver.run())
        await wait_until_ready(driver, 10)
        loop = asyncio.get_running_loop()
        out, control = layout.out(A, ME), layout.control(A, ME)
        answers: list[Received] = []

        def came(messages: list[Received]) -> None:
            answers.extend(each for each in messages if each.topic == control)
            received.extend((loop.time(), each) for each in messages if each.topic == out)

        up = asyncio.Event()
        plan = ConnectionPlan(
            address=BrokerAddress("127.0.0.1", port),
            client_id="me",
            clean_session=True,
            subscriptions=[TopicSubscription(out, 1), TopicSubscription(control, 1)],
            on_messages=came,
            on_up=up.set,
            on_down=lambda problem: None,
        )
        connection = make_connection(plan, LOG)
        connection.open()
        await asyncio.wait_for(up.wait(), 10)
        connection.publish(layout.record(A, ME), json.dumps(record).encode(), 1, retain=True)
        await until(lambda: bool(answers))
        for number in range(60):
            connection.publish("stocks/a", b"%03d" % number + b"x" * 997, 1)
        await until(lambda: len(payloads(received)) >= 60)
        module = next(each.module for each in federation.manager.plugins if each.name == "listening")
        loads.extend(module.LOADS)  # type: ignore[attr-defined]
        await connection.close()
        driver.stop()
        await running
        assert driver.node.counters.total("local_publishes_dropped") == 0

    asyncio.run(scenario())
    assert [payload[:3] for payload in payloads(received)] == [b"%03d" % number for number in range(60)]
    first, last = received[0][0], received[-1][0]
    size = sum(len(message.payload) for _, message in received[:-1])
    assert size / LIMIT * 0.9 <= last - first + 0.1
    assert all(load.output_bytes_s_max == LIMIT for load in loads)
    assert max(load.output_ratio for load in loads) > 0.8
    assert max(load.input_rate for load in loads) > 0
    assert max(load.delay_s for load in loads) > 0
    assert all(0 < load.memory_ratio < 1 for load in loads)


@pytest.mark.parametrize(("crowded", "output"), [(Peers, 0.0), (Pacer, OUTPUT_RATIO_MAX)])
def test_the_output_is_full_of_what_waits_for_our_own_broker_and_not_of_what_waits_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowded: type, output: float
) -> None:
    monkeypatch.setattr(crowded, "are_crowded" if crowded is Peers else "is_crowded", True)

    async def scenario() -> None:
        driver = build_driver(load_federation(write(tmp_path)[0]), A)
        driver.metering.end_window()
        assert driver.metering.load is not None
        assert driver.metering.load.output_ratio == output

    asyncio.run(scenario())


def payloads(received: list[tuple[float, Received]]) -> list[bytes]:
    found: list[Publication] = []
    for _, message in received:
        found += [each.publication for each in decode_envelope(message.payload)]
    return [each.payload for each in found]


def test_the_machine_says_how_much_memory_there_is() -> None:
    assert machine_bytes() > 1 << 26


def test_frames_and_acknowledgements_without_a_publication_are_not_the_time_of_publications(tmp_path: Path) -> None:
    path, _ = write(tmp_path)

    async def look() -> None:
        driver = build_driver(load_federation(path), A)
        add, frames = driver.node.counters.add, FramesReceived(sender=GatewayId("B"), frames=())
        assert not driver._is_data(frames, 0)
        add("publications_received")
        assert driver._is_data(frames, 0)
        assert not driver._is_data(frames, 1)
        acks = AcksReceived(neighbour=GatewayId("B"), acks=())
        assert not driver._is_data(acks, 1)
        add("publications_forwarded")
        assert driver._is_data(acks, 1)
        assert not driver._is_data(acks, 1)  # what else was acknowledged since
        assert driver._is_data(LocallyPublished(numbers=()), 1)
        assert not driver._is_data(Started(), 1)

    asyncio.run(look())
