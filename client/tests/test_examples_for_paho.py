"""The ten programs in client/examples, as they are and with only the import of the client changed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqloom.lab.demo_mosquitto import MOSQUITTO, mosquitto_process
from mqloom.lab.demo_thread import gateways_in_thread
from mqloom.lab.ports import free_ports

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
THEIRS, OURS = "from paho.mqtt.client import Client\n", "from mqloom.client import Client\n"
FEDERATED = [path for path in EXAMPLES if "\n# federation: yes\n" in path.read_text("utf-8")]
BROKER = "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
FEDERATION = '[federation]\nname = "examples"\ndata = ["examples/#"]\n[[brokers]]\nid = "WEST"\nport = {port}\n'
pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("examples")
    (port,) = free_ports(1)
    (folder / "mosquitto.conf").write_text(BROKER.format(port=port))
    (folder / "federation.toml").write_text(FEDERATION.format(port=port))
    with mosquitto_process(folder / "mosquitto.conf", port), gateways_in_thread(folder / "federation.toml", ["WEST"]):
        yield port


def output(program: str, port: int, federation: str) -> str:
    environment = os.environ | {"MQTT_PORT": str(port), "MQLOOM_FEDERATION": federation}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_there_are_ten_of_them() -> None:
    assert len(EXAMPLES) >= 10
    assert len(FEDERATED) >= 8
    for path in EXAMPLES:
        assert path.read_text("utf-8").count(THEIRS) == 1, path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_with_only_the_import_changed_it_prints_the_same(path: Path, port: int) -> None:
    program = path.read_text("utf-8")
    expected = output(program, port, "")
    assert expected
    changed = program.replace(THEIRS, OURS)
    assert output(changed, port, "") == expected
    if path in FEDERATED:
        assert output(changed, port, "1") == expected
