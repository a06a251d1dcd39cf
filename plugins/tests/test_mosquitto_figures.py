"""A Mosquitto's figures of itself: what is read of $SYS, and what a gateway makes of it beside a real one."""

import asyncio
import getpass
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.topics import topic_matches
from mqloom.gateway.assembly import build_driver
from mqloom.gateway.configuration_checks import load_federation
from mqloom.gateway.drivers.gateway import GatewayDriver, wait_until_ready
from mqloom.gateway.interfaces import BrokerAddress, BrokerFigures, FiguresAdapter
from mqloom.plugins.mosquitto_adapter import MosquittoAdapter
from mqloom.plugins.mosquitto_figures import FIGURES_MAX, MEMORY, NAME_LENGTH_MAX, ROOT, TOPICS, MosquittoFigures
from mqloom.plugins.mqtt_adapter import MqttAdapter

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
real = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
A = GatewayId("A")


def heard(**messages: str) -> dict[str, float]:
    read = MosquittoFigures()
    for name, payload in messages.items():
        read.heard(ROOT + name, payload)
    return dict(read.figures().named)


def test_numbers_are_kept_by_their_names_sorted_and_seconds_are_numbers() -> None:
    read = MosquittoFigures()
    for name, payload in (("uptime", "17 seconds"), ("heap/current", "33752"), ("load/bytes/sent/1min", "0.25")):
        read.heard(ROOT + name, payload)
    figures = read.figures()
    assert list(figures.named.items()) == [("heap/current", 33_752.0), ("load/bytes/sent/1min", 0.25), ("uptime", 17.0)]
    assert figures.memory_bytes == 33_752.0


@pytest.mark.parametrize("payload", ["", "mosquitto version 2.0.11", "nan", "inf", "1e999", "12 fortnights"])
def test_what_is_no_number_is_passed_over(payload: str) -> None:
    assert heard(version=payload) == {}


def test_of_averages_only_the_shortest_are_kept() -> None:
    averages = {f"load/messages/sent/{span}": "1" for span in ("1min", "5min", "15min")}
    assert list(heard(**averages)) == ["load/messages/sent/1min"]


def test_topics_of_others_and_names_that_are_too_long_are_passed_over() -> None:
    read = MosquittoFigures()
    read.heard("other/heap/current", "1")
    read.heard(ROOT + "x" * (NAME_LENGTH_MAX + 1), "1")
    assert read.figures() == BrokerFigures({}, None)


def test_there_is_a_bound_and_what_is_known_still_changes_there() -> None:
    read = MosquittoFigures()
    for number in range(FIGURES_MAX + 5):
        read.heard(f"{ROOT}messages/{number}", "1")
    read.heard(f"{ROOT}messages/0", "2")
    assert len(read.figures().named) == FIGURES_MAX
    assert read.figures().named["messages/0"] == 2


def test_what_a_broker_out_of_reach_has_said_does_not_count() -> None:
    read = MosquittoFigures()
    read.heard(ROOT + MEMORY, "5")
    read.forget()
    assert read.figures() == BrokerFigures({}, None)


def test_the_log_is_no_figure_and_figures_come_once() -> None:
    assert not any(topic_matches(topics, "$SYS/broker/log/M/subscribe") for topics in TOPICS)
    assert sum(topic_matches(topics, "$SYS/broker/heap/current") for topics in TOPICS) == 1


def test_who_says_nothing_of_himself_has_no_figures() -> None:
    address = BrokerAddress("127.0.0.1", 1)
    assert not isinstance(MqttAdapter(address), FiguresAdapter)

    async def look() -> None:
        adapter = MosquittoAdapter(address)
        assert isinstance(adapter, FiguresAdapter)
        assert adapter.figures().named == {}

    asyncio.run(look())


@asynccontextmanager
async def gateway(folder: Path, more: str = "", access: str = "") -> AsyncIterator[GatewayDriver]:
    """A gateway beside a Mosquitto that speaks of itself each second."""
    assert MOSQUITTO is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "sys_interval 1", "log_dest none"]
    if access:
        (folder / "access").write_text(access)
        lines += [f"acl_file {folder / 'access'}", f"user {getpass.getuser()}"]  # who can read it
    (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    (folder / "federation.toml").write_text(
        f'[federation]\nname = "test"\ndata = ["stocks/#"]\nload_window_s = 0.2\n'
        f'[[brokers]]\nid = "A"\nport = {port}\nadapter = "mosquitto"\n{more}\n'
    )
    broker = subprocess.Popen([MOSQUITTO, "-c", folder / "mosquitto.conf"], stderr=subprocess.DEVNULL)
    try:
        driver = build_driver(load_federation(folder / "federation.toml"), A)
        running = asyncio.create_task(driver.run())
        await wait_until_ready(driver, 20)
        yield driver
        driver.stop()
        await running
    finally:
        broker.terminate()
        broker.wait(10)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


@real
def test_a_gateway_reports_what_its_mosquitto_says_and_its_memory_counts_where_it_is_said_what_it_may_have(
    tmp_path: Path,
) -> None:
    async def look() -> None:
        async with gateway(tmp_path, "broker_memory_bytes_max = 1000") as driver:
            await until(lambda: driver.metering.broker.get("clients/connected", 0) >= 4)
            named = driver.metering.broker
            assert named[MEMORY] > 1_000
            assert named["uptime"] >= 0
            assert "load/messages/received/1min" in named
            assert driver.telemetry.broker_figures().keys() == named.keys()
            await until(lambda: driver.metering.load is not None and driver.metering.load.memory_ratio > 1)

    asyncio.run(look())


@real
def test_an_access_list_that_hides_the_figures_costs_the_gateway_nothing_else(
    tmp_path: Path,
) -> None:
    async def look() -> None:
        access = "topic readwrite #\ntopic readwrite mqloom/#\ntopic read $SYS/broker/log/#\n"
        async with gateway(tmp_path, access=access) as driver:
            await until(lambda: driver.metering.load is not None)
            assert driver.metering.broker == {}

    asyncio.run(look())
