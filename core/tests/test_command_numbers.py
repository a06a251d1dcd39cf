"""Numbers as options: what is read, and in which words the rest is refused."""

import argparse

import pytest

from mqloom.core.command_numbers import positive_number, whole_number


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("12", 12), ("1,000", 1_000), ("1_000", 1_000)])
def test_whole_numbers_up_to_the_bound_are_read(text: str, number: int) -> None:
    assert whole_number(1_000)(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1001", "x", "", "1.5", "²", "9" * 5_000])
def test_what_is_no_whole_number_in_the_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a whole number from 1 to 1,000$"):
        whole_number(1_000)(text)


def test_without_a_bound_whole_numbers_begin_with_1() -> None:
    assert whole_number()("1000000000") == 10**9
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'x' is not a whole number of 1 or more$"):
        whole_number()("x")


@pytest.mark.parametrize(("text", "number"), [("0.5", 0.5), ("200", 200.0), ("1e2", 100.0)])
def test_numbers_over_0_are_read(text: str, number: float) -> None:
    assert positive_number(200)(text) == positive_number()(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "201", "inf", "nan", "many"])
def test_what_is_no_number_in_the_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a number over 0 and at most 200$"):
        positive_number(200)(text)


def test_without_a_bound_infinity_is_refused_all_the_same() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'inf' is not a number over 0$"):
        positive_number()("inf")
