"""Runs beside each other come to the same as runs one after the other."""

import dataclasses
import os

import pytest

from mqloom.lab.experiment import tell_nobody
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.padres_play import play
from mqloom.lab.padres_plays import Play, play_all, whole
from mqloom.lab.padres_setups import HETEROGENEOUS

SHORT = dataclasses.replace(HETEROGENEOUS, subscribers=20, join_s=20.0, change_at=None, length_s=40.0)
PLAYS = [Play(f"seed {seed}", SHORT, seed) for seed in (3, 1, 2)]


def digest(outcome: Outcome) -> tuple[int, int]:
    return outcome.published, outcome.ledger.owed


@pytest.mark.parametrize("processors", [1, 2])
def test_outcomes_are_in_the_order_of_the_plays_on_any_number_of_processors(
    processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    told: list[float] = []
    found = play_all(PLAYS, lambda share, text: told.append(share), whole)
    assert [digest(each) for each in found] == [digest(play(SHORT, each.seed, tell_nobody)) for each in PLAYS]
    assert len({digest(each) for each in found}) == 3
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("processors", [1, 2])
def test_what_goes_wrong_in_a_run_is_raised(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    wrong = Play("wrong", SHORT, 1, {"overload_low": 2.0, "overload_high": 1.0})
    with pytest.raises(ValueError, match="overload_low"):
        play_all([PLAYS[0], wrong], tell_nobody, whole)


def test_no_plays_are_no_outcomes() -> None:
    assert play_all([], tell_nobody, whole) == []
