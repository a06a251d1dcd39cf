"""What links carry, and for whom: yield and pure forwards of each, soft links worth having, and the best place.

A pure forward is a publication that a gateway only passes on (paper 001). The yield of a link is the share of what came
in over it that somebody wanted there; a gateway's own yield is that of all its links.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.dates import DAY_S
from mqloom.spark_analytics.capacity.frames import Columns
from mqloom.spark_analytics.capacity.groups import GroupTraffic, by_gateway

GAIN_LEAST: Final = 1.0
"""What a soft link must be worth, by the overlay's own measure, to be named."""

CANDIDATE_SCHEMA: Final = "gateway string, peer string, gain double, distance int"

PLACE_SCHEMA: Final = "gateway string, rate_there double, rate_wanted double, cost double, utilisation double"


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """One direction of one link over all the time that was looked at."""

    gateway: str
    peer: str
    kind: str
    seconds: float
    sent: int
    pure_forwards: int
    """Of those, how many the sending gateway only passed on."""
    sent_bytes: int
    received: int
    """What came the other way."""
    received_unwanted: int
    """Of those, how many nobody wanted where they came."""
    gain: float
    """What it spares, or as a candidate would: publications times gateways bypassed, in a period of the overlay."""
    distance: int
    up_share: float
    up_share_lately: float
    """Of the last day; all of it if nothing was told."""
    is_up: bool
    """When it was told of last."""
    last_at: float = 0.0
    """When it was told of last, in Unix time."""

    @property
    def rate(self) -> float:
        """Copies a second, while there was this link."""
        return self.sent / self.seconds if self.seconds else 0.0

    @property
    def name(self) -> str:
        """The link as people read it."""
        return f"{self.gateway} \N{RIGHTWARDS ARROW} {self.peer}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A soft link that does not exist, and would be worth it."""

    gateway: str
    peer: str
    gain: float
    """What it would be worth, by the overlay's own measure."""
    distance: int


@dataclass(frozen=True, slots=True)
class Passing:
    """One gateway: what comes to it over links, and how much of it only passes through."""

    gateway: str
    received_s: float
    """Publications a second."""
    unwanted_s: float
    yields: float | None
    """The share that somebody wanted there; None if nothing came."""
    pure_forwards_s: float


@dataclass(frozen=True, slots=True)
class Site:
    """A broker beside which a new one could be put."""

    gateway: str
    rate_there: float
    """Publications a second of what it wants that come there already."""
    rate_wanted: float
    cost: float
    """Copies a second that links would carry in addition."""
    utilisation: float


def overlay(link: DataFrame, end_at: float) -> DataFrame:
    """Return a row for each direction of each link, those with most pure forwards first; telemetry ends at `end_at`."""
    lately_s = f.when(f.unix_micros("at") / 1e6 > end_at - DAY_S, f.col("window_s"))
    summed = link.groupBy("gateway", "peer", "kind").agg(
        f.sum("window_s").alias("seconds"),
        f.sum("sent").alias("sent"),
        f.sum("pure_forwards").alias("pure_forwards"),
        f.sum("sent_bytes").alias("sent_bytes"),
        f.sum("received").alias("received"),
        f.sum("received_unwanted").alias("received_unwanted"),
        f.avg("gain").alias("gain"),
        f.max_by("distance", "at").alias("distance"),
        _up_share(f.col("window_s")).alias("up_share"),
        f.coalesce(_up_share(lately_s), f.lit(1.0)).alias("up_share_lately"),
        f.max_by("is_up", "at").alias("is_up"),
        (f.max(f.unix_micros("at")) / 1e6).alias("last_at"),
    )
    wanted = f.when(f.col("received") > 0, 1 - f.col("received_unwanted") / f.col("received"))
    return summed.withColumn("yield", wanted).orderBy(f.desc("pure_forwards"), "gateway", "peer", "kind")


def _up_share(seconds: Column) -> Column:
    """Return for what share of some time a link was up; records stand for windows of different lengths."""
    return f.try_divide(f.coalesce(f.sum(f.when(f.col("is_up"), seconds)), f.lit(0.0)), f.sum(seconds))


def links_of(collected: Columns) -> list[LinkTraffic]:
    """Return the links, from collected `overlay`."""
    names = LinkTraffic.__dataclass_fields__
    rows = zip(*(collected[name].tolist() for name in names), strict=True)
    return [LinkTraffic(**dict(zip(names, row, strict=True))) for row in rows]


def candidates_of(links: Iterable[LinkTraffic]) -> list[Candidate]:
    """Return soft links worth having: candidates with gain, of pairs that have no soft link now; the best first.

    One that was there, and was thought about again after that, is gone.
    """
    links = list(links)
    woven = {(each.gateway, each.peer): each.last_at for each in links if each.kind == "soft"}
    found = [
        Candidate(each.gateway, each.peer, each.gain, each.distance)
        for each in links
        if each.kind == "candidate"
        and each.gain >= GAIN_LEAST
        and each.last_at > woven.get((each.gateway, each.peer), -math.inf)
    ]
    return sorted(found, key=lambda each: (-each.gain, each.gateway, each.peer))


