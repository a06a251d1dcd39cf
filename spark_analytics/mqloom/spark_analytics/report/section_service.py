"""The section on what a publication costs, and how many more subscriptions brokers can hold."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.service import ROOM_MAX
from mqloom.spark_analytics.capacity.thresholds import WORDS
from mqloom.spark_analytics.report.drawing import SERIES, draw
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    bar,
    microseconds,
    milliseconds,
    nothing,
    number,
    plot,
    table,
    text,
)
from mqloom.spark_analytics.report.section_utilisation import ranked


def service_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = (
        "What a publication costs each broker as its subscriptions grow, and how many more of the usual kind it can "
        "hold at busy hours until a resource is full."
    )
    if not analysis.models:
        return Section("service", "Room for more", lead, nothing("No publication was served."))
    picture = plot(
        draw(lambda axes: _paint(axes, analysis), "service", "Service time against subscriptions", 3.1),
        "Median service time of a publication (dots), against the number of subscriptions, and the line fitted to it.",
    )
    return Section("service", "Room for more", lead, picture + _table(analysis))


def _paint(axes: Any, analysis: Analysis) -> None:
    shown = [broker for broker in ranked(analysis) if broker in analysis.models][: len(SERIES)]
    for broker, colour in zip(shown, SERIES, strict=False):
        model = analysis.models[broker]
        axes.plot(
            model.subscriptions, model.service_s * 1000, "o", color=colour, markersize=3.5, alpha=0.55, label=broker
        )
        ends = np.array([0.0 if model.is_proportional else model.subscriptions_least, model.subscriptions_most])
        axes.plot(ends, (model.base_s + model.slope_s * ends) * 1000, color=colour)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("subscriptions")
    axes.set_ylabel("milliseconds")
    axes.legend(ncols=min(8, len(shown)), loc="lower left", bbox_to_anchor=(-0.01, 1.0), fontsize=9, handletextpad=0.1)


def _table(analysis: Analysis) -> str:
    rows = []
    for room in sorted(analysis.headroom, key=lambda each: (each.room, each.gateway)):
        model = analysis.models.get(room.gateway)
        rows.append(
            [
                f"<b>{text(room.gateway)}</b>",
                number(room.subscriptions),
                milliseconds(model.base_s) if model else "",
                (microseconds(model.slope_s) + (" at most" if model.is_proportional else "")) if model else "",
                bar(room.utilisation, analysis.full),
                f"<b>{number(room.room)}</b>" if room.room < ROOM_MAX else "no end in sight",
                WORDS[room.resource],
            ]
        )
    heads = [
        Head("Broker"),
        Head("Subscriptions", True),
        Head("Without any", True),
        Head("For each", True),
        Head("Busy now", True),
        Head("Room for", True),
        Head("Then full"),
    ]
    note = (
        '<p class="note">Publications come in as before, and each new subscription takes as much output as the mean. '
        "\N{LEFT DOUBLE QUOTATION MARK}At most\N{RIGHT DOUBLE QUOTATION MARK}: it was seen with one number of "
        "subscriptions only, so all of its time counts as theirs.</p>"
    )
    return table(heads, rows) + note
