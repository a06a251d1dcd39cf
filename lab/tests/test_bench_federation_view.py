"""The federation's measurement for people and programs."""

from pathlib import Path

import pytest
from rich.console import Console

from mqloom.lab.bench_federation import Row
from mqloom.lab.bench_federation_view import as_json, draw, view

ROWS = [
    Row("bridge", 2, 10, 1, 1_000.123456, 0, 900.0, 1_500.0, 0.5, 1.0),
    Row("mqloom", 2, 10, 1, 6_000.0, 0, 90.0, 180.0, 1.5, 4.0),
    Row("bridge unfiltered", 2, 1, 0, 0.0, 0, None, None, None, None),
    Row("mqloom unfiltered", 1, 1, 0, 20_000.0, 0, None, None, None, None),
]


def test_json_has_these_keys_and_no_other() -> None:
    answer = as_json({"seed": 1}, ROWS[:1])
    assert answer == {
        "bench": "federation",
        "settings": {"seed": 1},
        "rows": [
            {
                "system": "bridge",
                "brokers": 2,
                "subscribers": 10,
                "qos": 1,
                "held_per_s": 1_000.1,
                "lost": 0,
                "cpu_us_per_wanted": 900.0,
                "link_bytes_per_wanted": 1_500.0,
                "p50_ms": 0.5,
                "p99_ms": 1.0,
            }
        ],
    }


def test_the_table_says_how_many_times_as_much_gateways_hold() -> None:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(view(ROWS))
    lines = [line.split() for line in captured.get().splitlines()]
    assert ["mqloom", "2", "10", "1", "6,000", "0", "90", "180", "1.50", "4.00", "6.00"] in lines
    assert ["mqloom", "unfiltered", "1", "1", "0", "20,000", "0"] in lines, "nothing to compare with"


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(ROWS, tmp_path / "held.svg")
    assert (tmp_path / "held.svg").read_text().count("6,000") >= 1 or (tmp_path / "held.svg").stat().st_size > 1_000
