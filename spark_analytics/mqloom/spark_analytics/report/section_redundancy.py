"""The section on what is wanted more than once, and on clusters."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.redundancy import Clusters, Redundancy
from mqloom.spark_analytics.report.drawing import SERIES, draw
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    heading,
    milliseconds,
    nothing,
    number,
    paragraph,
    percent,
    plot,
    table,
    text,
)

FAMILIES_SHOWN = 12
BARS = 14


def redundancy_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = (
        "Subscriptions that others cover, what aggregating them would save, and how many clusters of brokers would "
        "make least traffic."
    )
    return Section("redundancy", "Redundancy", lead, _savings(analysis) + _families(analysis) + _clusters(analysis))


def _savings(analysis: Analysis) -> str:
    found = analysis.redundancy
    if not found:
        return nothing("There are no records of groups of subscribers in this telemetry.")
    drawn = sorted(found, key=lambda each: -each.subscriptions)[:BARS]
    picture = draw(
        lambda axes: _paint(axes, drawn),
        "redundancy",
        "Subscriptions, and how many would do",
        1.0 + 0.26 * len(drawn),
    )
    heads = [
        Head("Broker"),
        Head("Subscriptions", True),
        Head("Would do", True),
        Head("Fewer by", True),
        Head("Service time", True),
        Head("Then", True),
        Head("Input", True),
        Head("Then", True),
    ]
    rows = [
        [
            f"<b>{text(each.gateway)}</b>",
            number(each.subscriptions),
            number(each.needed),
            percent(each.share),
            milliseconds(each.delay_s),
            milliseconds(each.delay_needed_s),
            percent(each.input_ratio),
            percent(each.input_needed_ratio),
        ]
        for each in found
    ]
    return plot(picture, "Subscriptions that each broker matches: needed, and covered by these.") + table(heads, rows)


def _paint(axes: Any, found: list[Redundancy]) -> None:
    shown = list(reversed(found))
    places = range(len(shown))
    needed = [each.needed for each in shown]
    axes.barh(places, needed, color=SERIES[0], height=0.62, label="would do")
    rest = [each.subscriptions - each.needed for each in shown]
    axes.barh(places, rest, left=needed, color=SERIES[5], height=0.62, label="covered by these")
    axes.set_yticks(places, [each.gateway for each in shown])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("subscriptions")
    axes.margins(y=0.02)
    axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=9)


def _families(analysis: Analysis) -> str:
    title = heading("Groups that cover others")
    if not analysis.families:
        return title + nothing("None: no group covers another of its broker.")
    rows = [
        [
            f"<b>{text(each.gateway)}</b>",
            f"<code>{text(each.head)}</code>",
            number(each.groups - 1),
            number(each.subscriptions),
            "<br>".join(f"<code>{text(name)}</code>" for name in each.covered[:3])
            + (" \N{HORIZONTAL ELLIPSIS}" if each.groups - 1 > 3 else ""),
        ]
        for each in analysis.families[:FAMILIES_SHOWN]
    ]
    heads = [
        Head("Broker"),
        Head("This covers"),
        Head("Groups", True),
        Head("Subscriptions", True),
        Head("For example"),
    ]
    return title + table(heads, rows)


def _clusters(analysis: Analysis) -> str:
    title = heading("Clusters")
    found = analysis.clusters
    if found is None:
        return title + nothing("Nothing was published, or there is one broker only: there is nothing to cluster.")
    words = (
        f"With {number(found.publications)} publications, {number(found.subscriptions)} subscriptions of clients and "
        f"{found.brokers} brokers, of which {percent(found.matching)} want a publication, traffic is least with "
        f"m = \N{SQUARE ROOT}(s n / (p (1 \N{MINUS SIGN} r))) = "
        f"{number(found.best, 2) if np.isfinite(found.best) else 'infinitely many'}: {found.number} "
        f"{'cluster' if found.number == 1 else 'clusters'} (paper 004, section 3.2)."
    )
    picture = draw(lambda axes: _curve(axes, found), "clusters", "Traffic against the number of clusters", 2.4)
    return title + paragraph(words) + plot(picture, "Messages in the whole time, with so many clusters of brokers.")


def _curve(axes: Any, found: Clusters) -> None:
    numbers = np.linspace(1, found.brokers, 120)
    axes.plot(numbers, [found.traffic(float(each)) for each in numbers], color=SERIES[0])
    axes.plot([found.number], [found.traffic(found.number)], "o", color=SERIES[1], markersize=6)
    axes.set_xlabel("clusters")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
