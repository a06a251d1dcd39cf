"""Puts the report together: what to do first, then a section for each question; one file that needs nothing else."""

from collections.abc import Sequence
from importlib.resources import files

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.dates import length, moment
from mqloom.spark_analytics.capacity.findings import URGENCIES, CapacityFinding
from mqloom.spark_analytics.report.elements import Section, items, nothing, number, paragraph, percent, text
from mqloom.spark_analytics.report.section_balancing import balancing_section
from mqloom.spark_analytics.report.section_forecast import forecast_section
from mqloom.spark_analytics.report.section_overlay import overlay_section
from mqloom.spark_analytics.report.section_redundancy import redundancy_section
from mqloom.spark_analytics.report.section_service import service_section
from mqloom.spark_analytics.report.section_utilisation import utilisation_section
from mqloom.spark_analytics.report.section_what_if import what_if_section

MAKERS = (
    utilisation_section,
    forecast_section,
    service_section,
    what_if_section,
    overlay_section,
    balancing_section,
    redundancy_section,
)
"""The sections, in the order of the page."""


def page_of(analysis: Analysis, findings: Sequence[CapacityFinding], unread: Sequence[str] = ()) -> str:
    """Return the page; `unread` says what of the telemetry could not be read."""
    sections = [_findings(findings), *(make(analysis) for make in MAKERS), _about(analysis, unread)]
    links = "".join(f'<a href="#{each.anchor}">{text(each.title)}</a>' for each in sections)
    body = "".join(
        f'<section id="{each.anchor}"><h2>{text(each.title)}</h2><p class="lead">{text(each.lead)}</p>{each.body}'
        "</section>"
        for each in sections
    )
    style = files(__package__).joinpath("page.css").read_text("utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>MQLoom: capacity report</title><style>{style}</style></head><body>"
        f'<header class="top"><p class="kicker">MQLoom capacity report</p><h1>{text(_headline(findings))}</h1>'
        f"{_facts(analysis)}<nav>{links}</nav></header><main>{body}</main>"
        f"<footer>{text(_footer(analysis))}</footer></body></html>\n"
    )


def _headline(findings: Sequence[CapacityFinding]) -> str:
    if not findings:
        return "All is well"
    first = findings[0].title
    rest = len(findings) - 1
    return first if not rest else f"{first}, and {rest} more to look at"


def _facts(analysis: Analysis) -> str:
    count = len(analysis.brokers)
    facts = [
        f"<b>{count}</b> {'broker' if count == 1 else 'brokers'}",
        f"<b>{length(analysis.seconds)}</b> of telemetry, {moment(analysis.start_at)} to {moment(analysis.end_at)} UTC",
        f"<b>{number(analysis.records)}</b> windows of load",
    ]
    return '<ul class="facts">' + "".join(f"<li>{each}</li>" for each in facts) + "</ul>"


def _findings(findings: Sequence[CapacityFinding]) -> Section:
    lead = "In plain words, the most urgent first." if findings else ""
    if not findings:
        body = (
            '<p class="allwell">Nothing was found that anybody should do something about: no broker is or will soon be '
            "full, load is even, and predictions come true.</p>"
        )
        return Section("findings", "Findings", lead, body)
    cards = "".join(
        f'<li class="finding {each.urgency}"><span class="pill" title="{text(URGENCIES[each.urgency])}">{each.urgency}'
        f"</span><h3>{text(each.title)}</h3><p>{text(each.evidence)}</p>"
        f'<p class="do">{text(each.action)}</p><p class="more"><a href="#{each.section}">The evidence</a></p></li>'
        for each in findings
    )
    return Section("findings", "Findings", lead, f'<ol class="findings">{cards}</ol>')


def _about(analysis: Analysis, unread: Sequence[str]) -> Section:
    words = [
        f"A resource counts as full at {percent(analysis.full)}.",
        "Busy is what a broker reaches in the busiest twentieth of the last week.",
        "Input is the rate of publications that come in, times what one of them takes.",
        "Output is the time spent sending, times what was queued over what was sent.",
        "The utilisation of a broker is its fullest resource.",
    ]
    body = paragraph(" ".join(words))
    if analysis.dropped:
        body += paragraph(f"Gateways dropped {analysis.dropped:,} records that the collector did not take in time.")
    if unread:
        body += paragraph("What could not be read, and is missing here:") + items(unread)
    if len(analysis.refusals["gateway"]):
        rows = zip(
            *(analysis.refusals[name].tolist() for name in ("gateway", "counter", "reason", "amount")), strict=True
        )
        body += paragraph("What gateways refused or dropped most:") + items(
            f"{gateway}: {counter}{f' ({reason})' if reason else ''}, {amount:,}"
            for gateway, counter, reason, amount in rows
        )
    elif not analysis.dropped and not unread:
        body += nothing("No telemetry is missing, and gateways refused nothing.")
    return Section("about", "About these figures", "Where they come from, and what they mean.", body)


def _footer(analysis: Analysis) -> str:
    return f"Made by mqloom spark report of telemetry until {moment(analysis.end_at)} UTC. All times are UTC."
