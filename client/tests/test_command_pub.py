import argparse
import asyncio
import io
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from amqtt.broker import Broker
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.client import command_pub
from mqloom.client.limits import ACKNOWLEDGE_S, UNACKNOWLEDGED_MAX
from mqloom.core.errors import BrokerError, LocalError, TopicError
from mqloom.lab.ports import free_port

HOST = "127.0.0.1"
WAIT_S_MAX = 10.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run a broker in a thread of its own."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> Broker:
        plugins: dict[str, dict[str, object]] = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}}
        broker = Broker({"listeners": {"default": {"type": "tcp", "bind": f"{HOST}:{port}"}}, "plugins": plugins})
        await broker.start()
        return broker

    broker = asyncio.run_coroutine_threadsafe(start(), loop).result(WAIT_S_MAX)
    yield port
    asyncio.run_coroutine_threadsafe(broker.shutdown(), loop).result(WAIT_S_MAX)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def heard(port: int) -> Iterator["queue.SimpleQueue[tuple[str, bytes]]"]:
    """Listen to everything below `stocks/`."""
    messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
    granted = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: messages.put((message.topic, bytes(message.payload)))
    client.on_subscribe = lambda *_: granted.set()
    client.connect(HOST, port)
    client.loop_start()
    client.subscribe("stocks/#", 1)
    assert granted.wait(WAIT_S_MAX)
    yield messages
    client.disconnect()
    client.loop_stop()


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command_pub.configure(parser)
    return command_pub.run(parser.parse_args(words))


@pytest.mark.parametrize("qos", ["0", "1"])
def test_a_publication_that_the_broker_took_is_exit_code_0(
    port: int, heard: "queue.SimpleQueue[tuple[str, bytes]]", qos: str
) -> None:
    assert run("stocks/YHOO", "ä", "--qos", qos, "--port", str(port)) == 0
    assert heard.get(timeout=WAIT_S_MAX) == ("stocks/YHOO", "ä".encode())


def test_every_line_of_stdin_is_a_publication(
    port: int, heard: "queue.SimpleQueue[tuple[str, bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {number}".encode() for number in range(2 * UNACKNOWLEDGED_MAX)]
    stdin = io.TextIOWrapper(io.BytesIO(b"\n".join([b"first\r", b"", *lines])))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("stocks/YHOO", "--stdin", "--port", str(port)) == 0
    assert [heard.get(timeout=WAIT_S_MAX)[1] for _ in range(len(lines) + 1)] == [b"first", *lines]


def test_a_file_is_one_publication(port: int, heard: "queue.SimpleQueue[tuple[str, bytes]]", tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x00\xff\n\x00")
    assert run("stocks/image", "--file", str(tmp_path / "image"), "--port", str(port)) == 0
    assert heard.get(timeout=WAIT_S_MAX) == ("stocks/image", b"\x00\xff\n\x00")


def test_a_file_that_is_not_there_is_said_before_the_broker_is_asked(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"--file: .*No such file"):
        run("stocks/image", "--file", str(tmp_path / "image"), "--port", str(free_port()))


@pytest.mark.parametrize("topic", ["stocks/#", "stocks/+/x", ""])
def test_a_topic_that_cannot_be_published_to_is_said_before_the_broker_is_asked(topic: str) -> None:
    with pytest.raises(TopicError):
        run(topic, "x", "--port", str(free_port()))


@pytest.mark.parametrize(
    "words", [[], ["x", "--stdin"], ["x", "--file", "y"], ["x", "--qos", "2"], ["x", "--port", "0"]]
)
def test_what_cannot_be_meant_is_a_usage_mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("stocks/YHOO", *words)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_said() -> None:
    port = str(free_port())
    with pytest.raises(BrokerError, match=f"broker at 127.0.0.1:{port}: cannot be reached"):
        run("stocks/YHOO", "x", "--port", port)


def test_somebody_else_on_that_port_is_said() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()

        def hang_up() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(BrokerError, match="hangs up instead of answering"):
            run("stocks/YHOO", "x", "--port", str(listener.getsockname()[1]))
        thread.join()


def test_a_broker_that_does_not_acknowledge_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts the connection, and then is silent."""
    monkeypatch.setattr(command_pub, "ACKNOWLEDGE_S", 0.2)
    monkeypatch.setattr("mqloom.client.connecting.LEAVE_S", 0.0)
    assert ACKNOWLEDGE_S > 0.2
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()

        def accept_and_be_silent() -> None:
            connection = listener.accept()[0]
            with connection:
                connection.recv(1024)
                connection.sendall(b"\x20\x02\x00\x00")  # CONNACK
                while connection.recv(1024):
                    pass

        thread = threading.Thread(target=accept_and_be_silent)
        thread.start()
        expected = "not acknowledged within 0.2 s; of 1 publications sent 0 were acknowledged in order"
        with pytest.raises(BrokerError, match=expected):
            run("stocks/YHOO", "x", "--port", str(listener.getsockname()[1]))
        thread.join()


def test_a_broker_that_refuses_us_is_said() -> None:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()

        def refuse() -> None:
            connection = listener.accept()[0]
            with connection:
                connection.recv(1024)
                connection.sendall(b"\x20\x02\x00\x05")  # CONNACK: not authorized
                while connection.recv(1024):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(BrokerError, match="refuses us: Not authorized; see --username and --password-env"):
            run("stocks/YHOO", "x", "--port", str(listener.getsockname()[1]))
        thread.join()


def test_a_password_comes_from_the_environment_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQLOOM_TEST_PASSWORD", raising=False)
    words = ["stocks/YHOO", "x", "--port", str(free_port()), "--password-env", "MQLOOM_TEST_PASSWORD"]
    with pytest.raises(LocalError, match="no variable MQLOOM_TEST_PASSWORD"):
        run(*words, "--username", "me")
    monkeypatch.setenv("MQLOOM_TEST_PASSWORD", "secret")
    with pytest.raises(LocalError, match="needs a --username"):
        run(*words)
    with pytest.raises(BrokerError) as failed:
        run(*words, "--username", "me")
    assert "secret" not in str(failed.value)
