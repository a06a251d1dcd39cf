"""All answers at once, in few passes over the telemetry: what the report shows and the findings are drawn from.

Raw load records are read twice (`utilisation`), of more than 100 days the last ones once more, and again where a clock
may be wrong (`clocks`); those of other kinds once each. Everything else is made of the small tables that come out.
These are collected, and no raw row ever is.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from mqloom.core.errors import LocalError
from mqloom.core.estimators import BrokerEstimate
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity import balancing, overlay, service, utilisation
from mqloom.spark_analytics.capacity.clocks import Extent, WrongClock, extent_of
from mqloom.spark_analytics.capacity.estimates import busy_clients, busy_estimates, counting_of
from mqloom.spark_analytics.capacity.forecast import Forecast, forecasts_of
from mqloom.spark_analytics.capacity.frames import Columns, Telemetry, columns, frame_of
from mqloom.spark_analytics.capacity.groups import GroupTraffic, group_traffic, groups_of, own_subscriptions
from mqloom.spark_analytics.capacity.questions import Questions, scenarios_of
from mqloom.spark_analytics.capacity.redundancy import (
    Clusters,
    Family,
    Redundancy,
    clusters_of,
    families_of,
    redundancy_of,
)
from mqloom.spark_analytics.capacity.silence import without
from mqloom.spark_analytics.capacity.what_if import Scenario, WhatIf

Tell = Callable[[float, str], None]
"""Is told which share of the work is done, and what is done now."""

SESSIONS_SHOWN: Final = 2_000
REFUSALS_SHOWN: Final = 20
INTERESTS_MAX: Final = 50
"""Interests of the busiest broker for which a place is looked for, when nobody names any."""

SHUFFLE: Final = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
"""Spark sorts everything when there are more groups than this (128): a table in memory is several times faster."""


class NoTelemetryError(LocalError):
    """There is nothing to analyse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What telemetry says. Times are Unix times."""

    start_at: float
    end_at: float
    bucket_s: int
    records: int
    """Of load."""
    records_all: int
    """Of all kinds."""
    dropped: int
    """Of all kinds: what gateways had no room for."""
    full: float
    utilisation: Columns
    over_time: Columns
    daily: Columns
    """The same by the hour or shorter, of the last 100 days at most: of a day's pattern longer buckets say nothing."""
    hot_hours: Columns
    imbalance: Columns
    silent: dict[str, float]
    """Brokers that tell nothing any more, and when they did last: they are in no answer about what is to come."""
    wrong_clocks: list[WrongClock]
    members: list[str]
    forecasts: list[Forecast]
    models: dict[str, service.ServiceModel]
    estimates: dict[str, BrokerEstimate]
    headroom: list[service.Headroom]
    scenarios: list[Scenario]
    links: list[overlay.LinkTraffic]
    passings: list[overlay.Passing]
    candidates: list[overlay.Candidate]
    sites: list[overlay.Site]
    sites_for: str
    sessions: Columns
    balancing: balancing.Balancing
    families: list[Family]
    redundancy: list[Redundancy]
    clusters: Clusters | None
    refusals: Columns

    @property
    def brokers(self) -> list[str]:
        """All of which there are load records, by name."""
        return [str(each) for each in self.utilisation["gateway"]]

    @property
    def seconds(self) -> float:
        """How long was looked at."""
        return self.end_at - self.start_at


def analyse(telemetry: Telemetry, questions: Questions, tell: Tell) -> Analysis:
    """Return all answers; raises NoTelemetryError if there is no load to speak of."""
    telemetry["load"].sparkSession.conf.set(SHUFFLE, "65536")
    tell(0.0, "utilisation of each broker")
    load, used, extent = _within(telemetry["load"])
    window_s, brokers = float(used["window_s"].max()), len(used["gateway"])
    start_at, end_at = extent.start_at - window_s, extent.end_at  # a record stands at the end of its window
    bucket_s = utilisation.bucket_s_for(end_at - start_at, window_s, brokers)
    silent = extent.silent
    present = without(used, silent)
    tell(0.25, "utilisation over time")
    frame = utilisation.utilisation_over_time(load, bucket_s).persist()
    daily_s = utilisation.daily_bucket_s_for(end_at - start_at, window_s, brokers)
    by_hour = frame
    if daily_s < bucket_s:
        by_hour = utilisation.utilisation_over_time(utilisation.lately(load, end_at, brokers), daily_s).persist()
    try:
        over_time = columns(frame.orderBy("gateway", "bucket_at"))
        daily = over_time if by_hour is frame else columns(by_hour.orderBy("gateway", "bucket_at"))
        lately = without(daily, silent)
        tell(0.5, "links")
        links = overlay.links_of(columns(overlay.overlay(telemetry["link"], end_at)))
        links_here = [each for each in links if silent.keys().isdisjoint((each.gateway, each.peer))]
        clients = busy_clients(lately)
        neighbours = overlay.neighbours_of(links_here)
        members = overlay.members_of(neighbours, clients)
        hot = columns(utilisation.hot_hours(by_hour))
        uneven = columns(utilisation.imbalance(frame, members))
    finally:
        frame.unpersist()
        by_hour.unpersist()
    tell(0.6, "service times")
    models = _models(telemetry, clients, counting_of(used))
    estimates = busy_estimates(lately, present, models)
    tell(0.7, "groups of subscribers")
    told_groups = groups_of(columns(group_traffic(telemetry["group"], _starts(load, used))))
    groups = [each for each in told_groups if each.gateway not in silent]
    tell(0.8, "balancing")
    balanced, shown = _balanced(telemetry["migration"])
    tell(0.9, "forecasts and scenarios")
    interests, whose = _interests(questions, estimates, groups)
    own = own_subscriptions(groups, clients)
    rates = _by_broker(present, present["input_rate"])
    observed = _by_broker(present, present["windows"] * present["window_s"])
    found = Analysis(
        start_at=start_at,
        end_at=end_at,
        bucket_s=bucket_s,
        records=int(used["windows"].sum()),
        records_all=_records(telemetry),
        dropped=_dropped(telemetry["dropped"]),
        full=questions.full,
        utilisation=used,
        over_time=over_time,
        daily=daily,
        hot_hours=hot,
        imbalance=uneven,
        silent=silent,
        wrong_clocks=extent.wrong,
        members=members,
        forecasts=forecasts_of(lately, questions.full),
        models=models,
        estimates=estimates,
        headroom=service.headroom_of(estimates, own, questions.full),
        scenarios=scenarios_of(WhatIf(estimates, groups, clients, members, questions.full), questions),
        links=links,
        passings=overlay.passings_of(links_here, observed),
        candidates=overlay.candidates_of(links_here),
        sites=_sites(interests, groups, neighbours, estimates),
        sites_for=whose,
        sessions=shown,
        balancing=balanced,
        families=families_of(groups),
        redundancy=redundancy_of(groups, estimates, {name: each.matching_each_s for name, each in models.items()}),
        clusters=clusters_of(end_at - start_at, rates, links_here, observed, sum(own.values())),
        refusals=columns(refusals(telemetry["refusal"])),
    )
    tell(1.0, "done")
    return found


