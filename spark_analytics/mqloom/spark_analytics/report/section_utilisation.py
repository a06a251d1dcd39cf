"""The section on how full brokers are: over time, by hour of the day, and compared with each other."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.dates import DAY_S, length
from mqloom.spark_analytics.capacity.frames import split
from mqloom.spark_analytics.capacity.thresholds import WORDS
from mqloom.spark_analytics.capacity.utilisation import HOUR_S, PERCENTS, daily_s_for
from mqloom.spark_analytics.report.drawing import (
    LINE,
    MUTED,
    SERIES,
    draw,
    full_line,
    label_ends,
    moments,
    percent_axis,
    thinned,
    time_axis,
)
from mqloom.spark_analytics.report.elements import (
    Head,
    Section,
    bar,
    heading,
    heat,
    milliseconds,
    nothing,
    number,
    paragraph,
    percent,
    plot,
    table,
    text,
)

HEAT_ROWS_MAX = 40


def utilisation_section(analysis: Analysis) -> Section:
    """Return the section."""
    parts = [
        plot(
            draw(lambda axes: _over_time(axes, analysis), "utilisation", "Utilisation of brokers over time", 3.3),
            f"The fullest resource of each broker (p95 of each {length(analysis.bucket_s)}). "
            "Above the dashed line there is no room left.",
        ),
        _table(analysis),
        heading("Hot hours"),
        _hours(analysis),
        heading("Imbalance"),
        _imbalance(analysis),
    ]
    lead = "How full every broker was, when it is hottest, and how evenly load is spread."
    return Section("utilisation", "Utilisation", lead, "".join(parts))


def ranked(analysis: Analysis) -> list[str]:
    """Return the brokers, the fullest first."""
    order = np.argsort(-analysis.utilisation["utilisation_p95"].astype(np.float64), kind="stable")
    return [analysis.brokers[place] for place in order]


def _over_time(axes: Any, analysis: Analysis) -> None:
    series = split(analysis.over_time, "gateway")
    named = ranked(analysis)[: len(SERIES)]
    others = [broker for broker in series if broker not in named]
    for broker in others:
        times, values = _line(series[broker])
        axes.plot(moments(times), values, color=LINE, linewidth=0.8)
    top, ends = 0.0, []
    last = max(float(each["bucket_at"].max()) for each in series.values())
    for broker, colour in zip(named, SERIES, strict=False):
        times, values = _line(series[broker])
        axes.plot(moments(times), values, color=colour)
        top = max(top, float(values.max()))
        ends.append((float(values[-max(1, len(values) // 20) :].mean()), broker, colour))
    percent_axis(axes, top)
    full_line(axes, analysis.full)
    time_axis(axes)
    label_ends(axes, ends, moments(np.array([last]))[0])
    if others:
        axes.set_title(f"and {len(others)} others in grey", loc="right", fontsize=8.5, color=MUTED)


def _line(series: dict[str, Any]) -> tuple[Any, Any]:
    return thinned(series["bucket_at"].astype(np.float64), series["utilisation_p95"].astype(np.float64))


def _table(analysis: Analysis) -> str:
    used = analysis.utilisation
    heads = [
        Head("Broker"),
        Head("Fullest, p95", True),
        *(Head(WORDS[name].capitalize(), True) for name in WORDS),
        Head("Service time", True),
        Head("Overloaded", True),
        Head("Subscriptions", True),
    ]
    rows = []
    places = {broker: place for place, broker in enumerate(analysis.brokers)}
    for broker in ranked(analysis):
        place = places[broker]
        three = [
            " / ".join(f"{float(used[f'{name}_p{each}'][place]) * 100:.0f}" for each in PERCENTS) + "%"
            for name in WORDS
        ]
        delay = " / ".join(milliseconds(float(used[f"delay_p{each}"][place])) for each in PERCENTS)
        share = float(used["overloaded"][place]) / float(used["windows"][place])
        rows.append(
            [
                f"<b>{text(broker)}</b>",
                bar(float(used["utilisation_p95"][place]), analysis.full),
                *three,
                delay,
                percent(share, 1) if share else "never",
                number(float(used["subscriptions"][place])),
            ]
        )
    note = '<p class="note">Each p50 / p95 / p99.</p>'
    return table(heads, rows) + note


def _hours(analysis: Analysis) -> str:
    if analysis.seconds < DAY_S:
        return nothing(
            f"Only {length(analysis.seconds)} of telemetry: from a day on, this shows the hours at which each broker "
            "is hottest."
        )
    by_broker = split(analysis.hot_hours, "gateway")
    top = "".join(f"<th scope=col>{hour:02d}</th>" for hour in range(24))
    rows = []
    for broker in ranked(analysis)[:HEAT_ROWS_MAX]:
        found = by_broker[broker]
        values = dict(zip(found["hour"].tolist(), found["utilisation_p95"].tolist(), strict=True))
        cells = "".join(
            heat(values.get(hour), f"{broker}, {hour:02d}:00 UTC: {percent(values.get(hour))}", analysis.full)
            for hour in range(24)
        )
        rows.append(f"<tr><th scope=row>{text(broker)}</th>{cells}</tr>")
    bucket_s = min(HOUR_S, analysis.bucket_s)
    daily_s = daily_s_for(len(analysis.brokers))
    days = f" of the last {length(daily_s)}" if analysis.seconds > daily_s else ""
    caption = (
        f"How full the fullest resource is in the busiest moments (p95) of each {length(bucket_s)}, in percent: the "
        f"mean of these by hour of the day (UTC){days}."
    )
    return (
        f'<div class="scroll"><table class="heatmap"><thead><tr><th></th>{top}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="note">{caption}</p>'
    )


def _imbalance(analysis: Analysis) -> str:
    chosen = analysis.imbalance["metric"] == "utilisation"
    if not chosen.any():
        return nothing("There are not two brokers with load to compare.")
    variation = analysis.imbalance["variation"][chosen].astype(np.float64)
    factor = analysis.imbalance["most_over_mean"][chosen].astype(np.float64)
    times = analysis.imbalance["bucket_at"][chosen].astype(np.float64)

    def paint(every_axes: Any) -> None:
        for axes, values, name, colour in (
            (every_axes[0, 0], variation, "coefficient of variation", SERIES[0]),
            (every_axes[0, 1], factor, "maximum over mean", SERIES[1]),
        ):
            x, y = thinned(times, values)
            axes.plot(moments(x), y, color=colour)
            axes.set_ylim(bottom=0)
            axes.set_title(name, loc="left", fontsize=9.5, color=MUTED)
            time_axis(axes)

    words = (
        f"Among {len(analysis.members)} brokers: {', '.join(analysis.members[:12])}"
        + (" and others" if len(analysis.members) > 12 else "")
        + f". The median coefficient of variation is {np.median(variation):.2f}, and the fullest has "
        f"{np.median(factor):.1f} times the mean."
    )
    picture = draw(paint, "imbalance", "How evenly load is spread", 2.2, columns=2)
    return paragraph(words) + plot(picture, "Nought and one are perfect: all brokers are equally full.")
