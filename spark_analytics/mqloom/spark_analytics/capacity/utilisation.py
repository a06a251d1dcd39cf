"""How full every broker was over time, when it is hottest, and how unevenly load is spread.

Raw load records are read twice: once for each broker as a whole, and once into buckets of time, from which hot hours,
imbalance, forecasts and plots are made. Percentiles are approximate (`approx_percentile`), by 1 in 10,000 of the rank.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mqloom.spark_analytics.capacity.clocks import ends_columns
from mqloom.spark_analytics.capacity.frames import ROWS_MAX
from mqloom.spark_analytics.capacity.thresholds import OVERLOADED, RESOURCES

METRICS: Final = {
    "input": "input_ratio",
    "delay": "delay_s",
    "output": "output_ratio",
    "cpu": "cpu_ratio",
    "memory": "memory_ratio",
    "utilisation": "utilisation",
}
"""What is told of a broker; `utilisation` is the fullest of its resources (paper 000, section 3.3.3, step 1)."""

PERCENTS: Final = (50, 95, 99)

BUCKETS_S: Final = (1, 5, 10, 30, 60, 300, 900, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 604_800)
"""How long buckets of time can be, in seconds: all divide a day, so that days can be compared, but the last."""

BUCKETS_MAX: Final = 2_400
"""Buckets of one broker: 25 days of quarters of an hour, 100 of hours; fewer where there are over 800 brokers."""

HOUR_S: Final = 3_600
DAY_S: Final = 86_400

DAILY_S: Final = 100 * DAY_S
"""From so long before the end on a day is looked at by the hour: of more days such buckets would be too many."""

WINDOWS_LEAST: Final = 5
"""Windows in a bucket: of fewer percentiles would say nothing."""


def buckets_max_for(brokers: int) -> int:
    """Return how many buckets each of so many brokers can have, for all of them to be collected.

    Two more of each may be there, as a time does not begin and end with a bucket.
    """
    return max(1, min(BUCKETS_MAX, ROWS_MAX // max(1, brokers) - 2))


def bucket_s_for(span_s: float, window_s: float, brokers: int) -> int:
    """Return how long buckets should be for so many seconds of windows of that length: as short as makes sense.

    Of very long times, which is over three years of 10,000 brokers, there are more buckets than should be.
    """
    most = buckets_max_for(brokers)
    fitting = (each for each in BUCKETS_S if span_s / each <= most and each >= WINDOWS_LEAST * window_s)
    return next(fitting, BUCKETS_S[-1])


def daily_s_for(brokers: int) -> float:
    """Return for how long before the end a day is looked at by the hour."""
    return min(DAILY_S, buckets_max_for(brokers) * HOUR_S)


def daily_bucket_s_for(span_s: float, window_s: float, brokers: int) -> int:
    """Return how long buckets should be in which a day's pattern is looked for: as above, but an hour at most."""
    return min(HOUR_S, bucket_s_for(min(span_s, daily_s_for(brokers)), window_s, brokers))


def with_utilisation(load: DataFrame) -> DataFrame:
    """Return load records with the fullest of their resources."""
    return load.withColumn("utilisation", f.greatest(*RESOURCES.values()))


def _percentiles() -> list[Column]:
    shares = f.array(*(f.lit(percent / 100) for percent in PERCENTS))
    return [f.percentile_approx(column, shares).alias(name) for name, column in METRICS.items()]


def _spread(frame: DataFrame, keep: Iterable[str]) -> DataFrame:
    """Return each array of percentiles as columns `NAME_p50` and so on."""
    found = [f.col(name)[place].alias(f"{name}_p{each}") for name in METRICS for place, each in enumerate(PERCENTS)]
    return frame.select(*keep, *found)


def _overloaded() -> list[Column]:
    """Return in how many windows each resource was overloaded."""
    return [f.count_if(f.col(column) >= OVERLOADED).alias(f"{name}_overloaded") for name, column in RESOURCES.items()]


