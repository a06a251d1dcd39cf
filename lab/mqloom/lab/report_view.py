"""A report of an experiment for people and for programs."""

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.lab.experiment import Experiment, Figure, Report, Row, shown

DIGITS: Final = 6


def as_json(experiment: Experiment, seed: int, quick: bool, report: Report) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        "experiment": experiment.name,
        "seed": seed,
        "quick": quick,
        "rows": [
            {
                "name": row.name,
                "paper": _rounded(row.paper),
                "ours": _rounded(row.ours),
                "unit": row.unit,
                "bound": _rounded(row.bound),
                "target": row.target,
                "ok": row.ok,
            }
            for row in report.rows
        ],
        "ok": report.ok,
    }


def view(experiment: Experiment, seed: int, quick: bool, report: Report) -> RenderableType:
    """Return a report as a table and a few lines."""
    title = f"{experiment.name}, seed {seed}{', quick' if quick else ''}: {experiment.summary}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("", overflow="fold")
    has_paper = any(row.paper is not None for row in report.rows)
    has_bound = any(row.bound is not None for row in report.rows)
    columns = [*["paper"] * has_paper, "ours", *["bound"] * has_bound, "target"]
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in report.rows:
        figures = [*[row.paper] * has_paper, row.ours, *[row.bound] * has_bound]
        name = f"{row.name}, {row.unit}" if row.unit else row.name
        table.add_row(Text(name), *map(shown, figures), row.target or "", Text(_verdict(row), _style(row)))
    lines = [f"source: {experiment.source}", *report.notes, _summary(report)]
    return Group(table, Text("\n".join(lines)))


def _verdict(row: Row) -> str:
    return "" if row.target is None else "ok" if row.ok else "MISSED"


def _style(row: Row) -> str:
    return "green" if row.ok else "bold red"


def _summary(report: Report) -> str:
    targets = [row for row in report.rows if row.target is not None]
    missed = [row for row in targets if not row.ok]
    if missed:
        return f"MISSED: {len(missed)} of {len(targets)} targets: {'; '.join(row.name for row in missed)}"
    return f"all {len(targets)} targets reached" if targets else "no targets: look at the figures"


def _rounded(figure: Figure | None) -> Figure | None:
    """Round as far as a mathematical library of another machine may differ, and no further."""
    return float(f"{figure:.{DIGITS}g}") if isinstance(figure, float) else figure
