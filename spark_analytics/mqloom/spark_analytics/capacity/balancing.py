"""How well load was balanced: how good predictions were, sessions that undid each other, and what to set otherwise.

Load agents predict what a session does to both brokers, and report what came (paper 000, section 6.3.6). An error is
the difference over what was observed; the bias has its sign: positive, where less came than was predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from mqloom.spark_analytics.alerts import OBSERVED_LEAST
from mqloom.spark_analytics.capacity.frames import Columns

UNDONE_S: Final = 900.0
"""A session in the other direction within so long gives back what the one before took."""

SESSIONS_LEAST: Final = 5
"""Of fewer sessions nothing general is said."""

ERROR_MOST: Final = 0.25
"""The median error that is still ordinary; the paper has 17% on real brokers."""

UNDONE_MOST: Final = 0.2
"""The share of sessions that undo others which is still ordinary."""

ARRIVED_LEAST: Final = 0.9
"""The share of clients asked to move that should have moved."""

_COLUMNS: Final = {"input": "input", "match": "delay_s", "output": "output"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """How good the predictions for one broker were, of what was to be balanced."""

    gateway: str
    metric: str
    sessions: int
    error: float
    """The median."""
    bias: float
    """The median, with its sign."""

    @property
    def is_failing(self) -> bool:
        """Whether they were worse than is ordinary, in enough sessions."""
        return self.sessions >= SESSIONS_LEAST and self.error > ERROR_MOST


@dataclass(frozen=True, slots=True)
class Undone:
    """Two brokers that give each other the same load to and fro."""

    gateway: str
    partner: str
    metric: str
    sessions: int
    undone: int

    @property
    def share(self) -> float:
        """How many of their sessions undid the one before."""
        return self.undone / self.sessions


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of the load agents to change, in which direction, and why."""

    setting: str
    direction: str
    gateway: str
    """Empty: everywhere."""
    evidence: str


CHANGE_SCHEMA: Final = "setting string, direction string, gateway string, evidence string"


@dataclass(frozen=True, slots=True)
class Balancing:
    """All that is said about it."""

    sessions: int
    asked: int
    moved: int
    predictions: tuple[Prediction, ...]
    undone: tuple[Undone, ...]
    changes: tuple[Change, ...]


def sessions(migration: DataFrame) -> DataFrame:
    """Return a row for each side of each session, with the error of what was to be balanced, in the order of time."""
    predicted = _of_metric("predicted")
    observed = _of_metric("observed")
    least = f.coalesce(*(f.when(f.col("metric") == name, f.lit(value)) for name, value in OBSERVED_LEAST.items()))
    is_seen = (observed >= least) & ~f.isnan(observed)
    return migration.select(
        (f.unix_micros("at") / 1e6).alias("at"),
        "session",
        "gateway",
        "partner",
        # One gateway tells of both sides: of its own, and of the partner's.
        f.when(f.col("is_offloading"), f.col("gateway")).otherwise(f.col("partner")).alias("broker"),
        "metric",
        "asked",
        "moved",
        "is_offloading",
        predicted.alias("predicted"),
        observed.alias("observed"),
        f.when(is_seen, (predicted - observed) / observed).alias("bias"),
    ).orderBy("at", "session", "gateway")


def _of_metric(side: str) -> Column:
    cases = (f.when(f.col("metric") == name, f.col(f"{side}_{column}")) for name, column in _COLUMNS.items())
    return f.coalesce(*cases)


def predictions(told: DataFrame) -> DataFrame:
    """Return how good predictions were, by broker and metric, from `sessions`."""
    return (
        told.where("bias IS NOT NULL")
        .groupBy(f.col("broker").alias("gateway"), "metric")
        .agg(
            f.count("*").alias("sessions"),
            f.percentile_approx(f.abs("bias"), 0.5).alias("error"),
            f.percentile_approx("bias", 0.5).alias("bias"),
        )
        .orderBy("gateway", "metric")
    )


def undone(told: DataFrame) -> DataFrame:
    """Return for each pair of brokers and metric how many sessions gave back what the one before took."""
    given = _given(told).where("moved > 0")
    pair = f.least("gateway", "partner"), f.greatest("gateway", "partner")
    before = Window.partitionBy("one", "other", "metric").orderBy("at", "session")
    marked = (
        given.withColumn("one", pair[0])
        .withColumn("other", pair[1])
        .withColumn("last_from", f.lag("gateway").over(before))
        .withColumn("last_at", f.lag("at").over(before))
    )
    is_back = (f.col("last_from") != f.col("gateway")) & (f.col("at") - f.col("last_at") <= UNDONE_S)
    return (
        marked.groupBy(f.col("one").alias("gateway"), f.col("other").alias("partner"), "metric")
        .agg(f.count("*").alias("sessions"), f.count_if(is_back).alias("undone"))
        .orderBy(f.desc("undone"), "gateway", "partner", "metric")
    )