def utilisation(load: DataFrame) -> DataFrame:
    """Return a row for each broker: percentiles of all it is measured by, and how long it was overloaded.

    `epoch` is the last start of its gateway, and `epoch_at` the first that this told.
    """
    worst = [f.max(column).alias(f"{name}_max") for name, column in METRICS.items()]
    over = _overloaded()
    over += [
        (f.max(f.when(f.col(column) >= OVERLOADED, f.unix_micros("at"))) / 1e6).alias(f"{name}_overloaded_at")
        for name, column in RESOURCES.items()
    ]
    others = [
        *ends_columns(),
        f.max("epoch").alias("epoch"),
        (f.min(f.struct(-f.col("epoch"), f.unix_micros("at").alias("at")))["at"] / 1e6).alias("epoch_at"),
        f.count_if(f.col("utilisation") >= OVERLOADED).alias("overloaded"),
        f.avg("input_rate").alias("input_rate"),
        f.max("output_bytes_s_max").alias("output_bytes_s_max"),
        f.max_by("subscriptions", "at").alias("subscriptions"),
        f.max("clients").alias("clients_max"),
        f.max_by(f.col("deliveries_s").isNotNull(), "at").alias("counts_deliveries"),
        f.regr_slope("memory_ratio", "subscriptions").alias("memory_each"),
        f.regr_r2("memory_ratio", "subscriptions").alias("memory_fit"),
    ]
    summed = with_utilisation(load).groupBy("gateway").agg(*others, *worst, *over, *_percentiles())
    keep = [name for name in summed.columns if name not in METRICS]
    return _spread(summed, keep).orderBy("gateway")


def utilisation_over_time(load: DataFrame, bucket_s: int) -> DataFrame:
    """Return a row for each broker and bucket of time (`bucket_at` in Unix time, its beginning)."""
    middle = f.unix_micros("at") / 1e6 - f.col("window_s") / 2  # a record stands at the end of its window
    bucket = (f.floor(middle / bucket_s) * bucket_s).cast("double").alias("bucket_at")
    means = [f.avg(column).alias(f"{name}_mean") for name, column in METRICS.items()]
    others = [
        f.count("*").alias("windows"),
        f.avg("input_rate").alias("input_rate"),
        f.avg("output_bytes_s").alias("output_bytes_s"),
        f.max("output_bytes_s_max").alias("output_bytes_s_max"),
        f.avg("subscriptions").alias("subscriptions"),
        f.avg("deliveries_s").alias("deliveries_s"),
        f.max("clients").alias("clients"),
    ]
    summed = with_utilisation(load).groupBy("gateway", bucket).agg(*others, *means, *_overloaded(), *_percentiles())
    keep = [name for name in summed.columns if name not in METRICS]
    return _spread(summed, keep)


def lately(load: DataFrame, end_at: float, brokers: int) -> DataFrame:
    """Return the load records of the last days, of as many as are looked at by the hour."""
    return load.where(f.unix_micros("at") / 1e6 > end_at - daily_s_for(brokers))


def hot_hours(over_time: DataFrame) -> DataFrame:
    """Return for each broker and hour of the day (UTC) the mean of the fullest resource's p95, and its most.

    Buckets must be an hour at most: of longer ones all counts for the hour with which they begin.
    """
    hour = f.floor(f.pmod(f.col("bucket_at"), f.lit(DAY_S)) / 3_600).cast("int").alias("hour")
    found = over_time.groupBy("gateway", hour).agg(
        f.avg("utilisation_p95").alias("utilisation_p95"), f.max("utilisation_p95").alias("utilisation_p95_max")
    )
    return found.orderBy("gateway", "hour")


UNEVEN: Final = ("input", "output", "utilisation")
"""Of what it is told how evenly it is spread."""


def imbalance(over_time: DataFrame, members: Iterable[str]) -> DataFrame:
    """Return for each bucket and metric how uneven the brokers were: coefficient of variation, and maximum over mean.

    The coefficient of variation is standard deviation over mean, as paper 003 has it. `broker` has most. Only buckets
    in which there are at least two of the `members` count, and some load.
    """
    among = over_time.where(f.col("gateway").isin(list(members)))
    stacked = None
    for name in UNEVEN:
        mean = f"{name}_mean"
        others = f.try_divide(f.sum(mean) - f.max(mean), f.count("*") - 1)
        found = (
            among.groupBy("bucket_at")
            .agg(
                f.count("*").alias("brokers"),
                f.avg(mean).alias("mean"),
                f.max(mean).alias("most"),
                f.max_by("gateway", mean).alias("broker"),
                others.alias("others"),
                f.try_divide(f.stddev_pop(mean), f.avg(mean)).alias("variation"),
                f.try_divide(f.max(mean), f.avg(mean)).alias("most_over_mean"),
            )
            .where((f.col("brokers") > 1) & (f.col("mean") > 0))
            .withColumn("metric", f.lit(name))
        )
        stacked = found if stacked is None else stacked.unionByName(found)
    assert stacked is not None
    return stacked.orderBy("metric", "bucket_at")
