"""Parts of tests with Spark: a collector as a process that can be killed, and what to do where there is no Java."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import peer_curve
from mqloom.lab.ports import free_ports
from mqloom.spark_analytics.asking import Asking
from mqloom.spark_analytics.java import JavaError, find_java

START_S = 30.0

COLLECTOR = """
import sys
from pathlib import Path
from mqloom.core.telemetry_key_file import telemetry_secrets
from mqloom.core.telemetry_keys import collector_curve
from mqloom.spark_analytics import collecting
from mqloom.spark_analytics.retention import Retention

spool, listen, serve, segment_bytes, keep_bytes, key_file = sys.argv[1:]
collecting.RETAIN_EVERY_S = 0.5
plan = collecting.CollectPlan(
    spool=Path(spool), listen=listen, serve=serve, segment_bytes=int(segment_bytes),
    retention=Retention(bytes_max=int(keep_bytes)),
    curve=collector_curve(telemetry_secrets(Path(key_file))[0]) if key_file else None,
)
collecting.CollectServer(plan, lambda text: print(text, file=sys.stderr)).run()
"""


def java_or_skip() -> None:
    """Skip without Java, but fail where CI promises one."""
    try:
        find_java()
    except JavaError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@dataclass
class CollectorProcess:
    """A collector, which is killed without a chance to finish anything, and started again at the same addresses."""

    spool: Path
    listening: str
    serving: str
    segment_bytes: int
    keep_bytes: int
    key_file: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers readers."""
        assert self.process is None
        settings = [str(self.spool), self.listening, self.serving, str(self.segment_bytes), str(self.keep_bytes)]
        settings.append(str(self.key_file or ""))
        curve = peer_curve(telemetry_secrets(self.key_file)[0]) if self.key_file else None
        log = self.spool.with_name("collector.log")
        with log.open("ab") as output:
            self.process = subprocess.Popen([sys.executable, "-c", COLLECTOR, *settings], stdout=output, stderr=output)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            asking = Asking(self.serving, curve, answer_s=0.5, tries=1)
            try:
                asking.ranges().bounds()
            except Exception:
                assert self.process.poll() is None, log.read_text()[-3_000:]
            else:
                return
            finally:
                asking.close()
        raise AssertionError(f"the collector does not answer: {log.read_text()[-3_000:]}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None


@contextmanager
def collector_process(
    spool: Path, segment_bytes: int = 64 * 2**20, keep_bytes: int = 0, key_file: Path | None = None
) -> Iterator[CollectorProcess]:
    """Run a collector until the end."""
    # While it is dead, those who try to reach it take ports of outgoing connections: its own must be none of these.
    listening, serving = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
    collector = CollectorProcess(spool, listening, serving, segment_bytes, keep_bytes, key_file)
    collector.start()
    try:
        yield collector
    finally:
        if collector.process is not None:
            collector.kill()
