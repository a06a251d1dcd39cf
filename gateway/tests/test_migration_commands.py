"""What the commands that move clients say of those that cannot be moved."""

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.migration_records import MigrationAnswer
from mqloom.gateway.migration_commands import NAMES_MAX, tell_immovable, tell_left

EAST, WEST = map(GatewayId, ("east", "west"))


def named(begin: int, count: int, reason: str = "keyless") -> MigrationAnswer:
    immovable = {f"c{number:04}": reason for number in range(begin, begin + count)}
    return MigrationAnswer(answer="done", immovable=immovable)


def test_many_that_cannot_be_moved_are_a_line_for_each_gateway_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [
        (EAST, named(0, 1_000)),
        (WEST, named(1_000, 1)),
        (EAST, named(2_000, 500)),
        (EAST, named(9, 1, "plain")),
    ]
    tell_immovable("migrate", answers)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("mqloom migrate: at east, and cannot be moved: 1,499 clients without this federation's ")
    names = ", ".join(f"c{number:04}" for number in range(NAMES_MAX + 1) if number != 9)
    assert f"set not to move: {names} and 1,489 more; to run this again does not help" in lines[0]
    assert ": 1 client of another program than mqloom.client, which knows nothing of orders: c0009; " in lines[1]
    assert lines[2].startswith("mqloom migrate: at west, and cannot be moved: 1 client without")
    assert "set not to move: c1000; " in lines[2]


def test_who_cannot_be_moved_is_told_where_a_gateway_does_not_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    tell_left("drain", WEST, MigrationAnswer(answer="done", fixed=3))
    assert capsys.readouterr().err == (
        "mqloom drain: still at west: 3 clients that cannot be moved, why its gateway does not say; "
        "to run this again does not help\n"
    )
    tell_left(
        "drain", WEST, MigrationAnswer(answer="done", fixed=1, fixed_by={"plain": 1}, immovable={"till": "plain"})
    )
    assert "does not say" not in capsys.readouterr().err
