"""The report for programs: all answers and findings as one object of JSON, rounded to what figures can say."""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from mqloom.spark_analytics.capacity.analysis import Analysis
from mqloom.spark_analytics.capacity.dates import iso
from mqloom.spark_analytics.capacity.findings import CapacityFinding
from mqloom.spark_analytics.capacity.frames import Columns

DIGITS: Final = 6
"""Significant digits: sums of the same numbers in another order differ in the last ones."""


def figures_of(analysis: Analysis, findings: Sequence[CapacityFinding]) -> dict[str, Any]:
    """Return everything that the page shows, but for its plots over time."""
    clusters = analysis.clusters
    found = {
        "from": iso(analysis.start_at),
        "to": iso(analysis.end_at),
        "bucket_s": analysis.bucket_s,
        "windows": analysis.records,
        "dropped": analysis.dropped,
        "full": analysis.full,
        "findings": [_plain(each) for each in findings],
        "silent": {broker: iso(last_at) for broker, last_at in analysis.silent.items()},
        "utilisation": _rows(analysis.utilisation),
        "hot_hours": _rows(analysis.hot_hours),
        "imbalance": _imbalance(analysis),
        "forecasts": [_forecast(each) for each in analysis.forecasts],
        "service": [
            {
                "gateway": each.gateway,
                "slope_s": each.slope_s,
                "base_s": each.base_s,
                "is_proportional": each.is_proportional,
                "is_by_deliveries": each.is_by_deliveries,
                "matching_each_s": each.matching_each_s,
                "samples": each.samples,
            }
            for each in analysis.models.values()
        ],
        "headroom": [_plain(each) for each in analysis.headroom],
        "what_if": [
            {"name": each.name, "brokers": [_plain(one) for one in each.outlooks]} for each in analysis.scenarios
        ],
        "links": [_plain(each) for each in analysis.links],
        "passing": [_plain(each) for each in analysis.passings],
        "soft_links_worth_having": [_plain(each) for each in analysis.candidates],
        "places": {"for": analysis.sites_for, "best_first": [_plain(each) for each in analysis.sites]},
        "balancing": _plain(analysis.balancing),
        "redundancy": [_plain(each) for each in analysis.redundancy],
        "families": [_plain(each) for each in analysis.families],
        "clusters": _plain(clusters) if clusters is not None else None,
    }
    rounded: dict[str, Any] = _rounded(found)
    return rounded


def _plain(each: Any) -> Any:
    return msgspec.to_builtins(each, enc_hook=lambda value: value.item())  # numbers of numpy


def _rows(table: Columns) -> list[dict[str, Any]]:
    names = list(table)
    return [dict(zip(names, row, strict=True)) for row in zip(*(table[name].tolist() for name in names), strict=True)]


def _imbalance(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the medians over time."""
    found = []
    for metric in sorted(set(map(str, analysis.imbalance["metric"]))):
        chosen = analysis.imbalance["metric"] == metric
        medians = {
            name: float(np.median(analysis.imbalance[name][chosen].astype(np.float64)))
            for name in ("variation", "most_over_mean")
        }
        found.append({"metric": metric, **medians})
    return found


def _forecast(each: Any) -> dict[str, Any]:
    trend = each.trend
    return {
        "gateway": each.gateway,
        "resource": each.resource,
        "peak": trend.peak,
        "peak_hour": trend.peak_hour,
        "growth_per_day": trend.growth_per_day,
        "full_at": iso(trend.full_at),
        "full_from": iso(trend.full_from),
        "full_to": iso(trend.full_to) if trend.full_to is not None else None,
    }


def _rounded(value: Any) -> Any:
    """Return a value with its numbers rounded; what is no number of JSON is null."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return value
