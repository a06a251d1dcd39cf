"""What people see when Spark itself fails while a command runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from mqloom.spark_analytics.spool import SpoolWriter

JAVA = "SELECT java_method('java.lang.ProcessHandle', 'current') AS java;\n"


def test_that_java_has_ended_is_told_in_a_line_and_a_query_leaves_nothing_where_it_was_asked(tmp_path: Path) -> None:
    SpoolWriter(tmp_path / "spool").ensure()
    asked = tmp_path / "asked"
    asked.mkdir()
    words = ["spark", "sql", "--spool", str(tmp_path / "spool"), "--format", "csv"]
    program = "import sys; from mqloom.core.command import main; sys.exit(main())"
    # As from a shell of its own: neither what a session in this process has left in the environment, nor a setting
    # that hides an answer which waits in a buffer, nor a pipe that fills up while nobody reads it.
    environment = {
        name: value for name, value in os.environ.items() if "SPARK" not in name and name != "PYTHONUNBUFFERED"
    }
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", program, *words],
            cwd=asked,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as command,
    ):
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.write("SELECT * FROM nothing;\n" + JAVA)
        command.stdin.flush()
        assert command.stdout.readline() == "java\n"
        os.kill(int(command.stdout.readline()), signal.SIGKILL)
        command.communicate("SELECT 1;\n", timeout=60)
    told = errors.read_text()
    assert command.returncode == 1
    assert "Spark's Java has ended" in told
    assert "TABLE_OR_VIEW_NOT_FOUND" in told
    assert "Traceback" not in told
    assert list(asked.iterdir()) == []
