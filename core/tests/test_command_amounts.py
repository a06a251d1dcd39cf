import argparse

import pytest

from mqloom.core.command_amounts import in_units, size, time_span


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000.0), ("36h", 129_600.0), ("5 min", 300.0), ("0.5s", 0.5), ("2D", 172_800.0)]
)
def test_lengths_of_time_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert time_span(text) == seconds


@pytest.mark.parametrize(("text", "amount"), [("10GB", 10**10), ("500mb", 5 * 10**8), ("1.5kB", 1_500), ("7 B", 7)])
def test_sizes_are_read_as_people_write_them(text: str, amount: int) -> None:
    assert size(text) == amount


@pytest.mark.parametrize("text", ["", "10", "d", "-1d", "1e9d", "0d", "ten days", "3 weeks"])
def test_what_is_no_length_of_time_is_told_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 36h or 30d; units are s, min, h, d"):
        time_span(text)


@pytest.mark.parametrize("text", ["", "10", "0GB", "10 GiB"])
def test_what_is_no_size_is_told_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 500MB or 10GB"):
        size(text)


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_345_678, "2.3 MB"), (7e12, "7.0 TB")]
)
def test_sizes_are_written_as_people_read_them(amount: float, text: str) -> None:
    assert in_units(amount) == text
