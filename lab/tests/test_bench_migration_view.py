"""What `mqloom bench migration` prints."""

from rich.console import Console

from mqloom.lab.bench_migration import Result, Wave
from mqloom.lab.bench_migration_view import as_json, view
from mqloom.lab.bench_moves import Delays
from mqloom.lab.bench_quotes import Account


def result(*, lost: int = 0, repeated: int = 0, stayed: int = 0, moves: int = 8) -> Result:
    return Result(
        account=Account(100, lost, repeated, 0, 0.1, []),
        delays=Delays([0.001, 0.002], [0.011, 0.032], [0.01, 0.03]),
        out_of_order=1,
        moves=moves,
        stayed=stayed,
        problem="",
        took_s=2.0,
        overhead_bytes=24_000,
        published=1_000,
        published_per_s=50.0,
        waves=[Wave("west", "east", moves, stayed, (0.0, 2.0))],
    )


def test_programs_get_every_figure_by_its_name() -> None:
    answer = as_json({"rate": 50.0}, result(lost=2, repeated=1))
    expected = {
        "bench": "migration",
        "settings": {"rate": 50.0},
        "lost": 2,
        "duplicated": 1,
        "out_of_order": 1,
        "moves": 8,
        "moves_per_s": 4.0,
        "added_ms_p50": 30.0,
        "added_ms_p99": 30.0,
        "added_ms_max": 30.0,
        "overhead_bytes_per_move": 3_000.0,
        "waves": [{"from": "west", "to": "east", "moved": 8, "stayed": 0}],
    }
    assert {name: answer[name] for name in expected} == expected


def test_where_nobody_was_moved_there_is_no_figure_for_a_move() -> None:
    answer = as_json({}, result(moves=0))
    assert answer["overhead_bytes_per_move"] is None


def test_people_get_a_table() -> None:
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as captured:
        console.print(view(result()))
    assert "added_ms_p99" in captured.get()
    assert "24,000" not in captured.get()


def test_a_promise_is_kept_if_all_were_moved_and_nothing_was_lost_or_came_twice() -> None:
    assert result().is_kept
    assert not any(each.is_kept for each in (result(lost=1), result(repeated=1), result(stayed=1), result(moves=0)))