def _given(told: DataFrame) -> DataFrame:
    """Return a row for each session, whichever side of it is known."""
    return told.groupBy("session", "gateway", "partner", "metric").agg(
        f.min("at").alias("at"), f.max("asked").alias("asked"), f.max("moved").alias("moved")
    )


def totals(told: DataFrame) -> DataFrame:
    """Return one row: how many sessions there were, whom those asked to move of which it is known, and who did."""
    is_known = (f.col("asked") >= 0) & (f.col("moved") >= 0)
    return _given(told).agg(
        f.count("*").alias("sessions"),
        f.coalesce(f.sum(f.when(is_known, f.col("asked"))), f.lit(0)).alias("asked"),
        f.coalesce(f.sum(f.when(is_known, f.col("moved"))), f.lit(0)).alias("moved"),
    )


def balancing_of(total: Columns, predicted: Columns, to_and_fro: Columns) -> Balancing:
    """Return what is to be said, from the three collected tables above."""
    found = [
        Prediction(str(gateway), str(metric), int(count), float(error), float(bias))
        for gateway, metric, count, error, bias in _rows(predicted, "gateway metric sessions error bias")
    ]
    pairs = [
        Undone(str(one), str(other), str(metric), int(count), int(back))
        for one, other, metric, count, back in _rows(to_and_fro, "gateway partner metric sessions undone")
    ]
    count, asked, moved = (int(total[name][0]) for name in ("sessions", "asked", "moved"))
    changes = (*_for_predictions(found), *_for_undone(pairs), *_for_moves(count, asked, moved))
    return Balancing(count, asked, moved, tuple(found), tuple(pairs), changes)


def _rows(table: Columns, names: str) -> "zip[tuple[Any, ...]]":
    return zip(*(table[name].tolist() for name in names.split()), strict=True)


def is_ordinary(pair: Undone) -> bool:
    """Whether so many sessions to and fro mean nothing."""
    return pair.undone < 2 or pair.sessions < SESSIONS_LEAST or pair.share <= UNDONE_MOST


def _for_predictions(found: Sequence[Prediction]) -> list[Change]:
    changes = []
    for each in found:
        if not each.is_failing:
            continue
        leans = abs(each.bias) > each.error / 2
        evidence = f"{each.metric}: median error {each.error:.0%} in {each.sessions} sessions"
        if leans and each.bias < 0:
            evidence += f", and {-each.bias:.0%} more came than was predicted"
            changes.append(Change("stabilise_s", "raise", each.gateway, evidence))
            if each.metric == "output":
                told = f"{evidence}: it can send less than it says"
                changes.append(Change("output_bytes_s_max", "lower", each.gateway, told))
        elif leans:
            evidence += f", and {each.bias:.0%} less came than was predicted"
            changes.append(Change("stabilise_s", "raise", each.gateway, evidence))
        else:
            changes.append(Change("press_samples", "raise", each.gateway, f"{evidence}, now more, now less"))
    return changes


def _for_undone(pairs: Sequence[Undone]) -> list[Change]:
    bad = [each for each in pairs if not is_ordinary(each)]
    if not bad:
        return []
    count, back = sum(each.sessions for each in bad), sum(each.undone for each in bad)
    between = ", ".join(sorted({f"{each.gateway} and {each.partner}" for each in bad})[:3])
    evidence = f"{back} of {count} sessions gave back what the one before took, between {between}"
    metrics = {each.metric for each in bad}
    settings = ["local_ratio"] * bool(metrics & {"input", "output"}) + ["local_delay"] * ("match" in metrics)
    return [Change(setting, "raise", "", evidence) for setting in (*settings, "rest_s")]


def _for_moves(count: int, asked: int, moved: int) -> list[Change]:
    if count < SESSIONS_LEAST or moved >= ARRIVED_LEAST * asked:
        return []
    evidence = f"of {asked} clients that were asked to move, {moved} did"
    return [Change("move_timeout_s", "raise", "", evidence)]


def usual_error(found: Sequence[Prediction]) -> float | None:
    """Return the median of the brokers' errors; None if there are none."""
    return median(each.error for each in found) if found else None
