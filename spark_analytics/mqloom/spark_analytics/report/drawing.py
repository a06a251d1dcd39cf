"""Pictures for the page: matplotlib draws, and the page's own colours and letters are put in.

Pictures are drawn in stand-in colours. In the text of the SVG these become variables of the page's style, so the same
picture is right in light and dark and on paper. Letters stay letters.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mqloom.spark_analytics.capacity.dates import naive
from mqloom.spark_analytics.capacity.trend import Floats

INK: Final = "#010203"
MUTED: Final = "#010204"
LINE: Final = "#010205"
SURFACE: Final = "#010206"
ALARM: Final = "#010207"
SERIES: Final = tuple(f"#01030{place}" for place in range(1, 9))

_VARIABLES: Final = {
    INK: "--ink",
    MUTED: "--muted",
    LINE: "--line",
    SURFACE: "--surface",
    ALARM: "--alarm",
    **{colour: f"--series-{place}" for place, colour in enumerate(SERIES, 1)},
}

_SETTINGS: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mqloom",
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # names are no formulas, though a client may well write two dollars into a topic filter
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.color": LINE,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}

POINTS_MAX: Final = 420
"""Points of one line: more cannot be seen."""

WIDTH: Final = 9.0


def draw(paint: Any, name: str, description: str, height: float = 3.0, rows: int = 1, columns: int = 1) -> str:
    """Return the SVG of what `paint` draws into the axes that it is given; `name` must be unique on the page."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to load
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        paint(axes[0, 0] if rows == columns == 1 else axes)
        target = io.BytesIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(target.getvalue().decode(), name, description)


def _inline(svg: str, name: str, description: str) -> str:
    """Return an SVG as a part of the page: its colours, letters and ids the page's own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg)
    svg = re.sub(r"font: ((?:[a-z0-9]+ )*[\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    start = f'<svg class="plot" role="img" aria-label="{description.replace(chr(34), "")}"'
    return svg.replace("<svg", start, 1).strip()


def thinned(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return a line with so few points as can be seen, each the mean of its stretch."""
    step = max(1, -(-len(times) // POINTS_MAX))
    starts = np.arange(0, len(times), step)
    if step == 1:
        return times, values
    counts = np.diff(np.append(starts, len(times)))
    return np.add.reduceat(times, starts) / counts, np.add.reduceat(values, starts) / counts


def time_axis(axes: Any) -> None:
    """Write times below as briefly as they can be understood."""
    from matplotlib import dates  # noqa: PLC0415 - optional, and slow to load

    locator = dates.AutoDateLocator(minticks=3, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def moments(times: Floats) -> list[Any]:
    """Return times as plots take them."""
    return [naive(float(each)) for each in times]


def percent_axis(axes: Any, top: float, side: str = "y") -> None:
    """Write shares as percent, from nothing to a little more than the top."""
    axis = axes.yaxis if side == "y" else axes.xaxis
    axis.set_major_formatter(lambda value, _: f"{value * 100:.0f}%")
    (axes.set_ylim if side == "y" else axes.set_xlim)(0, max(1.0, top) * 1.06)


def full_line(axes: Any, full: float) -> None:
    """Draw where a resource counts as full."""
    axes.axhline(full, color=ALARM, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        "full",
        (0, full),
        xycoords=("axes fraction", "data"),
        xytext=(3, 3),
        textcoords="offset points",
        color=ALARM,
        fontsize=8.5,
    )


def label_ends(axes: Any, ends: Sequence[tuple[float, str, str]], x: Any) -> None:
    """Write the name of each line (its last value, name, colour) at its end, as far apart as letters need it."""
    low, high = axes.get_ylim()
    apart = (high - low) * 0.062
    place = float("-inf")
    placed = []
    for value, name, colour in sorted(ends):
        place = max(place + apart, value)
        placed.append((place, name, colour))
    excess = placed[-1][0] - (high - apart / 2) if placed else 0.0
    for place, name, colour in placed:
        axes.annotate(
            name,
            (x, place - max(0.0, excess)),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
