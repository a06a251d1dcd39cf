"""What is wanted more than once: groups that cover each other, what aggregating them saves, and the best clusters.

Covering is that of the filter language (`Subscription.covers`), which claims it only where it is certain.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.poset import Poset
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.groups import GroupTraffic, by_gateway
from mqloom.spark_analytics.capacity.overlay import LinkTraffic, seconds_of

COVERED_SHOWN: Final = 5
"""Groups that are named below the one that covers them."""

SCHEMA: Final = (
    "gateway string, groups int, subscriptions int, needed int, share double, delay_s double, delay_needed_s double, "
    "input_ratio double, input_needed_ratio double"
)

FAMILY_SCHEMA: Final = "gateway string, head string, covered array<string>, groups int, subscriptions int"

CLUSTERS_SCHEMA: Final = (
    "brokers int, publications double, subscriptions double, matching double, best double, number int"
)


@dataclass(frozen=True, slots=True)
class Family:
    """A group and those that it covers, at one broker."""

    gateway: str
    head: str
    covered: tuple[str, ...]
    """Some of them, by name."""
    groups: int
    """How many there are in all, the head included."""
    subscriptions: int


@dataclass(frozen=True, slots=True)
class Redundancy:
    """One broker: how many subscriptions it matches, and how many would do."""

    gateway: str
    groups: int
    subscriptions: int
    needed: int
    """Subscriptions that no other covers."""
    delay_s: float
    delay_needed_s: float
    input_ratio: float
    input_needed_ratio: float

    @property
    def share(self) -> float:
        """How much of the subscriptions could go."""
        return 1 - self.needed / self.subscriptions if self.subscriptions else 0.0

    @property
    def saved_ratio(self) -> float:
        """How much input utilisation that would spare."""
        return max(0.0, self.input_ratio - self.input_needed_ratio)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The number of clusters with least traffic by paper 004, section 3.2, and what goes into it."""

    brokers: int
    publications: float
    subscriptions: float
    matching: float
    """The share of brokers that want a publication."""
    best: float
    """As the formula has it."""
    number: int
    """As it can be: whole, and between one and the number of brokers."""

    def traffic(self, clusters: float) -> float:
        """Return equation 1: messages, with so many clusters."""
        return cluster_traffic(clusters, self.brokers, self.publications, self.subscriptions, self.matching)


def families_of(groups: Iterable[GroupTraffic]) -> list[Family]:
    """Return groups that cover others of the same broker, those with most below them first."""
    found = []
    for gateway, local in by_gateway(groups).items():
        members = _members(local)
        poset = _poset(members)
        for key in poset.covering_set():
            below = poset.covered(key)
            if below:
                names = tuple(members[each][0].name for each in below[:COVERED_SHOWN])
                count = sum(group.subscribers for each in (key, *below) for group in members[each])
                found.append(Family(gateway, members[key][0].name, names, 1 + len(below), count))
    return sorted(found, key=lambda each: (-each.subscriptions, each.gateway, each.head))


def _members(groups: Sequence[GroupTraffic]) -> dict[Subscription, list[GroupTraffic]]:
    found: dict[Subscription, list[GroupTraffic]] = {}
    for group in groups:
        found.setdefault(group.subscription, []).append(group)
    return found


def _poset(members: Iterable[Subscription]) -> Poset[Subscription]:
    poset = Poset[Subscription]()
    for each in sorted(members, key=lambda each: (len(each.where.witness.form.traits), each.topics, str(each.where))):
        poset.add(each, each)
    return poset


def redundancy_of(
    groups: Iterable[GroupTraffic], estimates: Mapping[str, BrokerEstimate], matching: Mapping[str, float]
) -> list[Redundancy]:
    """Return what each broker would save if what others cover were aggregated, those that save most first.

    All go on getting what they want: the engine matches fewer subscriptions, and each publication takes less time.
    `matching` is what one costs each broker in a publication, whether or not it is for its client, in seconds.
    """
    found = []
    for gateway, local in sorted(by_gateway(groups).items()):
        estimate = estimates.get(gateway)
        if estimate is None:
            continue
        members = _members(local)
        total = sum(group.subscribers for group in local)
        needed = len(_poset(members).covering_set())
        # The model knows all subscriptions, telemetry of groups perhaps not: the difference is what counts.
        delay_s = max(0.0, estimate.delay_s - matching.get(gateway, 0.0) * (total - needed))
        found.append(
            Redundancy(
                gateway,
                len(members),
                total,
                needed,
                estimate.delay_s,
                delay_s,
                estimate.input_ratio,
                estimate.input_rate * delay_s,
            )
        )
    return sorted(found, key=lambda each: (-each.saved_ratio, -each.share, each.gateway))


def cluster_traffic(clusters: float, brokers: int, publications: float, subscriptions: float, matching: float) -> float:
    """Return equation 1 of paper 004: p ((m - 1) + r (n - m)) + s (n / m - 1)."""
    return publications * ((clusters - 1) + matching * (brokers - clusters)) + subscriptions * (brokers / clusters - 1)


def best_clusters(brokers: int, publications: float, subscriptions: float, matching: float) -> float:
    """Return where equation 1 of paper 004 is least: m = sqrt(s n / (p (1 - r))); infinite if each wants everything."""
    if publications <= 0 or matching >= 1:
        return math.inf
    return math.sqrt(subscriptions * brokers / (publications * (1 - matching)))


def clusters_of(
    seconds: float,
    rates: Mapping[str, float],
    links: Iterable[LinkTraffic],
    observed: Mapping[str, float],
    subscriptions: int,
) -> Clusters | None:
    """Return how many clusters have least traffic, with what was published and wanted; None if nothing was published.

    `rates` are the publications a second that came in at each broker, and `observed` for how many seconds it was looked
    at. What came over links is not published there: the rest is. The matching ratio is the share of other brokers to
    which a publication went because somebody wanted it. `subscriptions` are those that clients have issued: what a
    broker knows of others it is told because these are spread inside of clusters, which the equation counts itself.
    """
    received: dict[str, float] = {}
    wanted = 0.0
    for each in links:
        if each.kind != "candidate" and each.seconds:
            lasted = seconds_of(each, observed)
            received[each.gateway] = received.get(each.gateway, 0.0) + each.received / lasted
            wanted += (each.received - each.received_unwanted) / lasted
    brokers = len(rates)
    published = sum(max(0.0, rate - received.get(broker, 0.0)) for broker, rate in rates.items())
    if published <= 0 or brokers < 2:
        return None
    matching = min(1.0, wanted / (published * (brokers - 1)))
    publications = published * seconds
    best = best_clusters(brokers, publications, subscriptions, matching)
    nearest = [max(1, min(brokers, each)) for each in (math.floor(min(best, brokers)), math.ceil(min(best, brokers)))]
    number = min(nearest, key=lambda each: cluster_traffic(each, brokers, publications, subscriptions, matching))
    return Clusters(brokers, publications, float(subscriptions), matching, best, number)
