"""The section on what would be: a broker fails or is added, publications grow, subscribers move."""

from typing import Any

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.thresholds import WORDS
from mqloom.spark_analytics.capacity.what_if import NEW, Scenario
from mqloom.spark_analytics.report.drawing import ALARM, SERIES, draw, percent_axis
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    bar,
    heat,
    nothing,
    percent,
    plot,
    shorten,
    table,
    text,
)

NAME_MAX = 40
BROKERS_SHOWN = 16
"""With more brokers the table names only the fullest of each scenario."""


def what_if_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = "How full brokers would be at busy hours, by the same estimators with which load agents decide whom to move."
    if not analysis.scenarios:
        return Section("what-if", "What if", lead, nothing("Nothing was asked."))
    picture = plot(
        draw(
            lambda axes: _paint(axes, analysis.scenarios, analysis.full),
            "what-if",
            "The fullest broker in each scenario",
            0.9 + 0.27 * len(analysis.scenarios),
        ),
        "The fullest broker in each scenario.",
    )
    body = _matrix(analysis) if len(analysis.estimates) <= BROKERS_SHOWN else _table(analysis)
    return Section("what-if", "What if", lead, picture + body)


def _paint(axes: Any, scenarios: list[Scenario], full: float) -> None:
    shown = list(reversed(scenarios))
    values = [each.worst.after for each in shown]
    colours = [SERIES[1] if each.worst.after > full else SERIES[0] for each in shown]
    axes.barh(range(len(shown)), values, color=colours, height=0.62)
    axes.set_yticks(range(len(shown)), [shorten(each.name, NAME_MAX) for each in shown])
    percent_axis(axes, max(values), "x")
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.axvline(full, color=ALARM, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    for place, each in enumerate(shown):
        axes.annotate(
            f"{each.worst.gateway} {percent(each.worst.after)}",
            (each.worst.after, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_xlim(right=max(1.0, *values) * 1.18)
    axes.margins(y=0.02)


def _matrix(analysis: Analysis) -> str:
    """Return every broker in every scenario, in percent."""
    brokers = sorted(analysis.estimates)
    if any(each.gateway == NEW for scenario in analysis.scenarios for each in scenario.outlooks):
        brokers.append(NEW)
    top = "".join(f"<th scope=col>{text(broker)}</th>" for broker in brokers)
    busy = {broker: each.utilisation for broker, each in analysis.estimates.items()}
    rows = [_line("as it is", [busy.get(broker) for broker in brokers], brokers, analysis.full)]
    for scenario in analysis.scenarios:
        after = {each.gateway: each.after for each in scenario.outlooks}
        rows.append(_line(scenario.name, [after.get(broker) for broker in brokers], brokers, analysis.full))
    return (
        f'<div class="scroll"><table class="heatmap wide"><thead><tr><th></th>{top}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="note">Utilisation of the fullest resource in percent; outlined where a broker would be full.</p>'
    )


def _line(name: str, values: list[float | None], brokers: list[str], full: float) -> str:
    cells = "".join(
        heat(value, f"{broker}: {percent(value)}", full) for value, broker in zip(values, brokers, strict=True)
    )
    return f"<tr><th scope=row>{text(name)}</th>{cells}</tr>"


def _table(analysis: Analysis) -> str:
    rows = []
    for scenario in analysis.scenarios:
        worst = scenario.worst
        rows.append(
            [
                text(scenario.question),
                f"<b>{text(worst.gateway)}</b>",
                WORDS[worst.resource],
                bar(worst.after, analysis.full),
                str(len(scenario.full_ones)),
            ]
        )
    heads = [Head("If"), Head("Fullest"), Head("Resource"), Head("Then used by", True), Head("Brokers full", True)]
    return table(heads, rows)
