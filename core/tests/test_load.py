import pytest

from mqloom.core.load import STUCK_OUTPUT, output_utilisation


def test_output_that_keeps_up_is_as_busy_as_it_sends() -> None:
    assert output_utilisation(3.0, 10.0, 500, 500) == pytest.approx(0.3)
    assert output_utilisation(3.0, 10.0, 400, 500) == pytest.approx(0.3)  # the rest had waited from before
    assert output_utilisation(0.0, 10.0, 0, 0) == 0


def test_output_that_falls_behind_is_over_one_by_how_much() -> None:
    assert output_utilisation(10.0, 10.0, 900, 600) == pytest.approx(1.5)


def test_nothing_sent_and_something_queued_is_overload_and_not_idleness() -> None:
    assert output_utilisation(0.0, 10.0, 1, 0) == STUCK_OUTPUT > 1
