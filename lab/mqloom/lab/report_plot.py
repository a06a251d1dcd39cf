"""Draws the picture of a report."""

from pathlib import Path
from typing import Any, Final

from mqloom.lab.experiment import Panel, Picture

# Okabe and Ito's colours, which everybody can tell apart.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def draw(picture: Picture, title: str, path: Path) -> None:
    """Draw into a file, whose name says the format; needs matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to load

    figure = Figure(figsize=(9.5, 1.6 + 2.4 * len(picture.panels)), dpi=150, layout="constrained")
    every_axes = figure.subplots(len(picture.panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(every_axes, picture.panels, strict=True):
        _panel(axes, panel)
        for start, end, _ in picture.spans:
            axes.axvspan(start, end, color="#F3E9D2", zorder=0)
    for start, end, name in picture.spans:
        where = {"xy": ((start + end) / 2, 1), "xycoords": ("data", "axes fraction")}
        every_axes[0].annotate(
            name, **where, xytext=(0, -4), textcoords="offset points", ha="center", va="top", fontsize=8
        )
    every_axes[0].set_title(title, loc="left", fontweight="bold", fontsize=10)
    every_axes[-1].set_xlabel(picture.x_label)
    figure.savefig(path)


def _panel(axes: Any, panel: Panel) -> None:
    colours = iter(COLOURS * len(panel.curves))
    for curve in panel.curves:
        if curve.points:
            x, y = zip(*curve.points, strict=True)
            style = {"color": "#777777", "linestyle": "--"} if curve.kind == "bound" else {"color": next(colours)}
            if curve.kind == "dots":
                style |= {"linestyle": "", "marker": "o", "markersize": "4"}
            axes.plot(x, y, label=curve.name, linewidth=1.6, **style)
    axes.margins(y=0.15)  # room for names of spans
    if panel.logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.set_ylabel(panel.label)
    axes.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
