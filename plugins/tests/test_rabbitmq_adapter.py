"""The adapter `rabbitmq` and a server that answers as RabbitMQ's management interface does."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import BrokerAddress, InterestAdapter
from mqloom.plugins.rabbitmq_adapter import RabbitmqAdapter, RabbitmqSettings, mqloom_adapter, mqloom_check

PATH = "/api/exchanges/%2F/amq.topic/bindings/source"
SECRET = "Basic Z3Vlc3Q6Z3Vlc3Q="


class Management:
    """What the server answers, and how often it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.wanted = ["stocks.#"]
        self.asked: list[tuple[str, str | None]] = []
        self.port = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        management = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                management.asked.append((self.path, self.headers["Authorization"]))
                keys = {"destination": "mqtt-subscription-annqos1", "destination_type": "queue"}
                body = json.dumps([keys | {"routing_key": key} for key in management.wanted]).encode()
                self.send_response(management.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name in the library
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def test_what_clients_want_is_known_at_the_start_and_followed(caplog: pytest.LogCaptureFixture) -> None:
    management = Management()

    async def scenario() -> None:
        settings = RabbitmqSettings(port=management.port, every_s=0.1)
        adapter = RabbitmqAdapter(settings, BrokerAddress("127.0.0.1", 1883))
        told: list[list[str]] = []
        adapter.watch(GatewayId("A"), lambda filters, _=0: told.append(list(filters)))
        await adapter.start()
        assert told == [["stocks/#"]]
        assert management.asked == [(PATH, SECRET)]
        management.wanted.append("weather.*")
        await until(lambda: len(told) == 2)
        management.status = 401
        asked = len(management.asked)
        await until(lambda: len(management.asked) > asked + 2)
        management.status = 200
        management.wanted.clear()
        await until(lambda: len(told) == 3)
        await adapter.stop()
        assert told[1:] == [["stocks/#", "weather/+"], []]

    with management.running():
        asyncio.run(scenario())
    assert "it answers 401 Unauthorized; has the user the tag" in caplog.text
    assert caplog.text.count("(1 times)") == 1


def test_where_nobody_answers_the_gateway_starts_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        adapter = RabbitmqAdapter(RabbitmqSettings(port=1), BrokerAddress("127.0.0.1", 1883))
        adapter.watch(GatewayId("A"), lambda filters, _=0: None)
        await adapter.start()
        await adapter.stop()

    asyncio.run(scenario())
    assert "127.0.0.1:1 does not tell what clients want" in caplog.text


def test_it_is_offered_with_its_settings_and_mistakes_are_explained() -> None:
    kind = mqloom_adapter({"port": 15_673, "every_s": 1.0})
    assert kind.name == "rabbitmq"
    assert isinstance(kind.build(BrokerAddress("127.0.0.1", 1883)), InterestAdapter)
    assert mqloom_check({"port": 15_673}) == []
    (problem,) = mqloom_check({"prot": 1})
    assert "port" in problem