def _within(load: DataFrame) -> tuple[DataFrame, Columns, Extent]:
    """Return the load records whose times can be right, how full they say that brokers are, and from when to when."""
    used = columns(utilisation.utilisation(load))
    if not len(used["gateway"]):
        raise NoTelemetryError("there are no load records in this telemetry: do gateways send any? (docs/spark.md)")
    extent = extent_of(load, used)
    if extent.is_cut:
        load = extent.within(load)
        used = columns(utilisation.utilisation(load))
    return load, used, extent


def _by_broker(table: Columns, values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(map(str, table["gateway"]), values.tolist(), strict=True))


def _sites(
    interests: list[Subscription],
    groups: list[GroupTraffic],
    neighbours: dict[str, set[str]],
    estimates: dict[str, BrokerEstimate],
) -> list[overlay.Site]:
    """Return where a broker with these interests is best put; nothing if there are none."""
    busy = {broker: each.utilisation for broker, each in estimates.items()}
    return overlay.sites_of(interests, groups, neighbours, busy) if interests else []


def _starts(load: DataFrame, used: Columns) -> DataFrame:
    """Return the last start of each gateway, as `group_traffic` wants it."""
    rows = zip(*(used[name].tolist() for name in ("gateway", "epoch", "epoch_at")), strict=True)
    return frame_of(load.sparkSession, rows, "gateway string, epoch long, epoch_at double")


def _models(
    telemetry: Telemetry, brokers: Collection[str], counting: Collection[str]
) -> dict[str, service.ServiceModel]:
    """Return the service model of each broker; of those with hardly any samples from their load records."""
    samples = service.samples_of(telemetry["service"], counting)
    models = service.models_of(columns(service.service_points(samples)))
    idle = [each for each in brokers if each not in models or models[each].samples < service.SAMPLES_LEAST]
    if idle:
        samples = service.load_samples(telemetry["load"], idle, counting)
        models |= service.models_of(columns(service.service_points(samples)))
    return models


def _balanced(migration: DataFrame) -> tuple[balancing.Balancing, Columns]:
    """Return how good balancing was, and the last sessions."""
    told = balancing.sessions(migration).persist()
    try:
        balanced = balancing.balancing_of(
            columns(balancing.totals(told)), columns(balancing.predictions(told)), columns(balancing.undone(told))
        )
        return balanced, columns(told.orderBy(f.desc("at"), "session", "gateway").limit(SESSIONS_SHOWN))
    finally:
        told.unpersist()


def refusals(refusal: DataFrame) -> DataFrame:
    """Return what was refused or dropped most, by broker, counter and reason."""
    summed = refusal.groupBy("gateway", "counter", "reason").agg(f.sum("amount").alias("amount"))
    return summed.orderBy(f.desc("amount"), "gateway", "counter", "reason").limit(REFUSALS_SHOWN)


def _records(telemetry: Telemetry) -> int:
    """Return how many records there are; of files only their ends are read for that."""
    counts = [frame.agg(f.count("*").alias("amount")) for frame in telemetry.values()]
    return int(columns(reduce(DataFrame.unionAll, counts))["amount"].sum())


def _dropped(dropped: DataFrame) -> int:
    return int(columns(dropped.agg(f.coalesce(f.sum("amount"), f.lit(0)).alias("amount")))["amount"][0])


def _interests(
    questions: Questions, estimates: dict[str, BrokerEstimate], groups: list[GroupTraffic]
) -> tuple[list[Subscription], str]:
    """Return for which interests a place is looked for, and whose they are: where nobody asks, the fullest broker's."""
    if questions.interests:
        return list(questions.interests), "the interests asked for"
    for broker in sorted(estimates, key=lambda each: (-estimates[each].utilisation, each)):
        found = list(dict.fromkeys(group.subscription for group in groups if group.gateway == broker))
        if found:
            return found[:INTERESTS_MAX], f"a second broker with the interests of {broker}"
    return [], ""


def latest(table: Columns, share: float, seconds_max: float) -> Columns:
    """Return the rows of the last share of the time, and of so many seconds at most, by `bucket_at`."""
    times = table["bucket_at"].astype(np.float64)
    if not len(times):
        return table
    chosen = times >= times.max() - min(share * (times.max() - times.min()), seconds_max)
    return {name: values[chosen] for name, values in table.items()}
