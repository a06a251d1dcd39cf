"""What a publication costs each broker as its work grows, and how many more subscriptions it can hold.

The model is that of the load agents (paper 000, equation 9): a line, seconds for each of what work is and seconds with
none. Work is what it is for them (`mqloom.core.load.work_of`): deliveries for each publication where a gateway tells
these, else subscriptions. They learn it from their last ten buckets, to follow changes; here all that was recorded
counts, with outliers weighing less. Spark puts samples into buckets of work, and the line is fitted to their medians.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mqloom.core.estimators import BUCKET_WIDTH, LEARNT_FROM_MIN, BrokerEstimate, DelayModel
from mqloom.spark_analytics.capacity.frames import Columns, split
from mqloom.spark_analytics.capacity.thresholds import FULL, RESOURCES
from mqloom.spark_analytics.capacity.trend import Floats

PLACES: Final = 60
"""Buckets of one broker at most."""

DELIVERIES_WIDTH: Final = 0.1
"""How wide a bucket of deliveries for each publication is at least; of subscriptions, it is as for the agents."""

SURE: Final = 4.0
"""A slope that is so many times its own spread counts, however little work has varied."""

MATCHING_SURE: Final = 2.0
"""The same for what a subscription costs beside deliveries."""

SAMPLES_LEAST: Final = 10
"""A broker with fewer samples is taken by its load records, where windows count in which little came, too."""

ROOM_MAX: Final = 10_000_000
"""More subscriptions are not counted."""

SCHEMA: Final = (
    "gateway string, slope_s double, base_s double, slope_spread_s double, is_proportional boolean, samples long, "
    "work_least double, work_most double, is_by_deliveries boolean, matching_each_s double"
)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """The line of one broker, and the points that it was fitted to."""

    gateway: str
    slope_s: float
    base_s: float
    slope_spread_s: float
    is_proportional: bool
    """Whether all was seen with about the same work: then the delay counts as proportional to it."""
    samples: int
    work: Floats
    service_s: Floats
    is_by_deliveries: bool = False
    """Whether work is deliveries for each publication, and not subscriptions."""
    matching_each_s: float = 0.0
    """What one more subscription costs if there are no more deliveries for it."""

    @property
    def work_least(self) -> float:
        """With how little it was seen."""
        return float(self.work.min())

    @property
    def work_most(self) -> float:
        """With how much it was seen."""
        return float(self.work.max())

    @property
    def delay(self) -> DelayModel:
        """The same for the estimators of the load agents."""
        return DelayModel(self.slope_s, self.base_s)


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many more subscriptions a broker can hold at its busy hours, and which resource is full then."""

    gateway: str
    subscriptions: int
    room: int
    resource: str
    utilisation: float


def samples_of(service: DataFrame, counting: Collection[str]) -> DataFrame:
    """Return what publications have cost, sample by sample; `counting` are the brokers that tell their deliveries.

    Of these, what agents would not learn from either is left out: what few publications cost is chance.
    """
    found = service.where("publications > 0 AND service_s > 0")
    found = found.where(~_counts(counting) | (f.col("publications") >= LEARNT_FROM_MIN))
    return _samples(found, counting, f.col("deliveries") / f.col("publications"), f.col("service_s"))


def load_samples(load: DataFrame, gateways: Collection[str], counting: Collection[str]) -> DataFrame:
    """Return the same of brokers with hardly any: the matching delay in their load records, however little came."""
    found = load.where(f.col("gateway").isin(list(gateways))).where("input_rate > 0 AND delay_s > 0")
    return _samples(found, counting, f.col("deliveries_s") / f.col("input_rate"), f.col("delay_s"))


def _counts(counting: Collection[str]) -> Column:
    return f.col("gateway").isin(list(counting))


def _samples(frame: DataFrame, counting: Collection[str], deliveries_each: Column, service_s: Column) -> DataFrame:
    """Return gateway, work, subscriptions and service time."""
    counts = _counts(counting)
    work = f.when(counts, deliveries_each).otherwise(f.col("subscriptions").cast("double"))
    return frame.where(~counts | deliveries_each.isNotNull()).select(
        "gateway",
        counts.alias("is_by_deliveries"),
        work.alias("work"),
        f.col("subscriptions").cast("double").alias("subscriptions"),
        service_s.alias("service_s"),
    )


def service_points(samples: DataFrame) -> DataFrame:
    """Return buckets: broker, work, median service time, number of samples, and how these go with subscriptions.

    `squares`, `products` and `rest` are the sums of squares of a regression of service time by subscriptions within a
    bucket, where work is about the same.
    """
    width = f.when(f.first("is_by_deliveries"), DELIVERIES_WIDTH).otherwise(BUCKET_WIDTH)
    ranges = samples.groupBy("gateway").agg(
        f.min("work").alias("least"),
        f.greatest(width, (f.max("work") - f.min("work")) / f.lit(PLACES)).alias("width"),
    )
    place = f.floor((f.col("work") - f.col("least")) / f.col("width")).alias("place")
    return (
        samples.join(f.broadcast(ranges), "gateway")
        .groupBy("gateway", place)
        .agg(
            f.avg("work").alias("work"),
            f.percentile_approx("service_s", 0.5).alias("service_s"),
            f.count("*").alias("samples"),
            f.first("is_by_deliveries").alias("is_by_deliveries"),
            f.regr_sxx("service_s", "subscriptions").alias("squares"),
            f.regr_sxy("service_s", "subscriptions").alias("products"),
            f.regr_syy("service_s", "subscriptions").alias("rest"),
        )
        .orderBy("gateway", "place")
    )


