"""The section on when which broker will be full."""

from typing import Any

import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.dates import DAY_S, day, length
from mqloom.spark_analytics.capacity.forecast import Forecast
from mqloom.spark_analytics.capacity.frames import split
from mqloom.spark_analytics.capacity.thresholds import WORDS
from mqloom.spark_analytics.capacity.trend import DAYS_LEAST
from mqloom.spark_analytics.report.drawing import (
    INK,
    SERIES,
    draw,
    full_line,
    moments,
    percent_axis,
    thinned,
    time_axis,
)
from mqloom.spark_analytics.report.elements import Head, Section, bar, nothing, plot, table, text

PLOTS_MAX = 6
AHEAD_S = 60 * DAY_S
"""How far beyond now a plot goes at least, if the broker is not full before."""


def forecast_section(analysis: Analysis) -> Section:
    """Return the section."""
    lead = "When which broker will be full, of which resource, and how sure that is."
    return Section("forecast", "When it will be full", lead, _body(analysis))


def _body(analysis: Analysis) -> str:
    if analysis.seconds < (DAYS_LEAST - 0.1) * DAY_S:
        return nothing(
            f"There are {length(analysis.seconds)} of telemetry. From {DAYS_LEAST:.0f} days on a trend can be told "
            "from the time of day; before that nothing is said."
        )
    if not analysis.forecasts:
        return nothing(
            f"No broker grows so that it would be full in the foreseeable future, as far as {length(analysis.seconds)} "
            "of telemetry can tell."
        )
    rows = [_row(each, analysis) for each in analysis.forecasts]
    heads = [
        Head("Broker"),
        Head("Resource"),
        Head("Busiest hour now", True),
        Head("Growth a day", True),
        Head("Full on", True),
        Head("Nine times in ten between", True),
    ]
    plots = [
        plot(
            draw(
                lambda axes, each=each: _paint(axes, each, analysis),
                f"forecast-{place}",
                f"{each.gateway}: {WORDS[each.resource]} until it is full",
                2.9,
            ),
            f"{each.gateway}: {WORDS[each.resource]} as measured, and the busiest hour of the day as it grows, "
            "with the band in which it is nine times in ten.",
        )
        for place, each in enumerate(analysis.forecasts[:PLOTS_MAX])
    ]
    note = (
        '<p class="note">A trend with a daily pattern, fitted so that outliers count little; how sure it is comes '
        "from what it leaves over, a day being one sample, and slow waves taken for no growth. It supposes that "
        "growth goes on as it was.</p>"
    )
    return table(heads, rows) + "".join(plots) + note


def _row(each: Forecast, analysis: Analysis) -> list[str]:
    trend = each.trend
    assert trend.full_from is not None
    until = day(trend.full_to) if trend.full_to is not None else "later than can be said"
    return [
        f"<b>{text(each.gateway)}</b>",
        WORDS[each.resource],
        bar(trend.peak, analysis.full),
        f"{trend.growth_per_day * 100:.2f} \N{PLUS-MINUS SIGN} {1.645 * trend.growth_spread * 100:.2f} points",
        f"<b>{day(each.full_at)}</b>",
        f"{day(trend.full_from)} and {until}",
    ]


def _paint(axes: Any, each: Forecast, analysis: Analysis) -> None:
    series = split(analysis.daily, "gateway")[each.gateway]
    values = series[f"{each.resource}_mean"].astype(np.float64)
    times, thin = thinned(series["bucket_at"].astype(np.float64), values)
    axes.plot(moments(times), thin, color=SERIES[0], linewidth=1.1)
    trend = each.trend
    end = max(trend.full_at or 0.0, trend.full_to or 0.0, analysis.end_at)
    end = min(end + 0.1 * (end - trend.start_at), analysis.end_at + max(AHEAD_S, 2 * (each.full_at - analysis.end_at)))
    ahead = np.linspace(trend.start_at, end, 60)
    middle, low, high = trend.peaks(ahead)
    axes.fill_between(moments(ahead), low, high, color=SERIES[1], alpha=0.22, linewidth=0)
    axes.plot(moments(ahead), middle, color=SERIES[1], linewidth=1.6)
    percent_axis(axes, float(min(1.2, max(thin.max(), middle.max()))))
    full_line(axes, analysis.full)
    full = moments(np.array([each.full_at]))[0]
    axes.plot([full], [analysis.full], marker="o", color=SERIES[1], markersize=6)
    axes.annotate(
        day(each.full_at),
        (full, analysis.full),
        xytext=(-8, 9),
        textcoords="offset points",
        ha="right",
        color=INK,
        fontweight="bold",
    )
    axes.axvline(moments(np.array([analysis.end_at]))[0], color=SERIES[0], linewidth=0.8, linestyle=(0, (2, 3)))
    time_axis(axes)
