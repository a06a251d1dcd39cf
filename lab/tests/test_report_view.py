"""A report as a table and as JSON."""

import json

from rich.console import Console

from mqloom.lab.experiment import Experiment, Report, Row, at_most, exactly, tell_nobody
from mqloom.lab.report_view import as_json, view

ROWS = (
    at_most("forwards, share of S0's", 0.3123456789, 0.3, paper=0.39, bound=0.21),
    exactly("lost", 0, 0),
    Row(name="moves", ours=12, unit="per session"),
)


def run(seed: int, quick: bool, tell: object) -> Report:
    return Report(rows=ROWS, notes=("a [note]",))


EXPERIMENT = Experiment(name="soft-links", summary="fewer forwards", source="paper 001", run=run)


def text_of(rows: tuple[Row, ...]) -> str:
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        console.print(view(EXPERIMENT, 3, True, Report(rows=rows, notes=("a [note]",))))
    return captured.get()


def test_json_has_what_the_table_shows() -> None:
    columns = ("name", "paper", "ours", "unit", "bound", "target", "ok")
    rows = (
        ("forwards, share of S0's", 0.39, 0.312346, "", 0.21, "at most 0.3", False),
        ("lost", None, 0, "", None, "0", True),
        ("moves", None, 12, "per session", None, None, True),
    )
    answer = as_json(EXPERIMENT, 3, True, EXPERIMENT.run(3, True, tell_nobody))
    assert answer == {
        "experiment": "soft-links",
        "seed": 3,
        "quick": True,
        "rows": [dict(zip(columns, row, strict=True)) for row in rows],
        "ok": False,
    }
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_the_table_shows_the_paper_beside_ours_the_bound_and_the_verdict() -> None:
    text = text_of(ROWS)
    line = next(line for line in text.splitlines() if "forwards, share" in line)
    assert line.split("S0's")[1].split() == ["0.39", "0.3123", "0.21", "at", "most", "0.3", "MISSED"]
    assert "soft-links, seed 3, quick: fewer forwards" in text
    assert "moves, per session" in text
    assert "a [note]" in text
    assert "MISSED: 1 of 2 targets: forwards, share of S0's" in text


def test_columns_in_which_nothing_would_stand_are_left_out() -> None:
    text = text_of(ROWS[1:])
    assert "paper " not in text.replace("paper 001", "")
    assert "bound" not in text
    assert "all 1 targets reached" in text


def test_without_targets_nothing_is_claimed() -> None:
    assert "no targets: look at the figures" in text_of(ROWS[2:])
