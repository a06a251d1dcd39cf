"""The command: what it is asked, and what it refuses before Spark starts."""

import argparse
import io
from pathlib import Path

import pytest

from mqloom.core.errors import LocalError
from mqloom.spark_analytics import command_spark_report
from mqloom.spark_analytics.capacity.questions import Move, Questions, parse_interest
from mqloom.spark_analytics.capacity.views import VIEWS
from mqloom.spark_analytics.progress import progress


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command_spark_report.configure(parser)
    return parser.parse_args(["--spool", "telemetry", *words])


def test_what_is_asked_is_read() -> None:
    words = [
        "--full",
        "0.8",
        "--fails",
        "EAST",
        "--grows",
        "30",
        "--adds",
        "1.5",
        "--moves",
        "EAST:WEST",
        "--place",
        "stocks/#",
    ]
    assert command_spark_report.questions_of(parsed(*words)) == Questions(
        full=0.8,
        fails=("EAST",),
        grows=(30.0,),
        adds=(1.5,),
        moves=(Move("EAST", "WEST"),),
        interests=(parse_interest("stocks/#"),),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json", "--full", "2"], "--full 2: it can be 0.1 to 1"),
        (["--json", "--adds", "0"], "--adds 0"),
        (["--json", "--grows", "-200"], "--grows -200"),
        (["--json", "--moves", "EAST"], "SOURCE:TARGET"),
        ([], "where to"),
        (["--out", "nowhere/at/all/report.html"], "there is no folder"),
    ],
)
def test_what_cannot_work_is_refused_before_spark_starts(words: list[str], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        command_spark_report.run(parsed(*words))


def test_a_folder_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="--out"):
        command_spark_report.run(parsed("--out", str(tmp_path)))


def test_every_option_and_view_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    parser = argparse.ArgumentParser(add_help=False)
    command_spark_report.configure(parser)
    options = [option for action in parser._actions for option in action.option_strings]
    assert [option for option in options if f"`{option}`" not in text] == []
    assert [name for name in VIEWS if f"`{name}`" not in text] == []


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_for_people_and_lines_for_logs() -> None:
    log, terminal = io.StringIO(), _Terminal()
    for stream in (log, terminal):
        with progress("report", stream) as tell:
            tell(0.0, "reading", upto=0.5)
            for done in range(1, 101):
                tell.tasks(done, 100)
            tell(1.0, "drawing")
    shares = [0, 10, 20, 30, 40, 50]
    assert log.getvalue().splitlines() == [
        *(f"report: {share:3d}% reading" for share in shares),
        "report: 100% drawing",
    ]
    assert "######..................  25%  reading: 50 of 100 tasks" in terminal.getvalue()
    assert "############............  50%  reading" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_where_nobody_looks_some_jobs_say_nothing() -> None:
    log = io.StringIO()
    with progress("sql", log, is_logged=False) as tell:
        tell(0.5, "reading")
    assert log.getvalue() == ""
