"""What if: a broker fails, publications grow, a broker is added, subscribers move.

Every prediction is made by the estimators with which the load agents decide whom to move (`mqloom.core.estimators`),
from each broker's busy level. Subscribers move in groups that want the same. A broker to which a group comes gets its
publications in addition only if it does not receive them already, for a group that covers it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mqloom.core.covering_index import CoveringIndex
from mqloom.core.estimators import BrokerEstimate, DelayModel, correction_of
from mqloom.core.subscription import Subscription
from mqloom.spark_analytics.capacity.groups import GroupTraffic, by_gateway, index_of
from mqloom.spark_analytics.capacity.service import fullest
from mqloom.spark_analytics.capacity.thresholds import FULL

PORTIONS: Final = 10
"""In how many portions a group is given away: all of a large one need not go to the same broker."""

BALANCE: Final = 0.02
"""A smaller difference between two brokers is none."""

STEPS_MAX: Final = 5_000

NEW: Final = "(new)"
"""What a broker is called that does not exist yet."""

SCHEMA: Final = (
    "scenario string, gateway string, before double, after double, resource string, subscriptions int, is_full boolean"
)


@dataclass(frozen=True, slots=True)
class Outlook:
    """One broker in one scenario."""

    gateway: str
    before: float | None
    """The utilisation at busy hours as it is; None for a broker that does not exist yet."""
    after: float
    resource: str
    subscriptions: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """What would be, for every broker."""

    name: str
    question: str
    outlooks: tuple[Outlook, ...]
    full: float = FULL
    """From where on a broker has no room left."""

    @property
    def worst(self) -> Outlook:
        """The fullest broker."""
        return max(self.outlooks, key=lambda each: (each.after, each.gateway))

    @property
    def full_ones(self) -> list[Outlook]:
        """Brokers that would have no room left."""
        return [each for each in self.outlooks if each.after > self.full]

    def rows(self) -> list[tuple[object, ...]]:
        """Return rows of `SCHEMA`."""
        full = self.full_ones
        return [
            (self.name, each.gateway, each.before, each.after, each.resource, each.subscriptions, each in full)
            for each in self.outlooks
        ]


@dataclass(slots=True)
class _Place:
    """A broker while subscribers come and go."""

    estimate: BrokerEstimate
    index: CoveringIndex
    came: set[Subscription] = field(default_factory=set)

    def receives(self, subscription: Subscription) -> bool:
        return subscription in self.came or self.index.find_covering(subscription) is not None

    def take(self, group: GroupTraffic, number: int) -> None:
        rate = 0.0 if self.receives(group.subscription) else group.rate
        self.came.add(group.subscription)
        self.estimate = self.estimate.after(
            rate=rate,
            subscriptions=number,
            bytes_s=number * group.bytes_s_each,
            deliveries_s=number * group.deliveries_s_each,
        )


class WhatIf:
    """A federation at its busy hours, of which questions can be asked; none of them changes it."""

    def __init__(
        self,
        estimates: dict[str, BrokerEstimate],
        groups: Sequence[GroupTraffic],
        clients: Mapping[str, int],
        members: Collection[str] = (),
        full: float = FULL,
    ) -> None:
        self._estimates = estimates
        self._full = full
        self._clients = clients
        self.members = sorted(members or estimates)
        """Where subscribers go: not to a head that has none."""
        known = by_gateway(groups)
        self._groups = {
            gateway: _calibrated(known.get(gateway, []), estimate) for gateway, estimate in estimates.items()
        }
        self._indexes = {gateway: index_of(found) for gateway, found in self._groups.items()}

    @property
    def brokers(self) -> list[str]:
        """All of them, by name."""
        return sorted(self._estimates)

    def utilisation(self, broker: str) -> float:
        """Return how full a broker is at its busy hours."""
        return self._estimates[broker].utilisation

    def largest(self, broker: str) -> GroupTraffic | None:
        """Return the group with most traffic of a broker; None if none is known."""
        return max(self._groups[broker], key=lambda each: each.bytes_s, default=None)

    def fails(self, broker: str) -> Scenario:
        """Its subscribers go to the others, each portion to whoever has most room then."""
        places = self._places(without=broker)
        lost = self._estimates[broker]
        for group, number in self._portions(broker):
            self._emptiest(places).take(group, number)
        self._rest(places, lost, broker)
        return self._scenario(f"{broker} fails", f"{broker} fails, and its subscribers go to the others", places)

    def grows(self, percent: float) -> Scenario:
        """So many percent more publications everywhere, and output with them."""
        share = percent / 100
        places = self._places()
        for place in places.values():
            each = place.estimate
            place.estimate = each.after(
                rate=share * each.input_rate,
                bytes_s=share * each.output_bytes_s,
                deliveries_s=share * (each.deliveries_s or 0.0),
            )
        name = f"{percent:+g}% publications"
        return self._scenario(name, f"{percent:g}% more publications, everywhere alike", places)

    def adds(self, strength: float) -> Scenario:
        """A broker joins that is so many times as strong as the mean of the others, and load is balanced with it."""
        places = self._places()
        places[NEW] = _Place(self._newcomer(strength), CoveringIndex())
        left = {broker: self._portions(broker) for broker in self.members}
        for _ in range(STEPS_MAX):
            source = max((each for each in left if left[each]), key=lambda each: _full(places[each]), default=None)
            if source is None or _full(places[source]) - _full(places[NEW]) < BALANCE:
                break
            group, number = left[source].pop(0)
            self._leave(places[source], group, number)
            places[NEW].take(group, number)
        text = f"a broker is added that is {strength:g} times as strong as the mean of the others"
        return self._scenario(f"a broker of strength {strength:g} is added", text, places)

    def moves(self, source: str, target: str, topics: str = "#", where: str = "") -> Scenario:
        """All subscribers whose subscriptions are covered by topics and WHERE move from one broker to another."""
        wanted = Subscription.parse(topics, where)
        places = self._places()
        count = 0
        for group in self._groups[source]:
            if wanted.covers(group.subscription):
                self._leave(places[source], group, group.subscribers)
                places[target].take(group, group.subscribers)
                count += group.subscribers
        what = topics + (f" WHERE {where}" if where else "")
        text = f"{count} subscribers of {what} move from {source} to {target}"
        return self._scenario(f"{what}: {source} to {target}", text, places)

    def _places(self, without: str | None = None) -> dict[str, _Place]:
        return {
            broker: _Place(estimate, self._indexes[broker])
            for broker, estimate in self._estimates.items()
            if broker != without
        }

    def _emptiest(self, places: dict[str, _Place]) -> _Place:
        chosen = [place for broker, place in places.items() if broker in self.members]
        return min(chosen or places.values(), key=_full)

    def _portions(self, broker: str) -> list[tuple[GroupTraffic, int]]:
        found = []
        for group in self._groups[broker]:
            size = max(1, -(-group.subscribers // PORTIONS))
            whole, rest = divmod(group.subscribers, size)
            found += [(group, size)] * whole + ([(group, rest)] if rest else [])
        return found

    def _rest(self, places: dict[str, _Place], lost: BrokerEstimate, broker: str) -> None:
        """Share out what is in no group: clients of which telemetry has no traffic, and what they take.

        Not all subscriptions of a broker are its own clients': those of other gateways do not go anywhere.
        """
        groups = self._groups[broker]
        number = self._clients.get(broker, 0) - sum(group.subscribers for group in groups)
        bytes_s = max(0.0, lost.output_bytes_s - sum(group.bytes_s for group in groups))
        deliveries_s = max(0.0, (lost.deliveries_s or 0.0) - sum(group.deliveries_s for group in groups))
        for portion in range(PORTIONS if places else 0):
            count = max(0, number) // PORTIONS + (portion < max(0, number) % PORTIONS)
            place = self._emptiest(places)
            place.estimate = place.estimate.after(
                subscriptions=count, bytes_s=bytes_s / PORTIONS, deliveries_s=deliveries_s / PORTIONS
            )

    def _leave(self, place: _Place, group: GroupTraffic, number: int) -> None:
        """Take subscribers away; publications that nobody else there wants stop with the last, in proportion before."""
        covering = place.index.find_covering(group.subscription)
        alone = covering is None or covering == group.subscription
        rate = group.rate * number / group.subscribers if alone else 0.0
        place.estimate = place.estimate.after(
            rate=-rate,
            subscriptions=-number,
            bytes_s=-number * group.bytes_s_each,
            deliveries_s=-number * group.deliveries_s_each,
        )

    def _newcomer(self, strength: float) -> BrokerEstimate:
        known = [self._estimates[broker] for broker in self.members]
        count = len(known)
        # Lines over deliveries and lines over subscriptions have no mean: where some tell deliveries, theirs counts.
        telling = [each for each in known if each.deliveries_s is not None]
        lines = [each.delay for each in telling or known]
        slope_s = sum(line.slope_s for line in lines) / len(lines) / strength
        base_s = sum(line.at(0) for line in lines) / len(lines) / strength
        return BrokerEstimate(
            input_rate=0.0,
            subscriptions=0,
            delay=DelayModel(slope_s, base_s),
            output_bytes_s=0.0,
            output_bytes_s_max=strength * sum(each.output_bytes_s_max for each in known) / count,
            cpu_beside=sum(each.cpu_beside for each in known) / count / strength,
            memory_beside=sum(each.memory_beside for each in known) / count / strength,
            deliveries_s=0.0 if telling else None,
        )

    def _scenario(self, name: str, question: str, places: dict[str, _Place]) -> Scenario:
        outlooks = tuple(
            Outlook(
                broker,
                self._estimates[broker].utilisation if broker in self._estimates else None,
                _full(place),
                fullest(place.estimate),
                place.estimate.subscriptions,
            )
            for broker, place in sorted(places.items())
        )
        return Scenario(name, question, outlooks, self._full)


def _full(place: _Place) -> float:
    return place.estimate.utilisation


def _calibrated(groups: Sequence[GroupTraffic], estimate: BrokerEstimate) -> list[GroupTraffic]:
    """Return the groups with so much traffic that all together make what was measured at busy hours.

    As the load agents correct what they have sampled: output by what was sent, deliveries by what was counted.
    """
    sent, given = sum(group.bytes_s for group in groups), sum(group.deliveries_s for group in groups)
    output = correction_of(estimate.output_bytes_s, sent) if estimate.output_bytes_s > 0 else 1.0
    deliveries = correction_of(estimate.deliveries_s, given) if estimate.deliveries_s else 1.0
    return [replace(group, bytes_s_each=group.bytes_s_each * output, correction=deliveries) for group in groups]
