"""The command `mqloom` as a process of its own, as an operator runs it."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

WAIT_S_MAX = 40.0
"""On a machine with ten times as much to do as it has cores a command took over 20 s to say its first word."""
END_S_MAX = 15.0

MQLOOM = str(Path(sys.executable).with_name("mqloom"))


class Process:
    """A running command, and everything it has said so far."""

    def __init__(self, arguments: Sequence[str], folder: Path, program: Sequence[str] = (MQLOOM,)) -> None:
        self._process = subprocess.Popen(
            [*program, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._name = " ".join(arguments)
        self._said = threading.Condition()
        self.output: list[str] = []
        self.log: list[str] = []
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self.output), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self.log), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Iterable[str], lines: list[str]) -> None:
        for line in stream:
            with self._said:
                lines.append(line.rstrip("\n"))
                self._said.notify_all()

    def wait_for_log(self, text: str, *, times: int = 1) -> None:
        """Return when a line of the log contains the text, for the given time."""
        self._wait(lambda: sum(text in line for line in self.log) >= times, f"{text!r} in its log, {times} times")

    def wait_for_output(self, count: int) -> list[str]:
        """Return the output when it has so many lines."""
        self._wait(lambda: len(self.output) >= count, f"{count} lines of output")
        return list(self.output)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._said:
            if not self._said.wait_for(condition, WAIT_S_MAX):
                raise TimeoutError(f"mqloom {self._name}: no {what}; it said {self.output} and logged {self.log}")

    def wait(self, seconds: float = WAIT_S_MAX) -> int:
        """Return the exit code when the command has ended by itself."""
        code = self._process.wait(seconds)
        self._drain()
        return code

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S_MAX)
            raise TimeoutError(f"mqloom {self._name} did not end; it logged {self.log}") from None
        self._drain()
        return code

    def _drain(self) -> None:
        for reader in self._readers:
            reader.join(END_S_MAX)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()


class Commands:
    """Starts commands in one folder, and ends what still runs at the end."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack

    def at_the_end(self, function: Callable[[], object]) -> None:
        """Have something done at the end, however the test ended."""
        self._stack.callback(function)

    def start(self, *arguments: str) -> Process:
        """Start `mqloom` with these arguments."""
        process = Process(arguments, self.folder)
        self._stack.callback(process.end)
        return process

    def start_python(self, program: str, *arguments: str) -> Process:
        """Start a program of Python with these arguments."""
        process = Process(arguments, self.folder, (sys.executable, "-c", program))
        self._stack.callback(process.end)
        return process

    def gateway(self, name: str) -> Process:
        """Start a gateway and return when it serves its broker."""
        process = self.start("gateway", "--name", name)
        process.wait_for_log("serving the broker")
        return process

    def subscriber(self, port: int, topics: str, where: str, *more: str) -> Process:
        """Start `mqloom sub --json` and return when its subscription is established."""
        process = self.start("sub", topics, "--where", where, "--port", str(port), "--json", *more)
        process.wait_for_log("established")
        return process

    def publish(self, port: int, topic: str, payload: str) -> None:
        """Publish, and return when the broker has acknowledged it."""
        process = self.start("pub", topic, payload, "--port", str(port), "--qos", "1")
        assert process.wait() == 0, process.log


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when something is so; raises TimeoutError that says what was not."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {WAIT_S_MAX:g} s still not so: {what}")
        time.sleep(0.05)
