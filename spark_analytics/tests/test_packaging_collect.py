"""The unit for systemd starts the collector with options that there are, in a folder that it may write."""

import argparse
import re
import shlex
from pathlib import Path

from mqloom.spark_analytics.command_collect import configure

UNIT = Path(__file__).parents[2] / "packaging" / "mqloom-collect.service"


def test_the_unit_starts_the_collector_where_systemd_lets_it_write() -> None:
    text = UNIT.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, command, *words = shlex.split(line)
    assert (Path(program).name, command) == ("mqloom", "collect")
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(words)
    (folder,) = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    assert arguments.spool.is_relative_to(f"/var/lib/{folder}")
    assert arguments.key_file is not None
    assert arguments.keep_size == 50 * 10**9
