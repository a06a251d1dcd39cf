"""A measurement of matchers for people and for programs."""

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.lab.bench_match import Result, Row
from mqloom.lab.peers import OURS

SHOWN_MAX = 10
"""So many disagreements are shown."""


def as_json(result: Result) -> dict[str, object]:
    """Return what `--json` prints: what was measured, no rounding that matters."""
    plan, costs, memory = result.plan, result.costs, result.memory
    return {
        "bench": "match",
        "workload": plan.workload,
        "subscriptions": plan.subscriptions,
        "events": plan.events,
        "seed": plan.seed,
        "rounds": result.rounds,
        "rows": [_row(row) for row in result.rows],
        "build_s": _rounded(costs.build_s),
        "settle_s": _rounded(costs.settle_s),
        "insert_us": _rounded(costs.insert_us),
        "delete_us": _rounded(costs.delete_us),
        "match_after_insert_us": _rounded(costs.match_after_insert_us),
        "bytes_per_subscription": _rounded(memory.best),
        "bytes_per_subscription_by": {
            "tracemalloc": _rounded(memory.traced),
            "rss": _rounded(memory.rss),
            "stats": _rounded(memory.reported),
        },
        "stats": {name: value for name, value in result.stats.items() if isinstance(value, int | float | str)},
        "agree": not result.disagreements,
        "checked_events": result.checked_events,
        "disagreements": [str(each) for each in result.disagreements[:SHOWN_MAX]],
        "missing": result.missing,
    }


def view(result: Result) -> RenderableType:
    """Return the measurement as a table and a few lines."""
    plan, costs, memory = result.plan, result.costs, result.memory
    title = f"{plan.workload}, {plan.subscriptions:,} subscriptions: events a second, best of {result.rounds} laps"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("engine", no_wrap=True)
    table.add_column("mode", no_wrap=True)
    for name in ("events/s", "matches", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.rows:
        ratio = "" if row.ratio_to_best_other is None else f"{row.ratio_to_best_other:.2f}"
        cells = (row.engine, row.mode, f"{row.events_per_s:,.0f}", f"{row.matches_per_event:,.1f}", ratio)
        table.add_row(*cells, style="bold" if row.engine == OURS else None)
    bytes_by = {"tracemalloc": memory.traced, "process": memory.rss, "its stats": memory.reported}
    lines = [
        f"build {costs.build_s:.2f} s, and {costs.settle_s:.2f} s for the first batch",
        f"insert {costs.insert_us:.1f} µs, delete {costs.delete_us:.1f} µs",
        f"a match right after an insert {costs.match_after_insert_us:.1f} µs",
        f"bytes a subscription: {_listed(bytes_by)}",
        "matches: ids, or destinations, an event; ratio: to the fastest that is not ours",
        *(f"{name} did not take part: {why}" for name, why in result.missing.items()),
        *_verdict(result),
    ]
    return Group(table, Text("\n".join(lines)))


def _verdict(result: Result) -> list[str]:
    if not result.disagreements:
        return [f"all agree on {result.checked_events} events with trying every filter"]
    shown = [f"  {each}" for each in result.disagreements[:SHOWN_MAX]]
    return [f"WRONG: {len(result.disagreements)} answers are not what trying every filter gives", *shown]


def _listed(figures: Mapping[str, float | None]) -> str:
    return ", ".join(f"{value:,.0f} by {name}" for name, value in figures.items() if value is not None)


def _row(row: Row) -> dict[str, object]:
    return {
        "engine": row.engine,
        "mode": row.mode,
        "events_per_s": _rounded(row.events_per_s),
        "matches_per_event": _rounded(row.matches_per_event),
        "ratio_to_best_other": _rounded(row.ratio_to_best_other),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
