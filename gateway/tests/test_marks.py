"""The low-water mark: it passes a sequence only when the broker has surely read its acknowledgement."""

from hypothesis import given
from hypothesis import strategies as st

from mqloom.core.limits import FENCE_EVERY_S
from mqloom.gateway.marks import Marks


def kept(marks: Marks, count: int) -> None:
    for _ in range(count):
        marks.next(is_kept=True)


def test_nothing_published_nothing_is_below_the_mark() -> None:
    marks = Marks()
    assert marks.low_water == 0
    assert marks.deadline is None
    assert marks.fence(0.0) is None


def test_what_is_not_kept_is_done_with_at_once() -> None:
    marks = Marks()
    assert [marks.next(is_kept=False) for _ in range(3)] == [0, 1, 2]
    assert marks.low_water == 3
    assert marks.next(is_kept=True) == 3
    assert marks.next(is_kept=False) == 4
    assert marks.low_water == 3


def test_the_mark_moves_only_behind_a_fence() -> None:
    marks = Marks()
    kept(marks, 2)
    marks.acknowledge([0])
    assert marks.low_water == 0
    number = marks.fence(0.0)
    assert number is not None
    assert marks.low_water == 0
    marks.acknowledge([1])  # behind the fence: that one proves nothing for it
    marks.fenced(number)
    assert marks.low_water == 1
    marks.check()


def test_a_gap_holds_the_mark() -> None:
    marks = Marks()
    kept(marks, 3)
    marks.acknowledge([1, 2])
    marks.fenced(marks.fence(0.0) or 0)
    assert marks.low_water == 0
    marks.acknowledge([0])
    marks.fenced(marks.fence(1.0) or 0)
    assert marks.low_water == 3
    marks.check()


def test_one_fence_is_under_way_at_a_time_and_no_more_often_than_the_bound() -> None:
    marks = Marks()
    kept(marks, 3)
    marks.acknowledge([0])
    assert marks.deadline == 0.0
    first = marks.fence(10.0)
    assert first == 1
    assert marks.deadline is None
    marks.acknowledge([1])
    assert marks.fence(20.0) is None  # the first is not back
    assert marks.deadline is None
    marks.fenced(first)
    assert marks.deadline == 10.0 + FENCE_EVERY_S
    assert marks.fence(10.0 + FENCE_EVERY_S - 0.01) is None
    assert marks.fence(10.0 + FENCE_EVERY_S) == 2


def test_a_fence_of_a_broken_connection_proves_nothing_but_the_next_one_does() -> None:
    marks = Marks()
    kept(marks, 1)
    marks.acknowledge([0])
    first = marks.fence(0.0)
    marks.void()
    marks.fenced(first or 0)
    assert marks.low_water == 0
    second = marks.fence(FENCE_EVERY_S)
    assert second != first
    marks.fenced(second or 0)
    assert marks.low_water == 1
    marks.check()


def test_what_is_acknowledged_once_more_needs_a_fence_behind_that() -> None:
    marks = Marks()
    kept(marks, 1)
    marks.acknowledge([0])
    number = marks.fence(0.0)
    marks.acknowledge([0])
    marks.fenced(number or 0)
    assert marks.low_water == 0
    marks.fenced(marks.fence(FENCE_EVERY_S) or 0)
    assert marks.low_water == 1


def test_what_is_done_with_is_acknowledged_once_more_without_consequence() -> None:
    marks = Marks()
    kept(marks, 2)
    marks.acknowledge([1])
    marks.fenced(marks.fence(0.0) or 0)
    marks.acknowledge([1])
    assert marks.deadline is None
    marks.acknowledge([0])
    marks.fenced(marks.fence(1.0) or 0)
    marks.acknowledge([0, 1])
    assert marks.deadline is None
    marks.check()


steps = st.one_of(
    st.just("next"), st.just("skip"), st.just("fence"), st.just("answer"), st.just("break"), st.integers(0, 12)
)


@given(st.lists(steps, max_size=80))
def test_below_the_mark_the_broker_has_read_every_acknowledgement(script: list[str | int]) -> None:
    """A broker reads in order; what is under way when the connection breaks it may never read."""
    marks, now, count = Marks(), 0.0, 0
    kept_ones: list[int] = []
    under_way: list[tuple[str, int]] = []
    read: set[int] = set()
    for step in script:
        now += 1.0
        if step in ("next", "skip"):
            marks.next(is_kept=step == "next")
            kept_ones += [count] if step == "next" else []
            count += 1
        elif step == "fence":
            number = marks.fence(now)
            if number is not None:
                under_way.append(("fence", number))
        elif step == "answer":
            while under_way:
                kind, number = under_way.pop(0)
                if kind == "fence":
                    marks.fenced(number)
                    break
                read.add(number)
        elif step == "break":
            under_way.clear()
            marks.void()
            # The broker sends again what it has not read, and that is acknowledged once more before anything else.
            again = [number for number in kept_ones if number not in read]
            marks.acknowledge(again)
            under_way += [("acknowledgement", number) for number in again]
        elif step in kept_ones:
            assert isinstance(step, int)
            marks.acknowledge([step])
            under_way.append(("acknowledgement", step))
        marks.check()
        assert all(number in read for number in kept_ones if number < marks.low_water)
