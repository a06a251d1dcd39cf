"""The section on load balancing: how good predictions were, what was undone, and what to set otherwise."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.balancing import is_ordinary, usual_error
from mqloom.spark_analytics.report.drawing import LINE, SERIES, draw
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    heading,
    nothing,
    number,
    paragraph,
    percent,
    plot,
    table,
    text,
)

_NAMES = {"input": "input", "match": "matching delay", "output": "output"}


def balancing_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = (
        "How near the load agents' predictions were to what came, sessions that undid each other, and what to change."
    )
    return Section("balancing", "Balancing", lead, _body(analysis))


def _body(analysis: Analysis) -> str:
    found = analysis.balancing
    if not found.sessions:
        return nothing("No session of load agents has moved anybody.")
    error = usual_error(found.predictions)
    words = f"{found.sessions:,} sessions asked {found.asked:,} clients to move; {found.moved:,} did."
    if error is not None:
        words += f" Predictions were wrong by {percent(error)} (median of the brokers); the paper has 17% on real ones."
    parts = [paragraph(words)]
    if any(each.sessions for each in found.predictions):
        picture = draw(lambda axes: _paint(axes, analysis), "balancing", "Predicted and observed load", 3.2)
        parts.append(plot(picture, "Each side of each session: on the line, what was predicted came."))
        parts.append(_predictions(analysis))
    parts += [heading("Sessions that undid each other"), _undone(analysis)]
    parts += [heading("Settings to change"), _changes(analysis)]
    return "".join(parts)


def _paint(axes: Any, analysis: Analysis) -> None:
    told = analysis.sessions
    seen = np.array([each is not None and not np.isnan(each) for each in told["bias"].tolist()], dtype=np.bool_)
    top = 0.0
    for metric, colour in zip(_NAMES, SERIES, strict=False):
        chosen = seen & (told["metric"] == metric)
        if not chosen.any():
            continue
        scale = 10.0 if metric == "match" else 1.0  # delays over 0.1 s, as the agents compare them (equation 4)
        x = told["predicted"][chosen].astype(np.float64) * scale
        y = told["observed"][chosen].astype(np.float64) * scale
        name = _NAMES[metric] + (" / 0.1 s" if metric == "match" else "")
        axes.plot(x, y, "o", color=colour, markersize=4.5, alpha=0.6, label=name)
        top = max(top, float(x.max()), float(y.max()))
    axes.plot([0, top], [0, top], color=LINE, linewidth=1.2, zorder=1)
    axes.set_xlim(0, top * 1.05)
    axes.set_ylim(0, top * 1.05)
    axes.set_xlabel("predicted")
    axes.set_ylabel("observed")
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(-0.01, 1.0), fontsize=9, handletextpad=0.1)


def _predictions(analysis: Analysis) -> str:
    rows = [
        [
            f"<b>{text(each.gateway)}</b>",
            _NAMES[each.metric],
            number(each.sessions),
            f'<b class="bad">{percent(each.error)}</b>' if each.is_failing else percent(each.error),
            f"{each.bias * 100:+.0f}%",
        ]
        for each in sorted(analysis.balancing.predictions, key=lambda each: -each.error)
    ]
    heads = [
        Head("Broker"),
        Head("Of"),
        Head("Sessions", True),
        Head("Wrong by, median", True),
        Head("Leaning (+: less came)", True),
    ]
    return table(heads, rows)


def _undone(analysis: Analysis) -> str:
    found = [each for each in analysis.balancing.undone if each.undone]
    if not found:
        return nothing("None: no session gave back what the one before took.")
    rows = [
        [
            f"<b>{text(each.gateway)} \N{LEFT RIGHT ARROW} {text(each.partner)}</b>",
            _NAMES[each.metric],
            number(each.sessions),
            number(each.undone) if is_ordinary(each) else f'<b class="bad">{number(each.undone)}</b>',
        ]
        for each in found
    ]
    return table([Head("Between"), Head("For"), Head("Sessions", True), Head("That undid the one before", True)], rows)


def _changes(analysis: Analysis) -> str:
    if not analysis.balancing.changes:
        return nothing("None: nothing speaks for other settings than these.")
    rows = [
        [
            f"<code>{text(each.setting)}</code>",
            f"<b>{text(each.direction)}</b>",
            text(each.gateway or "everywhere"),
            text(each.evidence),
        ]
        for each in analysis.balancing.changes
    ]
    return table([Head("Setting"), Head("How"), Head("Where"), Head("Because")], rows)
