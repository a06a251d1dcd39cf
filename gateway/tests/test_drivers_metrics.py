"""The page for Prometheus over real sockets: what is served, what is refused, and what is bounded."""

import asyncio
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqloom.core.errors import LocalError
from mqloom.core.limits import METRICS_CONNECTIONS_MAX, METRICS_REQUEST_BYTES_MAX
from mqloom.gateway.drivers import metrics
from mqloom.gateway.drivers.metrics import MetricsAddress, MetricsServer, process_figures
from mqloom.lab.demo_thread import gateways_in_thread, write_chain
from mqloom.lab.ports import free_ports

HERE = MetricsAddress("127.0.0.1", 0)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_the_page_is_served_and_nothing_else() -> None:
    async def run() -> None:
        async with MetricsServer(HERE, lambda: "a_total 1\n") as server:
            answer = await ask(server.port, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
            assert answer.endswith(b"\r\n\r\na_total 1\n")
            assert (await ask(server.port, b"HEAD /metrics HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
            assert b" 404 " in await ask(server.port, b"GET / HTTP/1.1\r\n\r\n")
            assert b" 405 " in await ask(server.port, b"POST /metrics HTTP/1.1\r\n\r\n")

    asyncio.run(run())


def test_a_request_without_end_is_refused_and_a_slow_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with MetricsServer(HERE, lambda: "") as server:
            assert b" 431 " in await ask(server.port, b"GET /" + b"x" * METRICS_REQUEST_BYTES_MAX)
            monkeypatch.setattr(metrics, "METRICS_REQUEST_S", 0.05)
            assert await ask(server.port, b"GET /metrics") == b""

    asyncio.run(run())


def test_a_connection_past_the_bound_is_closed_at_once_and_later_ones_are_served() -> None:
    async def run() -> None:
        async with MetricsServer(HERE, lambda: "a 1\n") as server:
            held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(METRICS_CONNECTIONS_MAX)]
            assert await ask(server.port, b"") == b""
            for reader, writer in held:
                writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert b" 200 " in await reader.read()
                writer.close()
            assert b" 200 " in await ask(server.port, b"GET /metrics HTTP/1.1\r\n\r\n")

    asyncio.run(run())


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do() -> None:
    async def run() -> None:
        async with MetricsServer(HERE, lambda: "") as server:
            with pytest.raises(LocalError, match=r"127\.0\.0\.1:\d+.*another `metrics_port`"):
                await MetricsServer(MetricsAddress("127.0.0.1", server.port), lambda: "").__aenter__()

    asyncio.run(run())


def test_the_process_has_used_some_time_and_memory() -> None:
    figures = process_figures()
    assert figures.cpu_s > 0
    assert figures.resident_bytes is None or figures.resident_bytes > 1_000_000


def test_a_running_gateway_serves_its_metrics_where_its_configuration_says(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    (port,) = free_ports(1)
    write_chain(path, ("ONE", "TWO"))
    text = path.read_text()
    path.write_text(text.replace('adapter = "amqtt"', f'adapter = "amqtt"\nmetrics_port = {port}', 1))
    with gateways_in_thread(path, ("ONE", "TWO")), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        samples = {
            (sample.name, sample.labels.get("neighbour")): (sample.labels["gateway"], sample.value)
            for family in text_string_to_metric_families(page.read().decode())
            for sample in family.samples
        }
    assert samples["mqloom_broker_up", None] == ("ONE", 1.0)
    assert samples["mqloom_link_up", "TWO"] == ("ONE", 1.0)
    assert samples["mqloom_frames_received_total", None][1] > 0
