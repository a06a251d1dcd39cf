import pytest

from mqloom.lab.clock import Clock


def test_what_is_due_at_one_time_happens_in_the_order_of_its_making() -> None:
    clock, happened = Clock(), []
    for name in "abc":
        clock.at(1.0, lambda name=name: happened.append(name))  # type: ignore[misc]
    clock.at(0.5, lambda: happened.append("first"))
    clock.run(2.0)
    assert happened == ["first", "a", "b", "c"]
    assert clock.now == 2.0


def test_nothing_happens_after_the_end_or_in_the_past() -> None:
    clock, times = Clock(), []
    clock.at(5.0, lambda: times.append(clock.now))
    clock.run(4.0)
    assert not times
    clock.at(1.0, lambda: times.append(clock.now))
    clock.run(6.0)
    assert times == [4.0, 5.0]


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_timer_that_is_cancelled_does_nothing(cancelled: bool) -> None:
    clock, happened = Clock(), []
    timer = clock.timer_at(1.0, lambda: happened.append(1))
    if cancelled:
        timer.cancel()
    clock.run(2.0)
    timer()
    assert happened == ([] if cancelled else [1])
