"""What a publication costs each broker, as a function of its subscriptions, and how many more it can hold.

The model is that of the load agents (paper 000, equation 9): a line, seconds for each subscription and seconds with
none. They learn it from their last ten buckets, to follow changes; here all that was recorded counts, with outliers
weighing less. Spark puts samples into buckets by the number of subscriptions, and the line is fitted to their medians.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mqloom.core.estimators import BUCKET_WIDTH, BrokerEstimate, DelayModel
from mqloom.spark_analytics.capacity.frames import Columns, split
from mqloom.spark_analytics.capacity.thresholds import FULL, RESOURCES
from mqloom.spark_analytics.capacity.trend import Floats

PLACES: Final = 60
"""Buckets of one broker at most."""

ROOM_MAX: Final = 10_000_000
"""More subscriptions are not counted."""

SCHEMA: Final = (
    "gateway string, slope_s double, base_s double, slope_spread_s double, is_proportional boolean, samples long, "
    "subscriptions_least double, subscriptions_most double"
)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """The line of one broker, and the points that it was fitted to."""

    gateway: str
    slope_s: float
    base_s: float
    slope_spread_s: float
    is_proportional: bool
    """Whether all was seen with about the same number: then the delay counts as proportional to it."""
    samples: int
    subscriptions: Floats
    service_s: Floats

    @property
    def subscriptions_least(self) -> float:
        """With how few it was seen."""
        return float(self.subscriptions.min())

    @property
    def subscriptions_most(self) -> float:
        """With how many it was seen."""
        return float(self.subscriptions.max())

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


def samples_of(service: DataFrame) -> DataFrame:
    """Return what publications have cost, sample by sample."""
    return service.where("publications > 0 AND service_s > 0").select("gateway", "subscriptions", "service_s")


def load_samples(load: DataFrame, gateways: Collection[str]) -> DataFrame:
    """Return the same of brokers that told no samples: the matching delay in their load records."""
    chosen = load.where(f.col("gateway").isin(list(gateways))).where("input_rate > 0 AND delay_s > 0")
    return chosen.select("gateway", "subscriptions", f.col("delay_s").alias("service_s"))


def service_points(samples: DataFrame) -> DataFrame:
    """Return buckets: broker, subscriptions, median service time, and number of samples."""
    ranges = samples.groupBy("gateway").agg(
        f.min("subscriptions").alias("least"),
        f.greatest(
            f.lit(BUCKET_WIDTH), f.ceil((f.max("subscriptions") - f.min("subscriptions")) / f.lit(PLACES))
        ).alias("width"),
    )
    place = f.floor((f.col("subscriptions") - f.col("least")) / f.col("width")).alias("place")
    return (
        samples.join(f.broadcast(ranges), "gateway")
        .groupBy("gateway", place)
        .agg(
            f.avg("subscriptions").alias("subscriptions"),
            f.percentile_approx("service_s", 0.5).alias("service_s"),
            f.count("*").alias("samples"),
        )
        .orderBy("gateway", "place")
    )


def models_of(points: Columns) -> dict[str, ServiceModel]:
    """Return the line of each broker; from collected `service_points`."""
    return {gateway: _line(gateway, found) for gateway, found in split(points, "gateway").items()}


def _line(gateway: str, points: Columns) -> ServiceModel:
    subscriptions = points["subscriptions"].astype(np.float64)
    service_s = points["service_s"].astype(np.float64)
    samples = points["samples"].astype(np.float64)
    total = int(samples.sum())
    if np.ptp(subscriptions) < BUCKET_WIDTH:  # one bucket, in effect: see `DelayBuckets.model`
        mean_s, number = (float(np.average(each, weights=samples)) for each in (service_s, subscriptions))
        slope_s = mean_s / number if number else 0.0
        base_s = mean_s - slope_s * number
        return ServiceModel(gateway, slope_s, base_s, slope_s, True, total, subscriptions, service_s)
    weights = np.sqrt(samples)  # many samples of one count are not independent of each other
    slope_s, base_s, spread_s = _robust_line(subscriptions, service_s, weights)
    if len(subscriptions) < 3:  # two points lie on any line
        spread_s = abs(slope_s)
    if slope_s < 0:  # noise: no engine matches faster for having more to match
        slope_s, base_s = 0.0, float(np.average(service_s, weights=weights))
    return ServiceModel(gateway, slope_s, base_s, spread_s, False, total, subscriptions, service_s)


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


def headroom_of(estimates: dict[str, BrokerEstimate], full: float = FULL) -> list[Headroom]:
    """Return for each broker how many more subscriptions of its usual kind it can hold until a resource is full.

    Publications come in as before, and a new subscription takes as much output as the mean one: by the estimators
    that the load agents use.
    """
    return [_headroom(gateway, estimate, full) for gateway, estimate in sorted(estimates.items())]


def _headroom(gateway: str, estimate: BrokerEstimate, full: float) -> Headroom:
    bytes_each = estimate.output_bytes_s / estimate.subscriptions if estimate.subscriptions else 0.0

    def after(number: int) -> BrokerEstimate:
        return estimate.after(subscriptions=number, bytes_s=number * bytes_each)

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
