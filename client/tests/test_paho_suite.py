"""paho's own tests, from its source distribution, with our client in the place of its own.

Nothing of it is kept here. The distribution of the installed version is taken from the folder in MQLOOM_PAHO_SDIST if
that is set, else pip is asked for it; where neither has it the test is skipped. docs/client.md says what is left out.
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
VERSION = importlib.metadata.version("paho-mqtt")
SWAP = """
import mqloom.client
import paho.mqtt.client

paho.mqtt.client.Client = mqloom.client.Client
"""
NEEDS_ANOTHER_BROKER = "paho.mqtt.testing not present."
"""Why paho's tests in test_mqttv5.py skip themselves: their broker is in no distribution."""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return the unpacked distribution."""
    if VERSION.startswith("2.1."):
        pytest.skip("the certificates in paho's tests of 2.1 have expired: they fail with its own client, too")
    given = os.environ.get("MQLOOM_PAHO_SDIST", "")
    folder = Path(given) if given else tmp_path
    if not given:
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "paho-mqtt",
            "-d",
            str(folder),
        ]
        asked = subprocess.run([*words, f"paho-mqtt=={VERSION}"], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            pytest.skip(f"pip has no source distribution of paho-mqtt {VERSION}: {asked.stderr[-300:]}")
    found = sorted(folder.glob(f"paho[_-]mqtt-{VERSION}.tar.gz"))
    if not found:
        pytest.skip(f"there is no source distribution of paho-mqtt {VERSION} in {folder}")
    with tarfile.open(found[0]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()
    return root


def test_it_passes_with_our_client(suite: Path, tmp_path: Path) -> None:
    swap = tmp_path / "swap"
    swap.mkdir()
    (swap / "sitecustomize.py").write_text(SWAP)  # for the programs, too, that the tests start
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MQLOOM_", "PYTEST_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(swap), str(suite)])
    look = [sys.executable, "-c", "import paho.mqtt.client; print(paho.mqtt.client.Client.__module__)"]
    swapped = subprocess.run(look, env=environment, cwd=suite, capture_output=True, text=True, check=True)
    assert swapped.stdout == "mqloom.client.client\n"
    report = tmp_path / "report.xml"
    words = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "--rootdir", ".", "--junitxml", str(report)]
    done = subprocess.run(
        [*words, "-p", "no:cacheprovider", "tests"],
        env=environment,
        cwd=suite,
        capture_output=True,
        text=True,
        check=False,
    )
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert done.returncode == 0, (failed, done.stdout[-3_000:])
    marks = [(case.get("classname"), skipped) for case in cases for skipped in case.iter("skipped")]
    left_out = {(kind, skipped.get("type"), skipped.get("message")) for kind, skipped in marks}
    reasons = {message for _, mark, message in left_out if mark == "pytest.skip"}
    assert reasons <= {NEEDS_ANOTHER_BROKER}
    assert len(cases) - len(marks) >= 200
