"""`mqloom bench migration` on real brokers, with few subscribers."""

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
from mqloom.lab import command_bench
from mqloom.lab.bench_migration import Plan
from mqloom.lab.command_bench_migration import plan_of
from mqloom.lab.demo_mosquitto import MOSQUITTO


def parse(*words: str) -> Plan:
    parser = argparse.ArgumentParser()
    command_bench.configure(parser)
    return plan_of(parser.parse_args(["migration", *words]))


def test_a_plain_call_is_what_the_promise_is_about() -> None:
    plan = parse()
    assert plan == Plan()
    assert (plan.subscribers, plan.rate, plan.waves) == (1_000, 2_000, 5)


def test_every_option_counts() -> None:
    words = "--subscribers 7 --rate 8 --waves 9 --brokers 3 --move-rate 10 --at-once 11 --share 0.2 --pause-s 12 "
    words += "--wave-s 13 --seed 14"
    assert parse(*words.split()) == Plan(
        subscribers=7,
        rate=8.0,
        waves=9,
        brokers=3,
        move_rate=10.0,
        at_once=11,
        share=0.2,
        pause_s=12.0,
        wave_s=13.0,
        seed=14,
    )
    assert parse("--brokers", "3").names == ("west", "middle", "east")
    assert parse().names == ("west", "east")


def test_without_mosquitto_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert main(["bench", "migration"]) == 1
    captured = capsys.readouterr()
    assert "apt-get install mosquitto" in captured.err
    assert captured.out == ""


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
def test_all_are_moved_there_and_back_and_nothing_is_lost_or_comes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--subscribers", "8", "--rate", "50", "--waves", "2", "--pause-s", "0.5", "--json"]
    assert main(["bench", "migration", *words]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["bench"] == "migration"
    assert (answer["lost"], answer["duplicated"], answer["wrong"], answer["stayed"]) == (0, 0, 0, 0)
    assert answer["moves"] == 16
    assert answer["moves_per_s"] > 0
    assert answer["deliveries"] > 0
    assert {"out_of_order", "added_ms_p50", "added_ms_p99", "added_ms_max"} <= set(answer)
    assert 1_000 < answer["overhead_bytes_per_move"] < 20_000
    assert [(wave["from"], wave["to"], wave["moved"]) for wave in answer["waves"]] == [
        ("west", "east", 8),
        ("east", "west", 8),
    ]
    assert "wave 2, east to west" in captured.err


@pytest.mark.skipif(MOSQUITTO is None, reason="there is no mosquitto on this machine")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell of a process's children")
def test_an_interrupt_in_a_wave_ends_everything_that_was_started() -> None:
    code = "from mqloom.core.command import main; raise SystemExit(main())"
    words = ["bench", "migration", "--subscribers", "4", "--rate", "20", "--pause-s", "0.1", "--move-rate", "0.5"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "wave 1" in line:
                break
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [Path("/proc", child) for child in listed.split()]
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait(10)
        process.stderr.close()
    assert len(children) >= 6, "two brokers, two gateways, subscribers and a publisher"
    deadline = time.monotonic() + 10  # Python's own helper of processes goes a little later
    while any(child.exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if child.exists()]
