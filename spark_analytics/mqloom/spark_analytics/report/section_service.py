"""The section on what a publication costs, and how many more subscriptions brokers can hold."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.service import ROOM_MAX, ServiceModel
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
        "What a publication costs each broker, the more of its clients get it, and how many more subscriptions of the "
        "usual kind it can hold at busy hours until a resource is full."
    )
    if not analysis.models:
        return Section("service", "Room for more", lead, nothing("No publication was served."))
    shown, against = _shown(analysis)
    picture = plot(
        draw(lambda axes: _paint(axes, shown, against), "service", f"Service time against {against}", 3.1),
        f"Median service time of a publication (dots), against {against}, and the line fitted to it.",
    )
    return Section("service", "Room for more", lead, picture + _table(analysis))


def _shown(analysis: Analysis) -> tuple[list[ServiceModel], str]:
    """Return the models of the fullest brokers and what they are lines over, which is the same for all of them."""
    found = [analysis.models[broker] for broker in ranked(analysis) if broker in analysis.models]
    if any(model.is_by_deliveries for model in found):
        return [model for model in found if model.is_by_deliveries][: len(SERIES)], "deliveries for each publication"
    return found[: len(SERIES)], "subscriptions"


def _paint(axes: Any, shown: list[ServiceModel], against: str) -> None:
    for model, colour in zip(shown, SERIES, strict=False):
        axes.plot(
            model.work, model.service_s * 1000, "o", color=colour, markersize=3.5, alpha=0.55, label=model.gateway
        )
        ends = np.array([0.0 if model.is_proportional else model.work_least, model.work_most])
        axes.plot(ends, (model.base_s + model.slope_s * ends) * 1000, color=colour)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(against)
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
                _each(model) if model else "",
                bar(room.utilisation, analysis.full),
                f"<b>{number(room.room)}</b>" if room.room < ROOM_MAX else "no end in sight",
                WORDS[room.resource],
            ]
        )
    heads = [
        Head("Broker"),
        Head("Subscriptions", True),
        Head("Given to nobody", True),
        Head("In addition", True),
        Head("At busy hours", True),
        Head("Room for", True),
        Head("Then full"),
    ]
    note = (
        '<p class="note">Publications come in as before, and each new subscription takes as much output, and as many '
        "deliveries, as the mean of those of the broker's own clients. What a publication costs grows with its "
        "deliveries, as load agents reckon; gateways of an earlier version do not tell these, and there it counts by "
        "subscription. \N{LEFT DOUBLE QUOTATION MARK}At most\N{RIGHT DOUBLE QUOTATION MARK}: it was seen with about "
        "one number only, so all of its time counts as theirs.</p>"
    )
    return table(heads, rows) + note


def _each(model: ServiceModel) -> str:
    what = "delivery" if model.is_by_deliveries else "subscription"
    return f"{microseconds(model.slope_s)} a {what}" + (" at most" if model.is_proportional else "")
