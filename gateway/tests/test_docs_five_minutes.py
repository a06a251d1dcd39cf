"""The first section of docs/operations.md, and then the example in docs/security.md, typed into a shell as written."""

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqloom.lab.demo_mosquitto import MOSQUITTO
from mqloom.lab.ports import free_ports

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Two Mosquittos in five minutes")[2].partition("\n## ")[0]
DONE = "the command has ended with"
pytestmark = [
    pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine"),
    pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there are no mosquitto-clients on this machine"),
    pytest.mark.timeout(120),
]


class Shell:
    """A shell into which somebody types; all that it and its jobs print is one text."""

    def __init__(self, folder: Path) -> None:
        programs = [str(Path(sys.executable).parent), str(Path(str(MOSQUITTO)).parent), os.environ["PATH"]]
        self._process = subprocess.Popen(
            ["/bin/bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=os.environ | {"PATH": os.pathsep.join(programs)},
            start_new_session=True,
        )
        self.text = ""
        self._codes: queue.Queue[int] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.text += line
            if DONE in line:
                self._codes.put(int(line.split()[-1]))

    def type(self, line: str) -> int:
        """Type a line, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.write(f'{line}\necho "{DONE}" $?\n')
        self._process.stdin.flush()
        return self._codes.get(timeout=60)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)  # the shell and its jobs: a session of their own
        self._process.wait(20)
        self._reader.join(20)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.close()


def test_a_newcomer_federates_two_mosquittos_by_typing_what_is_written(tmp_path: Path, shell: Shell) -> None:
    ports = dict(zip(("18841", "18842"), map(str, free_ports(2)), strict=True))

    def here(text: str) -> str:
        return re.sub(r"\b1884[12]\b", lambda found: ports[found[0]], text)

    (toml,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    (tmp_path / "federation.toml").write_text(here(toml))
    lines = [line for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL) for line in block.splitlines()]
    assert len(lines) == 12
    wanted = 'stocks/YHOO {"symbol": "YHOO", "volume": 500000}\n'
    deadline = time.monotonic() + 90
    for line in map(here, lines):
        # Who types is slower than a test: what is not ready yet is tried again, as a person would.
        while shell.type(line) != 0 or (line.startswith("mosquitto_pub") and wanted not in shell.text):
            assert time.monotonic() < deadline, f"{line}\n{shell.text}"
            assert line.startswith(("mqloom status", "mqloom doctor", "mosquitto_pub")), shell.text
            time.sleep(0.5)
    assert "federation exchange: all is well" in shell.text
    assert "federation exchange: 2 of 2 gateways run" in shell.text
    begin_with_a_key(shell, deadline)


def begin_with_a_key(shell: Shell, deadline: float) -> None:
    """Type the example of docs/security.md."""
    (block,) = re.findall(r"```sh\n(kill .*?)```", SECURITY, re.DOTALL)
    (warnings,) = re.findall(r"```\n(WARNING west frames_refused.*?)```", SECURITY, re.DOTALL)
    before = len(shell.text)
    for line in block.splitlines():
        while shell.type(line) != 0:
            assert time.monotonic() < deadline, f"{line}\n{shell.text[before:]}"
            assert line.startswith("mqloom status"), shell.text[before:]
            time.sleep(0.5)
    since = shell.text[before:]
    _, sure = warnings.splitlines()  # a status is sometimes written over before anybody has read it
    assert sure.removesuffix(" ...") in since, since
    assert "2 of 2 gateways run" in since
