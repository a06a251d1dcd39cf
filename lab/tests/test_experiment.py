"""Rows, reports and points."""

import math

import pytest

from mqloom.lab.experiment import Report, Row, at_least, at_most, exactly, shown, tell_nobody, thinned


def test_a_target_is_reached_up_to_its_very_limit() -> None:
    assert at_most("a", 3, 3).ok
    assert not at_most("a", 3.001, 3).ok
    assert at_least("a", 3, 3).ok
    assert not at_least("a", 2.999, 3).ok
    assert exactly("a", 0, 0).ok
    assert not exactly("a", 1, 0).ok
    assert exactly("a", "converges", "converges").ok


def test_the_target_says_what_was_asked_for() -> None:
    targets = [row.target for row in (at_most("a", 1, 26_220), at_least("a", 1, 0.5), exactly("a", 0, 0))]
    assert targets == ["at most 26,220", "at least 0.5", "0"]


def test_one_missed_target_is_enough() -> None:
    good, bad, plain = exactly("a", 0, 0), exactly("b", 1, 0), Row(name="c", ours=5)
    assert Report(rows=(good, plain)).ok
    assert not Report(rows=(good, bad, plain)).ok


def test_a_row_without_a_target_cannot_be_missed() -> None:
    with pytest.raises(ValueError, match="without a target"):
        Row(name="a", ours=1, ok=False)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_no_number_is_no_figure(value: float) -> None:
    with pytest.raises(ValueError, match=r"delay: (inf|nan) is no figure"):
        at_most("delay", value, 3)


@pytest.mark.parametrize(
    ("figure", "text"),
    [(1_000_000, "1,000,000"), (0.123456, "0.1235"), (98_765.4, "98,765"), (3.0, "3"), ("many", "many"), (None, "")],
)
def test_figures_are_shown_for_people(figure: float | str | None, text: str) -> None:
    assert shown(figure) == text


def test_thinning_keeps_the_ends_and_the_peak() -> None:
    points = [(float(x), 0.0) for x in range(10_000)]
    points[7_777] = (7_777.0, 5.0)
    kept = thinned(points, 100)
    assert len(kept) <= 100
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert (7_777.0, 5.0) in kept
    assert list(kept) == sorted(kept)


def test_few_points_are_all_kept() -> None:
    assert thinned([(0.0, 1.0), (1.0, 2.0)]) == ((0.0, 1.0), (1.0, 2.0))


def test_nobody_can_be_told() -> None:
    tell_nobody(0.5, "half way")
