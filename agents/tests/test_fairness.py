import pytest

from mqloom.agents import fairness
from mqloom.agents.fairness import Fairness
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import ClientId

A, B, C = ClientId("a"), ClientId("b"), ClientId("c")


def fair(**settings: float) -> Fairness:
    return Fairness(BalanceSettings(**settings))  # type: ignore[arg-type]


def test_who_has_moved_rests_and_then_may_move_again() -> None:
    who = fair(rest_s=300)
    who.moved([B], 10.0)
    assert who.rested([C, B, A], 309.9) == [A, C]
    assert who.rested([C, B, A], 310.0) == [A, B, C]


def test_who_moves_again_rests_anew() -> None:
    who = fair(rest_s=300)
    who.moved([A, B], 0.0)
    who.moved([A], 200.0)
    assert who.rested([A, B], 300.0) == [B]


def test_without_a_rest_everybody_may_move_at_once() -> None:
    who = fair(rest_s=0)
    who.moved([A], 0.0)
    assert who.rested([A], 0.0) == [A]


def test_the_budget_is_of_the_last_minute() -> None:
    who = fair(moves_per_min=10)
    assert who.left(0.0) == 10
    who.ordered(7, 0.0)
    who.ordered(2, 30.0)
    assert who.left(59.9) == 1
    assert who.left(60.0) == 8
    assert who.left(90.0) == 10


def test_it_says_when_the_first_may_be_moved_again() -> None:
    who = fair(rest_s=300, moves_per_min=10)
    assert who.rested_at([A], 0.0) is None
    who.moved([A], 10.0)
    who.moved([B], 20.0)
    assert who.rested_at([B, A, C], 30.0) == 310.0
    assert who.rested_at([B], 30.0) == 320.0
    who.ordered(10, 25.0)
    assert who.rested_at([B], 30.0) == 85.0  # nobody, before the budget has some left


def test_the_budget_is_never_less_than_nothing() -> None:
    who = fair(moves_per_min=1)
    who.ordered(5, 0.0)
    assert who.left(0.0) == 0


def test_memory_is_bounded_and_who_rested_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "RESTING_MAX", 2)
    who = fair(rest_s=300)
    who.moved([A, B, C], 0.0)
    assert who.rested([A, B, C], 1.0) == [A]
