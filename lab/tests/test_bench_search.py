"""The search for the highest rate that is held, on systems that hold what a test says."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqloom.lab.bench_search import CEILING_PER_S, FLOOR_PER_S, TRIES, Search, Step

STEPS_MAX = 60


def search(holds: Callable[[Step], bool], precision: float = 1.2) -> tuple[float, list[Step]]:
    looking = Search(200.0, precision)
    steps: list[Step] = []
    while (step := looking.step) is not None:
        steps.append(step)
        assert len(steps) < STEPS_MAX
        looking.tell(held=holds(step))
    assert looking.held is not None
    return looking.held, steps


@given(st.floats(FLOOR_PER_S, CEILING_PER_S))
def test_whatever_a_system_holds_is_found_to_the_precision(limit: float) -> None:
    held, steps = search(lambda step: step.rate <= limit)
    assert limit / 1.2 <= held * 1.000_001
    assert held <= limit
    assert steps[-1] == Step(held, is_whole=True)


def test_a_system_that_holds_not_even_the_floor_has_held_nothing() -> None:
    held, steps = search(lambda step: False)
    assert held == 0
    assert min(step.rate for step in steps) == FLOOR_PER_S


def test_a_system_that_holds_everything_is_asked_for_no_more_than_the_ceiling() -> None:
    held, steps = search(lambda step: True)
    assert held == CEILING_PER_S
    assert max(step.rate for step in steps) == CEILING_PER_S


def test_one_bad_moment_does_not_decide() -> None:
    moments = iter([False, True, False])
    held, _ = search(lambda step: step.rate <= 1_000 and next(moments, True))
    assert held > 1_000 / 1.2


@given(st.floats(FLOOR_PER_S, 1_000), st.floats(1_000, CEILING_PER_S))
def test_what_is_held_briefly_but_not_for_long_does_not_count(whole: float, brief: float) -> None:
    held, steps = search(lambda step: step.rate <= (whole if step.is_whole else brief))
    assert FLOOR_PER_S <= held <= whole
    assert held >= max(step.rate for step in steps if step.is_whole and step.rate <= whole)


def test_a_rate_that_is_held_for_long_is_looked_for_between_those_that_are_and_are_not() -> None:
    held, steps = search(lambda step: step.rate <= (500 if step.is_whole else 10_000))
    assert 500 / 1.5 <= held <= 500
    assert sum(step.is_whole for step in steps) <= 20


def test_holding_is_tried_down_to_the_floor_in_few_steps() -> None:
    held, steps = search(lambda step: not step.is_whole)
    assert held == 0
    assert steps[-1].rate == FLOOR_PER_S
    assert sum(step.is_whole for step in steps) <= 15 * TRIES


def test_in_a_hurry_what_was_held_so_far_is_tried_at_once() -> None:
    looking = Search(200.0, 1.2)
    looking.tell(held=True)
    looking.hurry()
    assert looking.step == Step(200.0, is_whole=True)
    looking.tell(held=True)
    assert looking.held == 200.0


def test_in_a_hurry_with_nothing_held_the_floor_is_tried_once() -> None:
    looking = Search(200.0, 1.2)
    looking.hurry()
    assert looking.step == Step(FLOOR_PER_S, is_whole=True)
    looking.tell(held=False)
    assert looking.held == 0


def test_nothing_can_be_told_when_the_answer_is_known() -> None:
    looking = Search(FLOOR_PER_S, 1.2)
    for _ in range(TRIES):
        looking.tell(held=False)
    with pytest.raises(AssertionError):
        looking.tell(held=True)
