"""One is one, and all else are many."""

from mqloom.core.wording import counted


def test_one_is_told_from_many() -> None:
    assert [counted(number, "client") for number in (0, 1, 2, 1_200)] == [
        "0 clients",
        "1 client",
        "2 clients",
        "1,200 clients",
    ]
