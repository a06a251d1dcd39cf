"""A Mosquitto as a process of this machine, for whoever has a configuration file for one."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from mqloom.core.errors import BrokerError

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
"""The program, if there is one."""

START_S = 15.0


@contextlib.contextmanager
def mosquitto_process(file: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run Mosquitto with a configuration file until the end; begins when its port answers. Raises BrokerError."""
    assert MOSQUITTO is not None
    log = file.with_name("mosquitto.log")
    with log.open("ab") as output:
        process = subprocess.Popen([MOSQUITTO, "-c", file], stdout=output, stderr=output)  # noqa: S603 - no shell
    try:
        _wait_for(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise BrokerError(f"127.0.0.1:{port}", f"Mosquitto did not start: {log.read_text()[-2_000:]}")
        time.sleep(0.02)
