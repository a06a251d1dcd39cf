"""`mqloom bench federation` on real brokers, for a few seconds; where there is no Mosquitto, what it says."""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.lab import bench_processes, command_bench
from mqloom.lab.bench_federation import UNFILTERED, Case
from mqloom.lab.bench_processes import BenchError, find_mosquitto
from mqloom.lab.command_bench_federation import plan_of

ROW = {
    *("system", "brokers", "subscribers", "qos", "held_per_s", "lost"),
    *("cpu_us_per_wanted", "link_bytes_per_wanted", "p50_ms", "p99_ms"),
}
SHORT = ["--hold-s", "0.6", "--probe-s", "0.3", "--case-s", "3", "--precision", "2"]


def has_mosquitto() -> bool:
    try:
        find_mosquitto()
    except BenchError:
        return False
    return True


real = pytest.mark.skipif(not has_mosquitto(), reason="no mosquitto here: apt-get install mosquitto")


def parse(*words: str) -> list[Case]:
    parser = argparse.ArgumentParser()
    command_bench.configure(parser)
    return list(plan_of(parser.parse_args(["federation", *words])).cases)


def test_without_mosquitto_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert main(["bench", "federation"]) == 1
    captured = capsys.readouterr()
    assert "apt-get install mosquitto" in captured.err
    assert captured.out == ""


def test_all_cases_of_a_plain_call_are_compared() -> None:
    cases = parse()
    assert len(cases) == 13
    assert cases[-1] == UNFILTERED
    assert {(case.brokers, case.subscribers, case.qos) for case in cases[:-1]} == {
        (brokers, subscribers, qos) for brokers in (2, 3) for subscribers in (1, 10, 100) for qos in (0, 1)
    }


def test_fewer_cases_can_be_asked_for() -> None:
    assert parse("--brokers", "3", "--subscribers", "5", "--qos", "1", "--unfiltered", "not") == [Case(3, 5, 1)]
    assert parse("--unfiltered", "only") == [UNFILTERED]


@real
def test_both_sides_are_measured_on_real_brokers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--brokers", "2", "--subscribers", "4", "--qos", "1", "--unfiltered", "not", "--json"]
    assert main(["bench", "federation", *words, *SHORT, "--plot", str(tmp_path / "held.png")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"bench", "settings", "rows"}
    assert answer["bench"] == "federation"
    assert [row["system"] for row in answer["rows"]] == ["bridge", "mqloom"]
    assert all(set(row) == ROW for row in answer["rows"])
    for row in answer["rows"]:
        assert row["held_per_s"] >= 5
        assert row["lost"] == 0
    assert (tmp_path / "held.png").stat().st_size > 1_000


@real
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_an_interrupt_ends_everything_that_was_started(number: signal.Signals) -> None:
    code = "from mqloom.core.command import main; raise SystemExit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "bench", "federation", "--brokers", "2", "--subscribers", "1", "--qos", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "mqloom, 200/s" in line:
                break
        children = children_of(process.pid)
        process.send_signal(number)
        process.stderr.read()
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait(10)
        process.stderr.close()
    assert len(children) >= 6, "two brokers on each side, two gateways, and our own processes"
    deadline = time.monotonic() + 10  # Python's own helper of processes goes a little later
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def children_of(process_id: int) -> list[int]:
    listed = Path(f"/proc/{process_id}/task/{process_id}/children")
    if not listed.exists():
        pytest.skip("the system does not tell of a process's children")
    return [int(child) for child in listed.read_text().split()]


def test_a_program_that_ends_by_itself_is_said_with_its_last_words(tmp_path: Path) -> None:
    program = bench_processes.Program("short", [sys.executable, "-c", "print('no more')"], tmp_path)
    program._process.wait(10)
    with pytest.raises(BenchError, match="short has ended with exit code 0; it said: no more"):
        program.check()
    program.end()
