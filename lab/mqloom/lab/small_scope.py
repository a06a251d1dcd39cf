"""How small a small world is: its gateways, clients and publications, and which faults may happen how often."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.topics import topic_matches

LinkName = tuple[GatewayId, GatewayId]


@dataclass(frozen=True, slots=True)
class SmallPublication:
    """Somebody publishes at a gateway's broker, QoS 1."""

    gateway: GatewayId
    topic: str
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SmallSubscriber:
    """A client at a gateway's broker with one subscription, established before anything happens."""

    gateway: GatewayId
    name: str
    topics: str
    where: str = ""

    def wants(self, publication: SmallPublication) -> bool:
        """Whether it is to be given a publication."""
        return topic_matches(self.topics, publication.topic) and Filter.parse(self.where).matches(
            publication.attributes
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What is in a small world, and what may happen to it. A cut breaks the given directions of links at once."""

    name: str
    gateways: tuple[GatewayId, ...]
    links: tuple[LinkName, ...]
    subscribers: tuple[SmallSubscriber, ...]
    publications: tuple[SmallPublication, ...]
    crashes: int = 0
    may_crash: tuple[GatewayId, ...] = ()
    cuts: int = 0
    may_cut: tuple[tuple[LinkName, ...], ...] = ()
    delays: int | None = None
    """How often a queue may be slow in one run; None: always, so that every order is tried."""
    hastes: int = 0
    """How often in one run time may pass although something waits to be read."""


def payload_of(publication: SmallPublication) -> bytes:
    """Return the bytes that are published."""
    return json.dumps(publication.attributes).encode()