def yields_of(links: Iterable[LinkTraffic]) -> dict[tuple[str, str], float]:
    """Return of each direction (from, to) the share of what went that way and was wanted where it came."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for each in links:
        came, unwanted = found.get((each.peer, each.gateway), (0, 0))
        found[each.peer, each.gateway] = came + each.received, unwanted + each.received_unwanted
    return {way: 1 - unwanted / came for way, (came, unwanted) in found.items() if came}


def seconds_of(link: LinkTraffic, observed: Mapping[str, float]) -> float:
    """Return how long the gateway of a link was looked at.

    By that what came is divided where links are added up: one that is there now and then brings little on the whole.
    """
    return max(observed.get(link.gateway, 0.0), link.seconds)


def passings_of(links: Iterable[LinkTraffic], observed: Mapping[str, float]) -> list[Passing]:
    """Return for each gateway how much of what comes to it only passes through, those with most first.

    `observed` says how long each gateway was looked at, in seconds.
    """
    rates: dict[str, tuple[float, float, float]] = {}
    for each in links:
        if each.kind != "candidate" and each.seconds:
            came, unwanted, forwards = rates.get(each.gateway, (0.0, 0.0, 0.0))
            seconds = seconds_of(each, observed)
            rates[each.gateway] = (
                came + each.received / seconds,
                unwanted + each.received_unwanted / seconds,
                forwards + each.pure_forwards / seconds,
            )
    found = [
        Passing(gateway, came, unwanted, 1 - unwanted / came if came else None, forwards)
        for gateway, (came, unwanted, forwards) in rates.items()
    ]
    return sorted(found, key=lambda each: (-each.unwanted_s, each.gateway))


def neighbours_of(links: Iterable[LinkTraffic]) -> dict[str, set[str]]:
    """Return the primary neighbours of each broker."""
    found: dict[str, set[str]] = {}
    for each in links:
        if each.kind == "primary":
            found.setdefault(each.gateway, set()).add(each.peer)
            found.setdefault(each.peer, set()).add(each.gateway)
    return found


def members_of(neighbours: Mapping[str, set[str]], clients: Mapping[str, int]) -> list[str]:
    """Return the brokers among which load should be even: the edges, and whoever has clients (docs/balancing.md).

    Where no link is known, all.
    """
    edges = {each for each, near in neighbours.items() if len(near) == 1 and each in clients}
    found = edges | {each for each, count in clients.items() if count > 0}
    return sorted(found if len(found) > 1 else clients)


def distances(neighbours: Mapping[str, set[str]], start: str) -> dict[str, int]:
    """Return how many links it is from one broker to each other that can be reached."""
    found, border = {start: 0}, [start]
    while border:
        border = [
            near for each in border for near in sorted(neighbours.get(each, ())) if _reach(found, near, found[each] + 1)
        ]
    return found


def _reach(found: dict[str, int], broker: str, distance: int) -> bool:
    if broker in found:
        return False
    found[broker] = distance
    return True


def sites_of(
    interests: Sequence[Subscription],
    groups: Iterable[GroupTraffic],
    neighbours: Mapping[str, set[str]],
    utilisations: Mapping[str, float],
) -> list[Site]:
    """Return where a broker with these interests is best put, the best first.

    What comes to a broker already costs no link anything there. The rest is fetched from the nearest broker that has
    more of it, over as many links as lie between. Of equals the emptiest comes first.
    """
    known = by_gateway(groups)
    brokers = sorted(utilisations)
    there = {broker: np.array([_rate(each, known.get(broker, [])) for each in interests]) for broker in brokers}
    wanted = np.max(list(there.values()), axis=0) if there and interests else np.zeros(len(interests))
    found = []
    for broker in brokers:
        away = distances(neighbours, broker)
        cost = 0.0
        for place in range(len(interests)):
            missing = float(wanted[place] - there[broker][place])
            if missing > 0:
                holders = [each for each in brokers if there[each][place] >= wanted[place] - 1e-12]
                cost += missing * min(away.get(each, len(brokers)) for each in holders)
        total = float(wanted.sum())
        found.append(Site(broker, float(there[broker].sum()), total, cost, utilisations[broker]))
    return sorted(found, key=lambda each: (round(each.cost, 9), each.utilisation, each.gateway))


def _rate(interest: Subscription, groups: Iterable[GroupTraffic]) -> float:
    """Return how many publications a second of an interest come for groups: all of one that has the interest in it.

    Groups inside of the interest may overlap, so the largest counts, not the sum: rather too little than too much.
    """
    return max(
        (
            group.rate
            for group in groups
            if group.subscription == interest
            or group.subscription.covers(interest)
            or interest.covers(group.subscription)
        ),
        default=0.0,
    )
