"""Groups of subscribers that want the same, as telemetry has them: what each takes, and what covers what.

The unit of "what if" and of redundancy, as it is the load agents' (paper 000, section 4.1, and `mqloom.agents.press`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from mqloom.core.covering_index import CoveringIndex
from mqloom.core.errors import RemoteError
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.frames import Columns

GROUPS_MAX: Final = 20_000
"""Groups that are looked at one by one, those with most traffic; what others take is known only as a sum."""


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """One group at one broker."""

    gateway: str
    topics: str
    where: str
    subscribers: int
    rate: float
    """Publications a second that it wants."""
    bytes_s_each: float
    """What goes to each of its subscribers."""
    subscription: Subscription
    correction: float = 1.0
    """By what its rate is to be corrected to make the deliveries that were counted."""

    @property
    def deliveries_s_each(self) -> float:
        """Publications a second that each of its subscribers is given."""
        return self.rate * self.correction

    @property
    def deliveries_s(self) -> float:
        """Publications a second that they are given, once for each of them."""
        return self.deliveries_s_each * self.subscribers

    @property
    def bytes_s(self) -> float:
        """What goes to all of them."""
        return self.bytes_s_each * self.subscribers

    @property
    def name(self) -> str:
        """The group as people read it."""
        return f"{self.topics} WHERE {self.where}" if self.where else self.topics


def group_traffic(group: DataFrame, starts: DataFrame) -> DataFrame:
    """Return a row for each group that has subscribers at the end: rates over all the time that it was seen.

    The end is when there was somebody for the last time: where all have left, as when a demonstration is over, nobody
    has gone anywhere, and what was before is what there is to say.

    A gateway that has been started again knows nothing of the groups that it had: who is still there is told anew, and
    of the others nobody says that they have gone. So only what its last start by then has told counts. `starts` has the
    last start of each gateway, and when that told something first (`gateway`, `epoch`, `epoch_at`): it may have no
    group at all.
    """
    seen = group.where("subscribers > 0").agg(f.max("at").alias("seen_at"))
    summed = (
        group.crossJoin(f.broadcast(seen))
        .where("at <= seen_at")
        .groupBy("gateway", "topics", "where")
        .agg(
            f.max_by("subscribers", "at").alias("subscribers"),
            f.coalesce(f.try_divide(f.sum("publications"), f.sum("window_s")), f.lit(0.0)).alias("rate"),
            f.coalesce(f.try_divide(f.sum("payload_bytes"), f.sum("window_s")), f.lit(0.0)).alias("bytes_s_each"),
            f.max("epoch").alias("epoch"),
            f.first("seen_at").cast("double").alias("seen_at"),
        )
    )
    begun = starts.select("gateway", f.col("epoch").alias("begun"), "epoch_at")
    last = f.greatest(
        f.max("epoch").over(Window.partitionBy("gateway")),
        f.when(f.col("epoch_at") <= f.col("seen_at"), f.col("begun")),
    )
    return (
        summed.join(f.broadcast(begun), "gateway", "left")
        .withColumn("last", last)
        .where("subscribers > 0 AND epoch = last")
        .drop("epoch", "seen_at", "begun", "epoch_at", "last")
        .orderBy(f.desc(f.col("bytes_s_each") * f.col("subscribers")), "gateway", "topics", "where")
        .limit(GROUPS_MAX)
    )


def groups_of(collected: Columns) -> list[GroupTraffic]:
    """Return the groups, those with most traffic first; a filter that cannot be read is left out."""
    found = []
    rows = zip(
        *(collected[name] for name in ("gateway", "topics", "where", "subscribers", "rate", "bytes_s_each")),
        strict=True,
    )
    for gateway, topics, where, subscribers, rate, bytes_s_each in rows:
        try:
            subscription = Subscription.parse(topics, where)
        except RemoteError:
            continue
        found.append(
            GroupTraffic(
                str(gateway), topics, where, int(subscribers), float(rate or 0), float(bytes_s_each or 0), subscription
            )
        )
    return found


def own_subscriptions(groups: Iterable[GroupTraffic], clients: Mapping[str, int]) -> dict[str, int]:
    """Return how many subscriptions each broker's own clients have: as groups tell, and one for each at least."""
    told = {gateway: sum(each.subscribers for each in found) for gateway, found in by_gateway(groups).items()}
    return {gateway: max(told.get(gateway, 0), number) for gateway, number in clients.items()}


def by_gateway(groups: Iterable[GroupTraffic]) -> dict[str, list[GroupTraffic]]:
    """Return the groups of each broker, in their order."""
    found: dict[str, list[GroupTraffic]] = {}
    for group in groups:
        found.setdefault(group.gateway, []).append(group)
    return found


def index_of(groups: Iterable[GroupTraffic]) -> CoveringIndex:
    """Return what finds a group that covers another."""
    index = CoveringIndex()
    for each in dict.fromkeys(group.subscription for group in groups):
        index.add(each)
    return index
