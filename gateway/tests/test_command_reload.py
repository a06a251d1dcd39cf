"""`mqloom reload` to a gateway on a real Mosquitto: what it prints when it is obeyed, refused, or not heard."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import free_ports

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")

TEXT = """
[federation]
name = "one"
data = ["stocks/#"]
KEY
[[brokers]]
id = "west"
port = PORT
"""


@contextlib.contextmanager
def running(path: Path) -> Iterator[None]:
    """Run the gateway of this file."""
    log = path.with_name("gateway.log")
    command = [sys.executable, "-c", "from mqloom.core.command import main; main()", "gateway"]
    with log.open("wb") as file:
        process = subprocess.Popen([*command, "-c", str(path), "--name", "west"], stderr=file)
    try:
        deadline = time.monotonic() + 20
        while "serving the broker" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        assert process.wait(20) == 0


@pytest.fixture(params=["open", "sealed"])
def federation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return the configuration of a federation of one broker, which runs; with a key and without."""
    (port,) = free_ports(1)
    key = ""
    if request.param == "sealed":
        assert main(["keys", "new", str(tmp_path / "keys.toml")]) == 0
        key = 'key_file = "keys.toml"'
    path, broker = tmp_path / "federation.toml", tmp_path / "mosquitto.conf"
    path.write_text(TEXT.replace("PORT", str(port)).replace("KEY", key))
    broker.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with mosquitto_process(broker, port):
        yield path


def test_it_prints_what_changed_what_waits_and_why_it_was_refused(
    federation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = federation.read_text()
    with running(federation):
        assert main(["reload", "-c", str(federation)]) == 0
        assert capsys.readouterr().out.endswith("west: nothing is changed\n")
        federation.write_text(text.replace('["stocks/#"]', '["stocks/#", "news/#"]\nmatcher = "scan"'))
        assert main(["reload", "west", "-c", str(federation)]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "west: changed now: federation.data",
            "west: changed in the file, but waits for a new start: federation.matcher",
        ]
        other = federation.with_name("other.toml")  # the command's own; the gateway reads what it was started with
        other.write_text(text)
        federation.write_text(text.replace("data =", "daten ="))
        assert main(["reload", "-c", str(other), "--json"]) == 1
        output = capsys.readouterr()
        answer = json.loads(output.out)
        assert answer["gateways"] == {}
        assert "daten" in answer["problems"]["west"]
        assert output.err.startswith("mqloom reload: west: it goes on as before: ")
    assert main(["reload", "-c", str(other)]) == 1
    assert "the gateway is not running" in capsys.readouterr().err
