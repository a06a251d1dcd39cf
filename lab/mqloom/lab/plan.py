"""A run before it happens: who is there, who publishes what and when, what goes wrong. Plain data, drawn or written.

Everything random in a run is drawn from the plan's seed and a name, so that leaving out one part changes no other.
"""

import random
from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class SubscriberPlan(Struct, frozen=True, kw_only=True):
    """A subscriber: its wishes by name, each a topic filter and a WHERE; it may leave before the end."""

    name: str
    gateway: str
    wishes: dict[str, tuple[str, str]]
    starts_at: float = 1.0
    closes_at: float | None = None
    travels: bool = False
    """Whether it obeys orders to move, and comes back if it is killed."""


class PublicationPlan(Struct, frozen=True, kw_only=True):
    """One publication, by the publisher of this name; `number` tells it from all others."""

    at: float
    publisher: str
    number: int
    topic: str
    attributes: dict[str, object]
    qos: int = 1


class FaultPlan(Struct, frozen=True, kw_only=True):
    """Something that goes wrong at a time, and is mended `lasts_s` later; `target` is whom it befalls."""

    kind: str
    at: float
    lasts_s: float
    target: tuple[str, ...]


class MovePlan(Struct, frozen=True, kw_only=True):
    """At a time, a gateway is ordered to have another one for its neighbour instead of the one before it."""

    at: float
    gateway: str
    to: str


class MigrationPlan(Struct, frozen=True, kw_only=True):
    """At a time, a subscriber that travels is ordered to another gateway's broker."""

    at: float
    subscriber: str
    to: str


class JoinPlan(Struct, frozen=True, kw_only=True):
    """At a time, a gateway with one link comes into the configuration, and starts; its neighbour is started anew."""

    at: float
    gateway: str


class ControlsPlan(Struct, frozen=True, kw_only=True):
    """The shares of control publications to load agents that are lost, come twice, and come late, beside all faults."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0


class Plan(Struct, frozen=True, kw_only=True):
    """A whole run."""

    seed: int
    topology: str = "own"
    gateways: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    publishers: dict[str, str]
    subscribers: tuple[SubscriberPlan, ...]
    publications: tuple[PublicationPlan, ...] = ()
    faults: tuple[FaultPlan, ...] = ()
    length_s: float = 60.0
    window: int = 20
    queue_max: int = 0
    link_latency_s: float = 0.01
    everybody_leaves: bool = False
    is_restless: bool = False
    """Whether soft links are opened and closed all the time."""
    moves: tuple[MovePlan, ...] = ()
    """With these, all overlays keep maps."""
    migrations: tuple[MigrationPlan, ...] = ()
    is_balanced: bool = False
    """Whether every gateway has a load agent, which moves clients that travel."""
    controls: ControlsPlan = ControlsPlan()
    """What becomes of what load agents tell each other, if there are any."""
    joins: tuple[JoinPlan, ...] = ()
    """Gateways that are not there from the beginning; all others are."""

    def randomness(self, name: str) -> random.Random:
        """Return what decides whatever has this name; the same whenever it is asked for."""
        return random.Random(f"{self.seed} {name}")  # noqa: S311 - a simulation, not a secret

    @property
    def neighbours(self) -> Mapping[str, list[str]]:
        """Whom each gateway is linked to, in the order of the links."""
        found: dict[str, list[str]] = {gateway: [] for gateway in self.gateways}
        for one, other in self.links:
            found[one].append(other)
            found[other].append(one)
        return found


TOPOLOGIES: Final = ("tree", "star", "chain")


def links_of(topology: str, gateways: tuple[str, ...], randomness: random.Random) -> tuple[tuple[str, str], ...]:
    """Return the links of a topology by its name: a random tree, a star around the first, a chain."""
    links: list[tuple[str, str]] = []
    for index in range(1, len(gateways)):
        earlier = {"tree": randomness.randrange(index), "star": 0, "chain": index - 1}[topology]
        links.append((gateways[earlier], gateways[index]))
    return tuple(links)
