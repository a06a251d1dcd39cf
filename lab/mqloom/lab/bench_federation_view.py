"""The federation's measurement for people, for programs, and as a picture."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mqloom.lab.bench_federation import Row

_COLORS: Final = {"mqloom": "#0072B2", "bridge": "#555555"}
_COLUMNS: Final = (
    "brokers",
    "subscribers",
    "QoS",
    "held/s",
    "lost",
    "cpu µs/wanted",
    "link bytes/wanted",
    "p50 ms",
    "p99 ms",
)


def as_json(settings: dict[str, object], rows: Sequence[Row]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {"bench": "federation", "settings": settings, "rows": [row_as_json(row) for row in rows]}


def row_as_json(row: Row) -> dict[str, object]:
    """Return one row, with five digits of each figure."""
    return {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in asdict(row).items()}


def view(rows: Sequence[Row]) -> Table:
    """Return the table: what bridges reached, and below each what gateways did, and how many times as much that is."""
    table = Table(title="the highest rate held without loss", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("system", no_wrap=True)
    for name in (*_COLUMNS, "times"):
        table.add_column(name, justify="right")
    bridges = {_key(row): row for row in rows if row.system.startswith("bridge")}
    for row in rows:
        other = bridges.get(_key(row)) if row.system.startswith("mqloom") else None
        times = f"{row.held_per_s / other.held_per_s:.2f}" if other is not None and other.held_per_s else ""
        cells = (
            row.system,
            str(row.brokers),
            str(row.subscribers),
            str(row.qos),
            f"{row.held_per_s:,.0f}",
            str(row.lost),
            _cell(row.cpu_us_per_wanted, 0),
            _cell(row.link_bytes_per_wanted, 0),
            _cell(row.p50_ms, 2),
            _cell(row.p99_ms, 2),
        )
        table.add_row(*cells, times, style="bold" if other is not None else None)
    return table


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the held rates of all cases, side by side, into a file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to load

    cases = list(dict.fromkeys(_key(row) for row in rows))
    figure = Figure(figsize=(9.5, 1.4 + 0.5 * len(cases)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for row in rows:
        system = row.system.split()[0]
        height = cases.index(_key(row)) + (0.2 if system == "mqloom" else -0.2)
        rate = max(row.held_per_s, 1.0)
        axes.barh(height, rate, 0.38, color=_COLORS[system])
        axes.annotate(f" {row.held_per_s:,.0f}", (rate, height), va="center", fontsize=8, color=_COLORS[system])
    axes.set_yticks(range(len(cases)), [_title(case) for case in cases])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("publications a second; gateways in blue, bridges in grey")
    axes.set_title("The highest rate held without loss", loc="left", fontweight="bold")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path)


def _key(row: Row) -> tuple[int, int, int, bool]:
    """Return what a case's rows have in common; without filters the numbers of brokers are not."""
    is_filtered = "unfiltered" not in row.system
    return (row.brokers if is_filtered else 0, row.subscribers, row.qos, is_filtered)


def _title(case: tuple[int, int, int, bool]) -> str:
    brokers, subscribers, qos, is_filtered = case
    return f"{brokers} brokers, {subscribers} subscribers, QoS {qos}" if is_filtered else f"no filter, QoS {qos}"


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