def models_of(points: Columns) -> dict[str, ServiceModel]:
    """Return the line of each broker; from collected `service_points`."""
    return {gateway: _line(gateway, found) for gateway, found in split(points, "gateway").items()}


def _line(gateway: str, points: Columns) -> ServiceModel:
    work = points["work"].astype(np.float64)
    service_s = points["service_s"].astype(np.float64)
    samples = points["samples"].astype(np.float64)
    is_by_deliveries = bool(points["is_by_deliveries"][0])
    total = int(samples.sum())
    weights = np.sqrt(samples)  # many samples of one count are not independent of each other
    slope_s = base_s = spread_s = 0.0
    if len(work) > 1:
        slope_s, base_s, spread_s = _robust_line(work, service_s, weights)
    if len(work) < 3:  # two points lie on any line
        spread_s = abs(slope_s)
    is_known = np.ptp(work) >= BUCKET_WIDTH or (is_by_deliveries and slope_s > SURE * spread_s)
    if not is_known:  # one bucket, in effect: see `DelayBuckets.model`
        mean_s, number = (float(np.average(each, weights=samples)) for each in (service_s, work))
        slope_s = spread_s = mean_s / number if number else 0.0
        base_s = 0.0 if number else mean_s
    elif slope_s < 0:  # noise: no engine matches faster for having more to match
        slope_s, base_s = 0.0, float(np.average(service_s, weights=weights))
    elif base_s < 0:  # noise as well, where little work was never seen: no publication takes less than no time
        slope_s, base_s = float(np.average(service_s, weights=weights) / np.average(work, weights=weights)), 0.0
    matching_s = _matching_each(points, total) if is_by_deliveries else slope_s
    return ServiceModel(
        gateway, slope_s, base_s, spread_s, not is_known, total, work, service_s, is_by_deliveries, matching_s
    )


def _matching_each(points: Columns, samples: int) -> float:
    """Return what a subscription costs where work is the same: the slope within buckets, if it stands out of noise."""
    squares, products, rest = (
        float(np.nansum(points[name].astype(np.float64))) for name in ("squares", "products", "rest")
    )
    freedom = samples - len(points["samples"]) - 1
    if squares <= 0 or freedom < 1:
        return 0.0
    slope_s = products / squares
    spread_s = math.sqrt(max(0.0, rest - slope_s * products) / freedom / squares)
    return slope_s if slope_s > MATCHING_SURE * spread_s else 0.0


def _robust_line(x: Floats, y: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return slope, base and the slope's standard error, outliers weighing less."""
    usual = weights.copy()
    slope = base = spread = 0.0
    for _ in range(10):
        total = usual.sum()
        x_mean, y_mean = (usual * x).sum() / total, (usual * y).sum() / total
        square = (usual * (x - x_mean) ** 2).sum()
        slope = float((usual * (x - x_mean) * (y - y_mean)).sum() / square)
        base = float(y_mean - slope * x_mean)
        residuals = y - base - slope * x
        scale = 1.4826 * float(np.median(np.abs(residuals)))
        freedom = max(1, len(x) - 2)
        spread = float(np.sqrt((usual * residuals**2).sum() / total * len(x) / freedom / square * usual.mean()))
        if scale < 1e-15:
            break
        usual = weights * np.minimum(1.0, 1.345 * scale / np.maximum(np.abs(residuals), 1e-15))
    return slope, base, spread


class _Usual(NamedTuple):
    """What a subscription of a broker's own clients takes, in the mean."""

    bytes_s: float = 0.0
    deliveries_s: float = 0.0


def headroom_of(estimates: Mapping[str, BrokerEstimate], own: Mapping[str, int], full: float = FULL) -> list[Headroom]:
    """Return for each broker how many more subscriptions of its usual kind it can hold until a resource is full.

    Publications come in as before, and a new subscription takes as much output, and as many deliveries, as the mean of
    its own clients': by the estimators that the load agents use. `own` says how many these have; the others in its
    matcher are of other gateways, and take neither. To a broker whose clients have none the mean of all applies.
    """
    all_of_them = _usual([each for name, each in estimates.items() if own.get(name)], sum(own.values()))
    return [
        _headroom(name, each, _usual([each], own[name]) if own.get(name) else all_of_them, full)
        for name, each in sorted(estimates.items())
    ]


def _usual(estimates: Sequence[BrokerEstimate], subscriptions: int) -> _Usual:
    if not subscriptions:
        return _Usual()
    return _Usual(
        sum(each.output_bytes_s for each in estimates) / subscriptions,
        sum(each.deliveries_s or 0.0 for each in estimates) / subscriptions,
    )


def _headroom(gateway: str, estimate: BrokerEstimate, usual: _Usual, full: float) -> Headroom:
    def after(number: int) -> BrokerEstimate:
        return estimate.after(
            subscriptions=number, bytes_s=number * usual.bytes_s, deliveries_s=number * usual.deliveries_s
        )

    low, high = 0, 1
    while high < ROOM_MAX and after(high).utilisation <= full:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if after(middle).utilisation <= full:
            low = middle
        else:
            high = middle
    room = 0 if estimate.utilisation > full else min(low, ROOM_MAX)
    return Headroom(gateway, estimate.subscriptions, room, fullest(after(high)), estimate.utilisation)


def fullest(estimate: BrokerEstimate) -> str:
    """Return the resource that is used most."""
    return max(RESOURCES, key=lambda name: float(getattr(estimate, RESOURCES[name])))


HEADROOM_SCHEMA: Final = "gateway string, subscriptions int, room int, resource string, utilisation double"
