"""The client for asyncio when it is cancelled, without a connection, and while its connection is exchanged."""

import asyncio
import json
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import aio
from mqloom.core.errors import BrokerError
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_relay import Relay
from mqloom.lab.ports import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
HOST = "127.0.0.1"
WAIT_S_MAX = 20.0
HELD_S = 0.5
TICK_S = 0.01
UNAVAILABLE = b"\x20\x02\x00\x03"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("aio")
    (port,) = free_ports(1)
    (folder / "mosquitto.conf").write_text(f"listener {port} {HOST}\nallow_anonymous true\n")
    with mosquitto_process(folder / "mosquitto.conf", port):
        yield port


def run(program: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(program, WAIT_S_MAX))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "paho" in thread.name]


# ---- entering that is cancelled --------------------------------------------------------------------------------------


@contextmanager
def silent_broker() -> Iterator[socket.socket]:
    """Accept connections, and say nothing."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(WAIT_S_MAX)
        yield server


def test_entering_that_takes_too_long_for_the_program_leaves_no_connection_and_no_thread() -> None:
    async def program() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), aio.Client(port=server.getsockname()[1], client_id="hasty"):
                pass
        assert threads() == []

    with silent_broker() as server:
        run(program())
        connection, _ = server.accept()
        with connection:
            connection.settimeout(WAIT_S_MAX)
            while connection.recv(4_096):
                pass  # CONNECT and DISCONNECT; then it is closed


def test_what_connects_while_entering_is_cancelled_is_left_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    connecting, is_cancelled = threading.Event(), threading.Event()
    connect = aio.Client._connect

    def late(client: aio.Client) -> None:
        connecting.set()
        assert is_cancelled.wait(WAIT_S_MAX)
        connect(client)

    async def program() -> None:
        client = aio.Client(port=port, client_id="late")
        entering = asyncio.create_task(client.__aenter__())
        await asyncio.to_thread(connecting.wait)
        entering.cancel()
        await asyncio.sleep(0)
        is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert client._client.socket() is None
        assert threads() == []

    monkeypatch.setattr(aio.Client, "_connect", late)
    run(program())


def test_one_that_was_cancelled_can_be_entered_again(port: int) -> None:
    async def program() -> None:
        client = aio.Client(port=port, client_id="again")
        entering = asyncio.create_task(client.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        async with client:
            await client.subscribe("rooms/#")
            await client.publish("rooms/1", json.dumps(1), qos=1)
            assert (await anext(client)).payload == b"1"

    run(program())


# ---- without a connection --------------------------------------------------------------------------------------------


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_published_without_a_connection_waits_for_it_and_then_is_an_error(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        relay = Relay(port)
        async with aio.Client(port=relay.port, client_id="waiting") as client:
            relay.refusal = UNAVAILABLE
            relay.cut()
            await asyncio.to_thread(until, lambda: not client._client.is_connected())
            with monkeypatch.context() as patch:
                patch.setattr(aio, "ACKNOWLEDGE_S", 0.2)
                with pytest.raises(BrokerError, match=r"not acknowledged within 0\.2 s"):
                    await client.publish("rooms/1", b"first", qos=1)
            publishing = asyncio.create_task(client.publish("rooms/1", b"second", qos=1))
            await asyncio.sleep(0)
            relay.refusal = b""
            await publishing
        relay.close()
        assert [came.get(timeout=WAIT_S_MAX) for _ in range(2)] == [b"first", b"second"]

    came: queue.Queue[bytes] = queue.Queue()
    listener = PahoClient(CallbackAPIVersion.VERSION2)
    listener.on_message = lambda _c, _u, message: came.put(bytes(message.payload))
    listener.connect(HOST, port)
    subscribed = threading.Event()
    listener.on_subscribe = lambda *_: subscribed.set()
    listener.subscribe("rooms/1", 1)
    listener.loop_start()
    assert subscribed.wait(WAIT_S_MAX)
    run(program())
    listener.disconnect()
    listener.loop_stop()


# ---- while one connection is exchanged for another -------------------------------------------------------------------


@asynccontextmanager
async def exchanging(client: aio.Client) -> AsyncIterator[list[float]]:
    """Let an exchange be under way for HELD_S; yields the times at which the program's loop got its turn."""
    held = threading.Event()

    def exchange() -> None:
        with client._client._gate.closed():
            held.set()
            time.sleep(HELD_S)

    async def tick() -> None:
        while True:
            turns.append(time.monotonic())
            await asyncio.sleep(TICK_S)

    turns: list[float] = []
    thread = threading.Thread(target=exchange)
    thread.start()
    held.wait()
    ticking = asyncio.create_task(tick())
    yield turns
    thread.join()
    ticking.cancel()


def gap(turns: list[float]) -> float:
    return max(later - sooner for sooner, later in pairwise(turns))


@pytest.mark.parametrize("call", ["publish", "subscribe", "unsubscribe", "leave"])
def test_no_call_holds_up_the_programs_loop_while_a_connection_is_exchanged(port: int, call: str) -> None:
    async def program() -> None:
        client = aio.Client(port=port, federation=False)
        await client.__aenter__()
        calls: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "publish": lambda: client.publish("rooms/1", b"1", qos=1),
            "subscribe": lambda: client.subscribe("rooms/#"),
            "unsubscribe": lambda: client.unsubscribe("rooms/#"),
            "leave": lambda: client.__aexit__(None, None, None),
        }
        began = time.monotonic()
        async with exchanging(client) as turns:
            await calls[call]()
            assert time.monotonic() - began >= HELD_S
        assert gap(turns) < HELD_S / 2
        await client.__aexit__(None, None, None)

    run(program())


def test_what_is_called_in_an_exchange_is_sent_behind_it_in_the_order_of_the_calls(port: int) -> None:
    async def program() -> None:
        async with aio.Client(port=port, federation=False) as client:
            await client.subscribe("rooms/#")
            async with exchanging(client):
                tasks = [asyncio.create_task(client.publish("rooms/1", str(n), qos=n % 2)) for n in range(20)]
                await asyncio.sleep(0)
                tasks[3].cancel()  # nothing of it was sent
            tasks += [asyncio.create_task(client.publish("rooms/1", str(n), qos=1)) for n in range(20, 25)]
            await asyncio.gather(*tasks, return_exceptions=True)
            found = [int((await anext(client)).payload) for _ in range(24)]
        assert found == [n for n in range(25) if n != 3]

    run(program())
