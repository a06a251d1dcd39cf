"""The command `mqloom lab storm`, with storms of which we know how they end."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.lab import command_lab_storm
from mqloom.lab.storm import RunReport, StormReport, replay_command


def run_report(seed: int, findings: list[str]) -> RunReport:
    return RunReport(
        seed=seed,
        topology="chain",
        gateways=3,
        subscribers=2,
        publications=10,
        faults=["link-cut"],
        moves=0,
        virtual_s=60.0,
        hops=100,
        expected=20,
        delivered=20 - len(findings),
        lost=0,
        lost_with_subscription=0,
        missed_when_leaving=0,
        held_by_lost_stores=0,
        has_agents=True,
        sessions=2,
        controls_spoilt={"lost": 3},
        findings=findings,
    )


def storm_in_which(
    failing: set[int],
) -> Callable[..., StormReport]:
    def run_storm(
        seed: int,
        runs: int,
        tell: Callable[[str], None],
        *,
        traces: Path | None,
        after_each: Callable[[RunReport], None],
        broken: str | None,
        agents: bool,
    ) -> StormReport:
        reports = [run_report(each, ["c1 missed p7"] if each in failing else []) for each in range(seed, seed + runs)]
        for each in reports:
            if each.findings:
                tell(f"seed {each.seed} failed; replay it with: {replay_command(each.seed, broken, agents=agents)}")
            after_each(each)
        failed = sum(bool(each.findings) for each in reports)
        tell(f"{runs} runs, {failed} failed")
        sums = {"hops": 100 * runs, "expected": 20 * runs, "delivered": 20 * runs, "lost": 0, "held_by_lost_stores": 0}
        sums |= {"with_agents": runs if agents else 0, "sessions": 2 * runs if agents else 0}
        spoilt = {"lost": 3 * runs} if agents else {}
        return StormReport(seed=seed, runs=runs, failed=failed, reports=reports, controls_spoilt=spoilt, **sums)

    return run_storm


def call(failing: set[int], *words: str) -> int:
    parser = argparse.ArgumentParser()
    command_lab_storm.configure(parser)
    return command_lab_storm.storm(parser.parse_args(words), storm_in_which(failing))


def test_a_storm_that_passes_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(set(), "--runs", "3", "--seed", "5") == 0
    assert capsys.readouterr() == ("3 runs, 0 failed\n", "")


def test_a_storm_that_fails_ends_with_1_and_says_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert call({6}, "--runs", "3", "--seed", "5") == 1
    assert "mqloom lab storm --runs 1 --seed 6\n" in capsys.readouterr().out


def test_a_storm_of_broken_gateways_is_seen_again_with_these(capsys: pytest.CaptureFixture[str]) -> None:
    assert call({6}, "--runs", "3", "--seed", "5", "--broken", "forgetting-parked") == 1
    assert "mqloom lab storm --runs 1 --seed 6 --broken forgetting-parked\n" in capsys.readouterr().out


def test_a_storm_with_agents_is_seen_again_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert call({6}, "--runs", "3", "--seed", "5", "--agents", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["failures"][0]["replay"] == "mqloom lab storm --runs 1 --seed 6 --agents"
    assert (answer["with_agents"], answer["sessions"]) == (3, 6)


def test_json_is_one_object_and_what_failed_is_told_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert call({6}, "--runs", "3", "--seed", "5", "--json") == 1
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["ok"] is False
    assert (answer["seed"], answer["runs"], answer["failed"]) == (5, 3, 1)
    replay = "mqloom lab storm --runs 1 --seed 6"
    assert answer["failures"] == [{"seed": 6, "replay": replay, "findings": ["c1 missed p7"]}]
    assert [each["seed"] for each in answer["reports"]] == [5, 6, 7]
    assert replay in shown.err


def test_json_of_a_storm_that_passes_says_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(set(), "--json") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out)["runs"] == 200


@pytest.mark.parametrize("runs", ["0", "-1", "1_000_001", "many"])
def test_what_is_no_number_of_runs_is_misuse(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "storm", "--runs", runs]) == 2
    assert f"argument --runs: {runs!r} is not a whole number from 1 to 1,000,000\n" in capsys.readouterr().err


def test_the_real_storm_gives_the_same_json_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for _ in range(2):
        main(["lab", "storm", "--runs", "2", "--seed", "1", "--json"])
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
