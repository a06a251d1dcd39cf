"""A standalone cluster of Spark on this machine: a master and workers as processes, each with a folder of its own."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from mqloom.spark_analytics.java import find_java

START_S = 60.0


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Run a cluster whose workers have a core each; yields its URL when all of them have registered."""
    with ExitStack() as running:
        master = folder / "master"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        running.enter_context(_process("org.apache.spark.deploy.master.Master", arguments, master))
        url = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            home = folder / f"worker-{number}"
            arguments = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0"]
            running.enter_context(
                _process(
                    "org.apache.spark.deploy.worker.Worker", [*arguments, "--work-dir", str(home / "work"), url], home
                )
            )
        for number in range(workers):
            _wait_for(folder / f"worker-{number}", r"(Successfully registered with master)")
        yield url


@contextmanager
def _process(name: str, arguments: list[str], home: Path) -> Iterator[None]:
    home.mkdir(parents=True)
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = os.environ | {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, name, *arguments], cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait(20)


def _wait_for(home: Path, pattern: str) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        found = re.search(pattern, (home / "log").read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{home}: no {pattern!r} within {START_S:g} s:\n{(home / 'log').read_text()[-3_000:]}")
