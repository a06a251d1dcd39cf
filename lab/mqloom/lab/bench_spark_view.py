"""The measurement of Spark for people, and for programs."""

import os
from dataclasses import asdict, dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

LINEAR: Final = 1.1
"""Seconds for a row, compared with the smallest size: up to this it counts as linear, for clocks are no better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFigures:
    """What came out for one size; times in seconds."""

    rows: int
    spool_bytes: int
    generate_s: float
    report_s: float
    stage_s: float
    spark_s: float
    duckdb_s: float | None
    pandas_s: float
    stream_rows_s: float
    agree: bool


def as_json(master: str, found: list[SparkFigures]) -> dict[str, object]:
    """Return what `--json` prints; `growth` is the time of a row, in the report, compared with the smallest size."""
    sizes = [{name: _rounded(value) for name, value in asdict(each).items()} for each in found]
    growth = growth_of(found)
    return {
        "bench": "spark",
        "settings": {"master": master, "cores": os.cpu_count()},
        "sizes": sizes,
        "growth": [_rounded(each) for each in growth],
        "is_linear": max(growth) <= LINEAR,
        "stream_rows_s": _rounded(max(each.stream_rows_s for each in found)),
    }


def growth_of(found: list[SparkFigures]) -> list[float]:
    """Return for each size how long a row takes in the report, as a multiple of the smallest size's."""
    first = found[0].report_s / found[0].rows
    return [each.report_s / each.rows / first for each in found]


def _rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def view(found: list[SparkFigures]) -> Table:
    """Return the figures for people."""
    table = Table(box=SIMPLE_HEAD, title="seconds, and rows a second of the stream", title_justify="left")
    for name in ("rows", "report", "a row", "decoding", "query: Spark", "DuckDB", "pandas", "stream rows/s"):
        table.add_column(name, justify="right")
    for each, growth in zip(found, growth_of(found), strict=True):
        duckdb = "-" if each.duckdb_s is None else f"{each.duckdb_s:.2f}"
        table.add_row(
            f"{each.rows:,}",
            f"{each.report_s:.1f}",
            f"x {growth:.2f}",
            f"{each.stage_s:.1f}",
            f"{each.spark_s:.2f}",
            duckdb,
            f"{each.pandas_s:.2f}",
            f"{each.stream_rows_s:,.0f}",
        )
    return table
