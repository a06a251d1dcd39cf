"""`mqloom bench migration` on real brokers, with few subscribers."""

import argparse
import json
import shutil

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
