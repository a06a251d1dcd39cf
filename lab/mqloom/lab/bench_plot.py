"""Draws events per second over the number of subscriptions."""

from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from typing import Final

from mqloom.lab.bench_match import Result
from mqloom.lab.peers import OURS

SIZES: Final = (1_000, 10_000, 40_000, 100_000)

Curve = list[tuple[int, float]]

# Okabe and Ito's colours, which everybody can tell apart; ours are solid, all others dashed.
_OURS: Final = {
    "one by one": "#0072B2",
    "batched": "#D55E00",
    "destinations": "#009E73",
    "destinations batched": "#CC79A7",
    "one by one, text ids": "#56B4E9",
}
_OTHERS: Final = {
    ("numpy scan", "one by one"): ("#555555", "o"),
    ("numpy scan", "one by one, text ids"): ("#777777", "s"),
    ("brute force", "one by one"): ("#999999", "v"),
    ("rtree", "one by one"): ("#B8860B", "s"),
    ("rtree", "batched"): ("#E69F00", "D"),
    ("boost r-tree", "one by one"): ("#000000", "^"),
}


def curves_of(results: Sequence[Result]) -> dict[tuple[str, str], Curve]:
    """Return the points of each engine and mode, in the order of the rows."""
    curves: dict[tuple[str, str], Curve] = {}
    for result in results:
        for row in result.rows:
            curves.setdefault((row.engine, row.mode), []).append((result.plan.subscriptions, row.events_per_s))
    return curves


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw the curves of one workload at several sizes into a file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to load

    figure = Figure(figsize=(9.5, 5.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    ends: list[tuple[int, float, str, str]] = []
    for (engine, mode), curve in curves_of(results).items():
        sizes, rates = zip(*curve, strict=True)
        if engine == OURS:
            color, marker, line, width = _OURS[mode], "o", "-", 2.2
        else:
            (color, marker), line, width = _OTHERS[engine, mode], "--", 1.3
        axes.plot(sizes, rates, color=color, marker=marker, linestyle=line, linewidth=width, markersize=5)
        name = f"{engine}, {mode}" if engine == OURS or mode != "one by one" else engine
        ends.append((sizes[-1], rates[-1], name, color))
    axes.set_xscale("log")
    axes.set_yscale("log")
    sizes_all = [result.plan.subscriptions for result in results]
    axes.set_xticks(sizes_all, [f"{size:,}" for size in sizes_all], minor=False)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("subscriptions")
    axes.set_title(f"Matching, workload {results[0].plan.workload}: events a second", loc="left", fontweight="bold")
    axes.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    low, high = axes.get_ylim()
    heights = _apart([rate for _, rate, _, _ in ends], high / low)
    for (size, rate, name, color), height in zip(ends, heights, strict=True):
        axes.annotate(
            f"{name}  {_short(rate)}",
            xy=(size, rate),
            xytext=(1.03, _share(height, low, high)),
            textcoords="axes fraction",
            color=color,
            fontsize=9,
            va="center",
            arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "color": color, "linewidth": 0.6, "alpha": 0.6},
        )
    figure.savefig(path)


def _apart(rates: Sequence[float], span: float) -> list[float]:
    """Return where the names of the curves stand: near their ends, but not on each other.

    Names that would overlap form a pile around the middle of their ends; piles that meet become one.
    """
    step = log(span) * 0.045
    piles: list[list[int]] = []

    def bottom(pile: list[int]) -> float:
        return sum(log(rates[index]) for index in pile) / len(pile) - step * (len(pile) - 1) / 2

    for index in sorted(range(len(rates)), key=lambda index: rates[index]):
        piles.append([index])
        while len(piles) > 1 and bottom(piles[-1]) < bottom(piles[-2]) + step * len(piles[-2]):
            piles[-2:] = [piles[-2] + piles[-1]]
    heights = {index: bottom(pile) + step * place for pile in piles for place, index in enumerate(pile)}
    return [exp(heights[index]) for index in range(len(rates))]


def _share(height: float, low: float, high: float) -> float:
    return log(height / low) / log(high / low)


def _short(rate: float) -> str:
    return f"{rate / 1000:,.0f}k" if rate >= 10_000 else f"{rate / 1000:,.1f}k" if rate >= 1_000 else f"{rate:,.0f}"
