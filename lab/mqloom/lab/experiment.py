"""What an experiment of the lab is, and what it reports.

An experiment is a name, a sentence, where its figures come from, and a function from a seed to a report. The report has
a row for each figure: the paper's, ours, the best that could be reached where that can be computed, and our target.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

Figure = int | float | str
"""A number, or a short text where a number would say too little."""

Tell = Callable[[float, str], None]
"""Told what share of the work is done, from 0 to 1, and what is being done now."""


def tell_nobody(share: float, text: str) -> None:
    """Tell nobody how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. Without a target it is there to be looked at, and cannot be missed.

    Raises ValueError for a number that is infinite or none at all: there is no verdict on it, and no JSON.
    """

    name: str
    ours: Figure
    paper: Figure | None = None
    bound: Figure | None = None
    """What nothing could surpass, or what must not be surpassed, computed; the experiment's docstring says how."""
    target: str | None = None
    ok: bool = True
    unit: str = ""

    def __post_init__(self) -> None:
        for value in (self.ours, self.paper, self.bound):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{self.name}: {value} is no figure")
        if self.target is None and not self.ok:
            raise ValueError(f"{self.name}: without a target nothing can be missed")


def at_most(
    name: str, ours: float, limit: float, *, paper: Figure | None = None, bound: Figure | None = None, unit: str = ""
) -> Row:
    """Return a row whose target is a largest value."""
    target = f"at most {shown(limit)}"
    return Row(name=name, ours=ours, paper=paper, bound=bound, target=target, ok=ours <= limit, unit=unit)


def at_least(
    name: str, ours: float, limit: float, *, paper: Figure | None = None, bound: Figure | None = None, unit: str = ""
) -> Row:
    """Return a row whose target is a smallest value."""
    target = f"at least {shown(limit)}"
    return Row(name=name, ours=ours, paper=paper, bound=bound, target=target, ok=ours >= limit, unit=unit)


def exactly(
    name: str, ours: Figure, wanted: Figure, *, paper: Figure | None = None, bound: Figure | None = None, unit: str = ""
) -> Row:
    """Return a row whose target is this value and no other."""
    return Row(name=name, ours=ours, paper=paper, bound=bound, target=shown(wanted), ok=ours == wanted, unit=unit)


def shown(figure: Figure | None) -> str:
    """Return a figure for people."""
    if figure is None or isinstance(figure, str):
        return figure or ""
    if isinstance(figure, float) and not figure.is_integer():
        return f"{figure:,.0f}" if abs(figure) >= 10_000 else f"{figure:,.4g}"
    return f"{int(figure):,}"


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture, or dots; `bound` is drawn so that it looks like one."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: Literal["line", "bound", "dots"] = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis."""

    label: str
    curves: tuple[Curve, ...]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Panels below each other that share their x-axis; `spans` are stretches of it to be marked, each with its name."""

    x_label: str
    panels: tuple[Panel, ...]
    spans: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came out of one run."""

    rows: tuple[Row, ...]
    picture: Picture | None = None
    notes: tuple[str, ...] = field(default=())
    """What a reader should know beside the figures."""

    @property
    def ok(self) -> bool:
        """Whether no target was missed."""
        return all(row.ok for row in self.rows)


Run = Callable[[int, bool, Tell], Report]
"""From a seed, whether the small version will do, and somebody to tell how far it is, to a report.

The same seed gives the same report, whatever the process, the machine and the order of its sets.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Something to be found out; `measures_time` if the clock on the wall decides what comes out."""

    name: str
    summary: str
    source: str
    """The paper and its section, or what promise of ours it checks."""
    run: Run
    measures_time: bool = False


POINTS_MAX: Final = 400


def thinned(points: list[tuple[float, float]], most: int = POINTS_MAX) -> tuple[tuple[float, float], ...]:
    """Return at most so many of the points for a picture, of each stretch the highest, the first and last always."""
    if len(points) <= most:
        return tuple(points)
    step = math.ceil((len(points) - 2) / (most - 2))
    inner = points[1:-1]
    peaks = (max(inner[at : at + step], key=lambda point: point[1]) for at in range(0, len(inner), step))
    return (points[0], *peaks, points[-1])
