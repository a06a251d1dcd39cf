"""docs/client.md does what it says, on a real Mosquitto with a real gateway."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqloom.client import Client, Federation, Stats, aio
from mqloom.core.command import main
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CHANGES = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BROKER = "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
FEDERATION = '[federation]\nname = "docs"\ndata = ["stocks/#"]\n[[brokers]]\nid = "WEST"\nport = {port}\n'
WAIT_S_MAX = 20.0
COLD, HOT = '{"symbol": "IBM", "volume": 5}', '{"symbol": "YHOO", "volume": 500000}'
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("docs")
    (port,) = free_ports(1)
    (folder / "mosquitto.conf").write_text(BROKER.format(port=port))
    (folder / "federation.toml").write_text(FEDERATION.format(port=port))
    with mosquitto_process(folder / "mosquitto.conf", port), gateways_in_thread(folder / "federation.toml", ["WEST"]):
        yield port


def changed(program: str, change: str) -> str:
    """Apply a difference of the page: each line with a minus becomes the one with a plus behind it."""
    lines = [line for line in change.splitlines() if line]
    for old, new in zip(lines[::2], lines[1::2], strict=True):
        assert (old[0], new[0]) == ("-", "+")
        assert program.count(old[1:] + "\n") == 1, old
        program = program.replace(old[1:] + "\n", new[1:] + "\n")
    return program


def printed(program: str, port: int, count: int) -> list[str]:
    """Run a program that does not end, publish until it has printed so many lines, and return them."""
    environment = {name: text for name, text in os.environ.items() if name != "MQLOOM_FEDERATION"}
    words = [sys.executable, "-c", program, str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        timer = threading.Timer(WAIT_S_MAX, process.kill)
        timer.start()
        done = threading.Event()
        publishing = threading.Thread(target=publish_until, args=(done, port))
        publishing.start()
        assert process.stdout is not None
        lines = [process.stdout.readline().rstrip("\n") for _ in range(count)]
        done.set()
        publishing.join()
        timer.cancel()
        process.kill()
    return lines


def publish_until(done: threading.Event, port: int) -> None:
    while not done.wait(0.2):
        main(["pub", "stocks/IBM", COLD, "--port", str(port)])
        main(["pub", "stocks/YHOO", HOT, "--port", str(port)])


@needs_mosquitto
def test_a_program_for_paho_becomes_one_by_content_in_two_steps(port: int) -> None:
    program = PROGRAMS[0]
    everything = {f"stocks/IBM {COLD}", f"stocks/YHOO {HOT}"}
    assert set(printed(program, port, 4)) == everything
    program = changed(program, CHANGES[0])
    assert "mqloom" in program
    assert "paho.mqtt.client" not in program
    assert set(printed(program, port, 4)) == everything
    assert set(printed(changed(program, CHANGES[1]), port, 4)) == {f"stocks/YHOO {HOT}"}


@needs_mosquitto
def test_the_program_for_asyncio_works_as_it_is_written(port: int) -> None:
    assert printed(PROGRAMS[1], port, 3) == ["established at WEST", f"stocks/YHOO {HOT}", f"stocks/YHOO {HOT}"]


def test_what_is_new_is_on_the_page() -> None:
    fields = [*Federation.__dataclass_fields__, *Stats.__dataclass_fields__]
    callbacks = ["on_established", "on_refused", "on_migrated"]
    for name in [*fields, *callbacks, "client.broker", "client.stats()", "where", "local=True"]:
        assert f"`{name}" in PAGE or f"{name}`" in PAGE, name
    assert {*callbacks, "broker", "stats"} <= set(dir(Client))
    assert {"broker", "stats", "dropped", "on_migrated"} <= {*dir(aio.Client), *vars(aio.Client())}
