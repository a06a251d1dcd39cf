"""The command that measures load meters: what it prints, and when it fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.lab import command_bench_meters
from mqloom.lab.bench_meters import Cost, Plan

CHEAP = Cost(
    comparisons=100,
    publication_us=612.0,
    compared=0.002,
    compared_error=0.0005,
    events=1.5,
    note_us=0.8,
    noted=0.002,
    messages=2.5,
    bytes_note=0.0011,
    window=0.00001,
)


def give(monkeypatch: pytest.MonkeyPatch, cost: Cost) -> list[Plan]:
    """Let the measurement have been made."""
    plans: list[Plan] = []

    def measured(plan: Plan, folder: Path, tell: object) -> Cost:
        plans.append(plan)
        return cost

    monkeypatch.setattr(command_bench_meters, "measure", measured)
    return plans


def test_it_says_what_meters_cost_and_what_they_may(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = give(monkeypatch, CHEAP)
    assert main(["bench", "meters", "--comparisons", "100", "--clients", "7"]) == 0
    assert plans == [Plan(comparisons=100, clients=7)]
    text = capsys.readouterr().out
    assert "612 microseconds of processor time for a publication to 7 clients" in text
    assert "+0.200% of that, give or take 0.100% (100 comparisons)" in text
    assert "load meters cost 0.31% of a gateway's processor time; 1% is what they may" in text


def test_the_object_has_the_plan_and_the_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, CHEAP)
    assert main(["bench", "meters", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["publications"], told["compared"], told["total"]) == (2_000, 0.002, CHEAP.total)


@pytest.mark.parametrize(("noted", "code"), [(0.02, 1), (0.005, 0)])
def test_it_fails_when_meters_cost_too_much(monkeypatch: pytest.MonkeyPatch, noted: float, code: int) -> None:
    give(monkeypatch, replace(CHEAP, noted=noted))
    assert main(["bench", "meters"]) == code
