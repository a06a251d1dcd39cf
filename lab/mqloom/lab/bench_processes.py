"""The processes of a measurement: started here, asked over pipes, and ended by the handle they were started with."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from mqloom.core.errors import LocalError

END_S_MAX: Final = 10.0
START_S_MAX: Final = 30.0
ANSWER_S_MAX: Final = 120.0
"""For one answer of a process; a publisher's comes when all is sent."""


class BenchError(LocalError):
    """A measurement cannot be made here, or a part of it did not work."""


class Program:
    """A program that runs until it is ended; what it says goes to a file."""

    def __init__(self, name: str, words: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                list(words), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def process_id(self) -> int:
        """Its process id."""
        return self._process.pid

    def check(self) -> None:
        """Raise BenchError if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            raise BenchError(f"{self.name} has ended with exit code {code}; it said: {self._last_words()}")

    def _last_words(self) -> str:
        return self.log.read_text("utf-8", "replace")[-2_000:].strip() or "nothing"

    def end(self) -> None:
        """Let it end, and wait for that."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S_MAX)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def cpu_s(self) -> float:
        """Return its processor time so far, of all its threads; raises BenchError where the system does not say."""
        try:
            text = Path(f"/proc/{self.process_id}/stat").read_text("ascii")
            user, system = text.rpartition(")")[2].split()[11:13]
        except (OSError, ValueError):
            raise BenchError(f"this system does not say how much processor time {self.name} has used") from None
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int | None:
        """Return its resident memory; None where the system does not say."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{self.process_id}/statm").read_text("ascii")
            return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return None


class Worker:
    """A Python process of ours at the other end of a pipe."""

    def __init__(self, name: str, function: Callable[..., None], *arguments: Any, **named: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_work, args=(function, other, arguments, named), name=f"mqloom-bench-{name}", daemon=True
        )
        self._process.start()
        other.close()

    def ask(self, question: object) -> None:
        """Put a question; `answer` has what comes back."""
        try:
            self._pipe.send(question)
        except OSError:
            raise self._ended() from None

    def answer(self, wait_s: float = ANSWER_S_MAX) -> Any:
        """Return the next thing it says; raises BenchError if it has ended or says nothing."""
        if not self._pipe.poll(wait_s):
            raise BenchError(f"the process of the {self.name} has not answered for {wait_s:g} s")
        try:
            said = self._pipe.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(said, _Failure):
            raise BenchError(f"the process of the {self.name} failed: {said.problem}")
        return said

    def _ended(self) -> BenchError:
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll(0):
                said = self._pipe.recv()
                if isinstance(said, _Failure):
                    return BenchError(f"the process of the {self.name} failed: {said.problem}")
        return BenchError(f"the process of the {self.name} has ended")

    def end(self) -> None:
        """Let it end, and wait for that."""
        self._pipe.close()
        self._process.join(1.0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(END_S_MAX)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(END_S_MAX)
        self._process.close()


class _Failure:
    """What a process says before it ends in trouble."""

    def __init__(self, problem: str) -> None:
        self.problem = problem


def _work(
    function: Callable[..., None], pipe: Connection, arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    try:
        function(pipe, *arguments, **named)
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send(_Failure(f"{type(error).__name__}: {error}"))


def find_mosquitto() -> str:
    """Return the path of the broker; raises BenchError that says what to install."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"))
    found = shutil.which("mosquitto", path=places)
    if found is None:
        raise BenchError(
            "there is no `mosquitto` here, and brokers are what is measured: install it with "
            "`apt-get install mosquitto` (macOS: `brew install mosquitto`), or put it on the PATH"
        )
    return found


def wait_for_port(program: Program, port: int) -> None:
    """Return when a program listens; raises BenchError if it ends before, or takes too long."""
    deadline = time.monotonic() + START_S_MAX
    while True:
        program.check()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        if time.monotonic() > deadline:
            raise BenchError(f"{program.name} does not listen on port {port} after {START_S_MAX:g} s")
        time.sleep(0.02)
