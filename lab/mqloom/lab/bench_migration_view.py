"""The measurement of moves for people, and for programs."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mqloom.lab.bench_migration import Result
from mqloom.lab.bench_moves import in_ms
from mqloom.lab.bench_quotes import quantile


def as_json(settings: dict[str, object], result: Result) -> dict[str, object]:
    """Return what `--json` prints."""
    return {"bench": "migration", "settings": settings, **figures(result)}


def figures(result: Result) -> dict[str, object]:
    """Return all that came out, with five digits of each figure."""
    found, delays = result.account, result.delays
    values: dict[str, object] = {
        "lost": found.lost,
        "duplicated": found.repeated,
        "wrong": found.wrong,
        "out_of_order": result.out_of_order,
        "moves": result.moves,
        "stayed": result.stayed,
        "problem": result.problem,
        "moves_per_s": result.moves / result.took_s if result.took_s else None,
        "added_ms_p50": delays.added_ms(0.50),
        "added_ms_p99": delays.added_ms(0.99),
        "added_ms_max": delays.added_ms_max,
        "calm_ms_p50": in_ms(quantile(delays.calm, 0.50)),
        "calm_ms_p99": in_ms(quantile(delays.calm, 0.99)),
        "overhead_bytes_per_move": result.overhead_bytes / result.moves if result.moves else None,
        "published": result.published,
        "published_per_s": result.published_per_s,
        "deliveries": found.wanted - found.lost,
        "deliveries_during_moves": len(delays.moving),
    }
    waves = [{"from": each.source, "to": each.to, "moved": each.moved, "stayed": each.stayed} for each in result.waves]
    return {**{name: _rounded(value) for name, value in values.items()}, "waves": waves}


def view(result: Result) -> Table:
    """Return the table."""
    table = Table(title="subscribers moved between brokers under load", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in figures(result).items():
        if isinstance(value, int | float):
            table.add_row(name, f"{value:,}")
        elif value is None:
            table.add_row(name, "")
    return table


def _rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value
