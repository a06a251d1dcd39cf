"""Differences that last, and those that do not."""

import random

import pytest

from mqloom.agents.lasting import CLEAR, Lasting

TRIGGER = 0.1


def verdicts(differences: list[float], detections: int = 3) -> list[bool]:
    lasting = Lasting[str](detections)
    found = []
    for each in differences:
        lasting.note({"B2": each})
        found.append(lasting.is_over("B2", TRIGGER))
    return found


def test_a_small_difference_counts_when_it_has_lasted() -> None:
    assert verdicts([0.11, 0.11, 0.11, 0.11]) == [False, False, True, True]


def test_a_large_difference_counts_at_once() -> None:
    assert verdicts([CLEAR * TRIGGER + 0.001]) == [True]
    assert verdicts([CLEAR * TRIGGER]) == [False]


def test_a_peak_of_what_is_even_on_average_does_not_count() -> None:
    assert not any(verdicts([0.0, 0.14, 0.05, 0.08, 0.14, 0.02]))


def test_what_is_over_on_average_counts_when_it_is_over_now() -> None:
    assert verdicts([0.14, 0.09, 0.12, 0.099]) == [False, False, True, False]


def test_with_one_detection_it_is_the_papers_rule() -> None:
    differences = [random.Random(1).uniform(0.0, 0.2) for _ in range(100)]
    assert verdicts(differences, 1) == [each > TRIGGER for each in differences]


@pytest.mark.parametrize("is_cleared", [True, False])
def test_who_was_not_seen_or_whose_load_has_changed_begins_anew(is_cleared: bool) -> None:
    lasting = Lasting[str](2)
    lasting.note({"B2": 0.11, "B3": 0.11})
    if is_cleared:
        lasting.clear()
    else:
        lasting.note({"B3": 0.11})
        assert lasting.is_over("B3", TRIGGER)
    lasting.note({"B2": 0.11, "B3": 0.11})
    assert not lasting.is_over("B2", TRIGGER)
    assert lasting.is_over("B3", TRIGGER) is not is_cleared
    lasting.note({"B2": 0.11, "B3": 0.11})
    assert lasting.is_over("B2", TRIGGER)
