"""How the demonstration of load balancing looks: bars that even out, decisions, and what was predicted and came."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.agents.decisions import Decision
from mqloom.core.ids import GatewayId
from mqloom.lab.demo_overload import HEAD, WEAKEST, EdgeFigures, Overload
from mqloom.lab.demo_trading import last_word, told

BAR_WIDTH: Final = 8
DECISIONS_SHOWN: Final = 5
SESSIONS_SHOWN: Final = 20
"""In the table at the end, the last ones; `--json` has all that are remembered."""
STYLES: Final = {"OK": "green", "BUSY": "yellow", "N/A": "red", "STABILIZING": "cyan"}
HEAVY: Final = 0.9
"""From here on a bar is red: overload_low."""


def view(demo: Overload, seconds_left: float | None) -> RenderableType:
    """Return what stands on the screen now."""
    title = f"MQLoom: all joined {WEAKEST}, the weakest; load agents spread the load"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in ("broker", "kB/s", "state", "input", "output", "clients", "sessions", "moves"):
        table.add_column(
            name, no_wrap=True, justify="left" if name in ("broker", "state", "input", "output") else "right"
        )
    for row in demo.rows():
        table.add_row(*_cells(row))
    began_at = demo.began_at or 0.0
    lines = [
        decision_line(giving, decision, began_at) for giving, decision in reversed(demo.sessions()[-DECISIONS_SHOWN:])
    ]
    lines += [""] * (DECISIONS_SHOWN - len(lines))  # so that nothing jumps
    ending = "Ctrl-C ends it" if seconds_left is None else f"{max(0, seconds_left):.0f} s left"
    last = f"{len(demo.quotes):,} quotes published, {demo.moved():,} moves; {ending}"
    return Group(table, Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), Text(last, style="dim"))


def _cells(row: EdgeFigures) -> list[RenderableType]:
    is_head = row.id == HEAD
    limit = f"{row.bytes_s_max / 1_000:.1f}" if row.bytes_s_max else "-"
    load = row.load
    return [
        row.id,
        limit,
        Text(row.state, style=STYLES.get(row.state, "")),
        bar(None if load is None else load.input_ratio),
        Text("-") if is_head else bar(None if load is None else load.output_ratio),
        f"{row.subscribers}",
        f"{row.sessions}",
        f"+{row.came} -{row.left}" if row.came or row.left else "",
    ]


def bar(ratio: float | None) -> Text:
    """Return a utilisation as a bar and a number; what is over 1 fills it."""
    if ratio is None:
        return Text("-")
    full = min(BAR_WIDTH, round(ratio * BAR_WIDTH))
    style = "red" if ratio > HEAVY else "green"
    return Text.assemble(("█" * full, style), ("░" * (BAR_WIDTH - full), "dim"), f" {ratio:.2f}")


def decision_line(giving: GatewayId, decision: Decision, since: float) -> str:
    """Return what was decided, and what has come of it so far, in one line."""
    metric = decision.metric
    why = f"{metric}{' overload' if decision.is_overload else ''}"
    line = f"{decision.began_at - since:4.0f} s {giving} → {decision.partner}, {why}: "
    if decision.outcome == "lasts":
        return line + (f"moving {decision.chosen}" if decision.chosen else "looking for whom to move")
    if decision.moved <= 0:
        return f"{line}{decision.outcome}; {decision.reason}" if decision.reason else line + decision.outcome
    assert metric is not None
    line += f"{decision.moved} moved"
    if decision.predicted is not None and decision.predicted_partner is not None:
        here, there = decision.predicted.of(metric), decision.predicted_partner.of(metric)
        line += f"; predicted {here:.2f}, {there:.2f}"
    if decision.observed is not None and decision.observed_partner is not None:
        line += f"; came {decision.observed.of(metric):.2f}, {decision.observed_partner.of(metric):.2f}"
    return line


def summary(verdict: dict[str, object]) -> str:
    """Return the verdict for people."""
    brokers, predictions = verdict["brokers"], verdict["predictions"]
    assert isinstance(brokers, list)
    assert isinstance(predictions, list)
    return "\n".join(
        (
            *_spread(brokers),
            "",
            *_predictions(predictions),
            f"{verdict['sessions']} sessions, {verdict['moved']} moves. {told(verdict)}.",
            last_word(verdict),
        )
    )


def _spread(brokers: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["edge    can send   output before   output now   clients now"]
    for each in brokers:
        if each["id"] == HEAD:
            continue
        before, after = (_number(each[when] and each[when]["output"]) for when in ("before", "after"))
        limit = f"{each['output_bytes_s_max'] / 1_000:.1f} kB/s"
        lines.append(f"{each['id']:<6}{limit:>10}{before:>16}{after:>13}{each['subscribers']:>14}")
    return lines


def _predictions(predictions: Sequence[Mapping[str, Any]]) -> list[str]:
    if not predictions:
        return ["no session has moved anybody yet: give it half a minute", ""]
    lines = [
        f"{'':27}   where they left     where they went",
        "session       for    moved  predicted observed  predicted observed    wrong by",
    ]
    for each in predictions[-SESSIONS_SHOWN:]:
        pairs = zip(each["predicted"], each["observed"], strict=True)
        figures = "".join(f"{_number(one):>11}{_number(other):>9}" for one, other in pairs)
        errors = ", ".join("?" if error is None else f"{error:.0%}" for error in each["error"])
        parties = f"{each['from']} → {each['to']}"
        lines.append(f"{parties:<14}{each['metric']:<7}{each['moved']:>5}{figures}{errors:>12}")
    return [*lines, ""]


def _number(figure: float | None) -> str:
    return "?" if figure is None else f"{figure:.2f}"
