import errno
import io
import sys
from pathlib import Path

import pytest
import zmq

from mqloom.core.command import main
from mqloom.spark_analytics.collector import Collector
from mqloom.spark_analytics.command_collect import ProgressLine
from mqloom.spark_analytics.spool import SpoolWriter


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    taken = context.socket(zmq.ROUTER)
    port = taken.bind_to_random_port("tcp://127.0.0.1")
    words = ["--spool", str(tmp_path), "--listen", f"tcp://127.0.0.1:{port}", "--serve", "tcp://127.0.0.1:*"]
    assert main(["collect", *words]) == 1
    assert "is another collector running?" in capsys.readouterr().err
    context.destroy(linger=0)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spool").write_text("a file")
    assert main(["collect", "--spool", str(tmp_path / "spool")]) == 1
    assert "spool: File exists" in capsys.readouterr().err


def test_a_length_of_time_without_a_unit_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--spool", str(tmp_path), "--keep-age", "30"]) == 2
    assert "'30' is not a length of time, such as 36h or 30d" in capsys.readouterr().err


def test_the_line_is_written_over_and_what_is_told_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    writer = SpoolWriter(tmp_path)
    collector: Collector[bytes] = Collector(writer)
    line = ProgressLine(tmp_path)
    collector.counts.update(records=1_500, bytes=2_000_000, refused=3)
    line.show(collector)
    shown = capsys.readouterr().err
    assert shown.startswith("1,500 records of 0 gateways, 2.0 MB, 3 refused, ")
    assert "\n" not in shown
    line.tell("something")
    told = capsys.readouterr().err
    assert told == "\r" + " " * len(shown) + "\rmqloom collect: something\n"
    writer.close()


class Unwritable(io.StringIO):
    """A file on a disk that is full."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_cannot_be_told_does_not_end_collecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Unwritable())
    line = ProgressLine(tmp_path)
    line.write("how it stands")
    line.tell("the disk is full")
    line.end(Collector(SpoolWriter(tmp_path)))
