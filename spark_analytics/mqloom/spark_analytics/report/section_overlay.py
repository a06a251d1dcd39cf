"""The section on links: what they carry for whom, soft links worth having, and the best place for a broker."""

from typing import Any

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.overlay import LinkTraffic, Passing, yields_of
from mqloom.spark_analytics.report.drawing import SERIES, draw
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    bar,
    heading,
    nothing,
    number,
    paragraph,
    percent,
    plot,
    size,
    table,
    text,
)

LINKS_DRAWN = 14
SITES_SHOWN = 8
CANDIDATES_SHOWN = 10


def overlay_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = "What each link carries, how much of it is wanted where it goes, and which links would be worth having."
    return Section("overlay", "Overlay", lead, _body(analysis))


def _body(analysis: Analysis) -> str:
    links = [each for each in analysis.links if each.kind != "candidate"]
    if not links:
        return nothing("There are no records of links in this telemetry.")
    drawn = [each for each in analysis.passings if each.received_s][:LINKS_DRAWN]
    picture = nothing("Nothing came over any link.")
    if drawn:
        picture = plot(
            draw(
                lambda axes: _paint(axes, drawn),
                "overlay",
                "What comes to gateways over links, wanted and not",
                1.0 + 0.26 * len(drawn),
            ),
            "Publications a second that come to each gateway over links: wanted by somebody there, or by nobody.",
        )
    return picture + _links(links) + heading("Soft links worth having") + _candidates(analysis) + _sites(analysis)


def _paint(axes: Any, passings: list[Passing]) -> None:
    shown = list(reversed(passings))
    unwanted = [each.unwanted_s for each in shown]
    wanted = [each.received_s - each.unwanted_s for each in shown]
    places = range(len(shown))
    axes.barh(places, wanted, color=SERIES[0], height=0.62, label="wanted")
    axes.barh(places, unwanted, left=wanted, color=SERIES[1], height=0.62, label="only passes through")
    axes.set_yticks(places, [each.gateway for each in shown])
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("publications a second")
    axes.margins(y=0.02)
    axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=9)


def _links(links: list[LinkTraffic]) -> str:
    heads = [
        Head("Link"),
        Head("Kind"),
        Head("Publications a second", True),
        Head("Bytes a second", True),
        Head("Only passed on", True),
        Head("Yield", True),
        Head("Up", True),
    ]
    yields = yields_of(links)
    rows = [
        [
            f"<b>{text(each.name)}</b>",
            text(each.kind),
            number(each.rate, 2),
            size(each.sent_bytes / each.seconds if each.seconds else 0.0),
            percent(each.pure_forwards / each.sent if each.sent else None),
            percent(yields.get((each.gateway, each.peer))),
            percent(each.up_share, 1),
        ]
        for each in sorted(links, key=lambda each: (-each.rate, each.name))
    ]
    note = '<p class="note">Yield: the share that somebody wanted where it came.</p>'
    return table(heads, rows) + note


def _candidates(analysis: Analysis) -> str:
    if not analysis.candidates:
        return nothing("None: no gateway thinks about a link that would be worth naming.")
    rows = [
        [
            f"<b>{text(each.gateway)} \N{RIGHTWARDS ARROW} {text(each.peer)}</b>",
            number(each.distance),
            number(each.gain, 1),
        ]
        for each in analysis.candidates[:CANDIDATES_SHOWN]
    ]
    return table([Head("Link"), Head("Hops on the tree", True), Head("Gain", True)], rows)


def _sites(analysis: Analysis) -> str:
    if not analysis.sites:
        return ""
    best = analysis.sites[0]
    words = f"For {analysis.sites_for}: best beside {best.gateway}, where "
    words += (
        f"{percent(best.rate_there / best.rate_wanted)} of what it wants comes already for clients there, and links "
        f"would carry fewest copies in addition: {number(best.cost, 2)} a second."
        if best.rate_wanted
        else "there is most room."
    )
    rows = [
        [
            f"<b>{text(each.gateway)}</b>",
            number(each.rate_there, 2),
            number(each.rate_wanted, 2),
            number(each.cost, 2),
            bar(each.utilisation, analysis.full),
        ]
        for each in analysis.sites[:SITES_SHOWN]
    ]
    heads = [
        Head("Beside"),
        Head("Comes for clients there, a second", True),
        Head("Wanted, a second", True),
        Head("Copies on links in addition", True),
        Head("At busy hours", True),
    ]
    note = '<p class="note">Each interest counts by itself: what matches two of them is wanted twice.</p>'
    return heading("The best place for a broker") + paragraph(words) + table(heads, rows) + note
