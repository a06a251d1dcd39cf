"""A replay for people and for programs: each broker as it was, as it would have been, and by other settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mqloom.core.ids import GatewayId
from mqloom.lab.padres_outcome import Outcome
from mqloom.lab.replay_recording import Recorded

NAMES: Final = ("recorded", "unmoved", "replayed")


@dataclass(frozen=True, slots=True)
class Figures:
    """One broker in one of the three."""

    output_mean: float
    output_p95: float
    input_mean: float
    input_p95: float
    overloaded_share: float
    """Of its windows, in which input or output was past its capacity."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One broker in all three."""

    broker: GatewayId
    recorded: Figures
    unmoved: Figures
    replayed: Figures
    subscribers: int
    """At the end of the replay."""


def figures_of(outputs: Sequence[float], inputs: Sequence[float]) -> Figures:
    """Return the figures of some windows; zeros for none."""
    if not outputs:
        return Figures(0.0, 0.0, 0.0, 0.0, 0.0)
    over = sum(max(pair) > 1.0 for pair in zip(outputs, inputs, strict=True))
    return Figures(
        fmean(outputs),
        float(np.percentile(outputs, 95)),
        fmean(inputs),
        float(np.percentile(inputs, 95)),
        over / len(outputs),
    )


def recorded_figures(recorded: Recorded) -> Figures:
    """Return what was measured."""
    return figures_of([load.output_ratio for load in recorded.loads], [load.input_ratio for load in recorded.loads])


def played_figures(outcome: Outcome, broker: GatewayId) -> Figures:
    """Return what came in a replay."""
    loads = [load for _, load in outcome.loads[broker]]
    return figures_of([load.output_ratio for load in loads], [load.input_ratio for load in loads])


def view(rows: Sequence[Compared], sessions: int, moved: int, settings: str, notes: Sequence[str]) -> RenderableType:
    """Return the table, and what a reader has to know."""
    table = Table(title=f"replay with {settings}", title_justify="left", box=SIMPLE_HEAD)
    for column in ("broker", "", "output", "p95", "input", "p95", "full", "clients"):
        table.add_column(column, justify="left" if column in ("broker", "") else "right")
    for row in rows:
        for name, each in zip(NAMES, (row.recorded, row.unmoved, row.replayed), strict=True):
            shares = (each.output_mean, each.output_p95, each.input_mean, each.input_p95, each.overloaded_share)
            is_first, is_last = name == NAMES[0], name == NAMES[-1]
            cells = [f"{share:.0%}" for share in shares]
            table.add_row(
                row.broker if is_first else "",
                name,
                *cells,
                f"{row.subscribers:,}" if is_last else "",
                end_section=is_last,
            )
    lines = [f"{sessions:,} sessions of load balancing would have moved {moved:,} clients", *notes]
    return Group(table, Text("\n".join(lines)))
