"""A RabbitMQ as a process of this machine, with the files that `mqloom config rabbitmq` wrote."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from mqloom.core.errors import BrokerError
from mqloom.lab.demo_thread import free_ports

RABBITMQ = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or shutil.which("rabbitmq-server")
"""The program, if there is one; Debian's wrapper in the usual place would ask who we are."""

START_S = 90.0


@contextlib.contextmanager
def rabbitmq_process(folder: Path, port: int) -> Iterator[None]:
    """Run RabbitMQ with the files in a folder until the end; begins when it has started. Raises BrokerError."""
    assert RABBITMQ is not None
    distribution, mapper, management = free_ports(3)
    file = folder / "rabbitmq.conf"
    file.write_text(f"{file.read_text()}management.tcp.port = {management}\n")
    variables = {
        "RABBITMQ_NODENAME": f"mqloom-{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "store"),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONFIG_FILE": str(file),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "HOME": str(folder),
    }
    log = folder / "rabbitmq.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - no shell
            [RABBITMQ], stdout=output, stderr=output, env=os.environ | variables, start_new_session=True
        )
    try:
        _wait_for(process, port, log)
        yield
    finally:
        _end(process, variables)


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        if "Server startup complete" in log.read_text():  # its ports answer before it knows the accounts
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise BrokerError(f"127.0.0.1:{port}", f"RabbitMQ did not start: {log.read_text()[-2_000:]}")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes], variables: dict[str, str]) -> None:
    """End it with all that it started: its session, and Erlang's port mapper, which has left that."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    mapper = shutil.which("epmd")
    if mapper is not None:
        command = [mapper, "-port", variables["ERL_EPMD_PORT"], "-kill"]
        subprocess.run(command, check=False, capture_output=True, timeout=10)  # noqa: S603 - no shell
