"""`mqloom reload` to a gateway on a real Mosquitto: what it prints when it is obeyed, refused, or not heard."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from mqloom.core.command import main
from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.ports import free_ports

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


MORE = """
[[brokers]]
id = "east"
port = EAST
[[links]]
between = ["west", "east"]
[[subscriptions]]
broker = "east"
topics = "stocks/#"
where = "volume >= 0"
into = "all"
"""


@contextlib.contextmanager
def running(path: Path, name: str = "west") -> Iterator[Path]:
    """Run a gateway of this file; yields its log."""
    log = path.with_name(f"{name}.log")
    command = [sys.executable, "-c", "from mqloom.core.command import main; main()", "gateway"]
    with log.open("wb") as file:
        process = subprocess.Popen([*command, "-c", str(path), "--name", name], stderr=file)
    try:
        deadline = time.monotonic() + 20
        while "serving the broker" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield log
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


def test_load_agents_go_by_other_settings_at_once(federation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def mode() -> str:
        assert main(["balance", "status", "-c", str(federation), "--json"]) == 0
        return str(json.loads(capsys.readouterr().out)["gateways"]["west"]["mode"])

    text = federation.read_text()
    federation.write_text(text + '[plugins.settings.balance]\nmode = "advise"\n')
    with running(federation) as log:
        assert mode() == "advise"
        federation.write_text(text + '[plugins.settings.balance]\nmode = "on"\n')
        assert main(["reload", "-c", str(federation)]) == 0
        assert capsys.readouterr().out == "west: changed now: plugins: balance (other settings)\n"
        assert mode() == "on"
        federation.write_text(text + '[plugins.settings.balance]\nmode = "off"\n')
        assert main(["reload", "-c", str(federation)]) == 0
        assert main(["balance", "status", "-c", str(federation), "--json"]) == 1
        assert "there is no agent 'pie' at west" in capsys.readouterr().err
        assert "plugin_failures" not in log.read_text()


def test_a_broker_and_its_link_come_into_a_running_federation_and_leave_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = free_ports(2)
    path = tmp_path / "federation.toml"
    alone = TEXT.replace("PORT", str(ports[0])).replace("KEY", "")
    path.write_text(alone)
    came: list[bytes] = []
    with contextlib.ExitStack() as stack:
        for name, port in zip(("west", "east"), ports, strict=True):
            broker = tmp_path / f"{name}.conf"
            broker.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
            stack.enter_context(mosquitto_process(broker, port))
        west = stack.enter_context(running(path))
        path.write_text(alone + MORE.replace("EAST", str(ports[1])))
        stack.enter_context(running(path, "east"))
        assert main(["reload", "west", "-c", str(path)]) == 0
        assert "west: changed now: links: east-west (new)\n" in capsys.readouterr().out
        reader, writer = (paho.Client(CallbackAPIVersion.VERSION2) for _ in ports)
        reader.on_message = lambda _, __, message: came.append(bytes(message.payload))
        reader.on_connect = lambda client, *_: client.subscribe("all/#", 1) and None
        for client, port in ((writer, ports[0]), (reader, ports[1])):
            client.connect("127.0.0.1", port)
            client.loop_start()
            stack.callback(client.loop_stop)
            stack.callback(client.disconnect)
        deadline = time.monotonic() + 20
        while not came:
            assert time.monotonic() < deadline, west.read_text()
            writer.publish("stocks/a", b'{"volume": 1}', 1)
            time.sleep(0.1)
        path.write_text(alone)
        assert main(["reload", "west", "-c", str(path)]) == 0
        assert "west: changed now: links: east-west (gone)\n" in capsys.readouterr().out
        while "the link to east is closed" not in west.read_text():
            assert time.monotonic() < deadline + 20, west.read_text()
            time.sleep(0.05)
        assert west.read_text().count("serving the broker") == 1
