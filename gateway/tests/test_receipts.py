"""Acknowledgements in the order of arrival, against a list."""

from hypothesis import given
from hypothesis import strategies as st

from mqloom.gateway.receipts import Receipts


def test_those_behind_one_that_waits_wait_too() -> None:
    receipts = Receipts()
    for number in (1, 2, 3):
        receipts.came(number)
    receipts.settle(3)
    receipts.settle(2)
    assert receipts.drain() == ()
    receipts.settle(1)
    assert receipts.drain() == (1, 2, 3)
    assert receipts.drain() == ()


def test_what_is_settled_of_an_earlier_connection_is_passed_over() -> None:
    receipts = Receipts()
    receipts.came(1)
    receipts.void()
    receipts.settle(1)
    assert receipts.drain() == ()
    assert len(receipts) == 0


def test_one_that_is_withdrawn_holds_nobody_up_and_is_never_acknowledged() -> None:
    receipts = Receipts()
    for number in (1, 2, 3):
        receipts.came(number)
    receipts.settle(2)
    receipts.withdraw(1)
    assert receipts.drain() == (2,)
    receipts.withdraw(2)  # too late: it is acknowledged
    receipts.settle(3)
    assert receipts.drain() == (3,)


@given(st.lists(st.sampled_from(["came", "void", "drain"]) | st.integers(0, 30), max_size=80))
def test_they_leave_as_from_a_list(script: list[str | int]) -> None:
    receipts, number = Receipts(), 0
    plain: list[list[int]] = []  # a receipt, and whether it is settled
    for step in script:
        if step == "came":
            receipts.came(number)
            plain.append([number, False])
            number += 1
        elif step == "void":
            receipts.void()
            plain.clear()
        elif step == "drain":
            ready = []
            while plain and plain[0][1]:
                ready.append(plain.pop(0)[0])
            assert receipts.drain() == tuple(ready)
        else:
            assert isinstance(step, int)
            receipts.settle(step)
            for entry in plain:
                entry[1] = entry[1] or entry[0] == step
        assert len(receipts) == len(plain)
