"""The units for systemd start the collector and alerts with options that there are, in folders that they may write."""

import argparse
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from mqloom.spark_analytics import command_collect, command_spark_stream

UNITS = Path(__file__).parents[2] / "packaging"


def started(unit: str, configure: Callable[[argparse.ArgumentParser], None], *command: str) -> argparse.Namespace:
    """Return the options with which a unit starts a command; what it writes is where systemd lets it."""
    text = (UNITS / unit).read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *words = shlex.split(line)
    assert Path(program).name == "mqloom"
    assert tuple(words[: len(command)]) == command
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(words[len(command) :])
    assert re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE) == ["mqloom"]
    assert "Restart=always" in text
    assert arguments.key_file is not None
    return arguments


def test_the_unit_of_the_collector_has_it_write_where_systemd_lets_it() -> None:
    arguments = started("mqloom-collect.service", command_collect.configure, "collect")
    assert arguments.spool.is_relative_to("/var/lib/mqloom")
    assert arguments.keep_size == 50 * 10**9


def test_the_unit_of_alerts_asks_the_collector_of_the_other_and_is_started_again() -> None:
    arguments = started("mqloom-alerts.service", command_spark_stream.configure, "spark", "stream")
    assert arguments.checkpoint.is_relative_to("/var/lib/mqloom")
    collector = started("mqloom-collect.service", command_collect.configure, "collect")
    assert arguments.endpoint == collector.serve
    assert arguments.key_file == collector.key_file
