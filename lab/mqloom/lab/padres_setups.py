"""The brokers and clients of paper 000, Tables IV to VI, and what the paper leaves open about them.

Its simulation models the matching delay and the memory as linear functions whose constants are not printed (6.1). Here,
for everything that is compared:

- A publication takes 0.1 ms and 5 microseconds for each subscription of the broker, at 1,000 MHz; at 100 MHz ten times
  that. In the columns of the cluster testbed it takes 0.1 ms and 2.5 microseconds for each, times the delay factor, so
  that input is no bottleneck, as the paper says of it.
- A publication is 300 bytes on a line in the simulation. On the cluster testbed, where they were serialised Java
  objects over RMI, 3,500: with that, and with 300 in the simulation, the publications of all subscribers take about 65%
  of the bandwidth of all edges after the rates have grown ("the greatest number [...] without overloading the entire
  system", 6.3).
- A subscription takes 10 KB of memory, and what waits in queues its bytes. A broker without memory is overloaded, but
  loses nothing.
- The heads of Table VI are as B0 of Table IV. The brokers of the homogeneous cluster have the delay factor 1 and share
  the bandwidth of the heterogeneous one evenly: the paper has only their publishers and subscribers.
- Links take no time for publications, as in the paper's simulation, and 5 ms for what agents say and for
  subscriptions.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from mqloom.core.ids import GatewayId

MEGABYTE: Final = 1_000_000
MEGABIT_BYTES: Final = 125_000

MEMORY_EACH: Final = 10_000
"""Bytes that one subscription takes in the matching engine."""


class DelayLaw(NamedTuple):
    """What a publication takes a broker of speed 1 with `n` subscriptions: base + slope n + bend n^2, in seconds."""

    base_s: float
    slope_s: float
    bend_s: float = 0.0

    def at(self, subscriptions: int, speed: float) -> float:
        """Return the matching delay of a broker; nothing at all if its speed is 0."""
        delay = self.base_s + (self.slope_s + self.bend_s * subscriptions) * subscriptions
        return delay / speed if speed else 0.0


SIMULATION_LAW: Final = DelayLaw(base_s=0.1, slope_s=0.005)
"""The speed of a broker is in MHz."""

BENT_LAW: Final = DelayLaw(base_s=0.1, slope_s=0.0025, bend_s=0.0000025)
"""As long with 1,000 subscriptions, but no line."""

CLUSTER_LAW: Final = DelayLaw(base_s=0.0001, slope_s=0.0000025)
"""The speed of a broker is one over its delay factor."""


class BrokerSetup(NamedTuple):
    """What a broker has."""

    speed: float
    memory_bytes: float
    bytes_s: float

    @classmethod
    def of(cls, speed: float, megabytes: float, megabits_s: float) -> "BrokerSetup":
        """Return a broker in the units of the tables."""
        return cls(speed, megabytes * MEGABYTE, megabits_s * MEGABIT_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Brokers, links and clients of one experiment."""

    name: str
    brokers: dict[GatewayId, BrokerSetup]
    clusters: dict[GatewayId, tuple[GatewayId, ...]]
    """The edges of each head; heads make a chain in this order, and all publishers are at the first."""
    publishers: int
    subscribers: int
    zero_share: float
    """The share of subscribers that want what nobody publishes."""
    join_s: float
    change_at: float | None
    """When half of the publishers double their rate."""
    length_s: float
    message_bytes: int
    law: DelayLaw
    join_at: GatewayId
    """The edge where everybody joins."""
    per_min: float = 30.0
    """Publications of each publisher."""
    is_poisson: bool = False
    draws: str = ""
    """Setups with the same have the same publications and subscribers for a seed; empty: its name."""
    link_s: float = field(default=0.005)

    @property
    def heads(self) -> tuple[GatewayId, ...]:
        """The heads, in the order of the chain."""
        return tuple(self.clusters)

    @property
    def edges(self) -> tuple[GatewayId, ...]:
        """All edges, in order."""
        return tuple(edge for edges in self.clusters.values() for edge in edges)

    @property
    def links(self) -> tuple[tuple[GatewayId, GatewayId], ...]:
        """All links, those between heads first."""
        chain = tuple(pairwise(self.heads))
        return chain + tuple((head, edge) for head, edges in self.clusters.items() for edge in edges)


def _named(table: dict[str, BrokerSetup]) -> dict[GatewayId, BrokerSetup]:
    return {GatewayId(name): broker for name, broker in table.items()}


B0: Final = GatewayId("B0")

SIMULATED: Final = _named(
    {
        "B0": BrokerSetup.of(2_000, 32, 10),
        "B1": BrokerSetup.of(100, 16, 0.5),
        "B2": BrokerSetup.of(200, 16, 1),
        "B3": BrokerSetup.of(400, 32, 2),
        "B4": BrokerSetup.of(1_000, 32, 5),
    }
)
"""Table IV, simulation."""

MIXED: Final = _named(
    {
        "B0": BrokerSetup.of(0, 2_000, 100),
        "B1": BrokerSetup.of(1, 256, 12),
        "B2": BrokerSetup.of(1 / 1.5, 256, 9),
        "B3": BrokerSetup.of(1 / 2.5, 256, 6),
        "B4": BrokerSetup.of(1 / 10, 256, 0.85),
    }
)
"""Table IV, heterogeneous cluster."""

ALIKE: Final = _named(
    {
        "B0": BrokerSetup.of(0, 2_000, 100),
        **{f"B{number}": BrokerSetup.of(1, 256, (12 + 9 + 6 + 0.85) / 4) for number in range(1, 5)},
    }
)

CHAINED: Final = _named(
    {
        **{f"B{number}0": BrokerSetup.of(2_000, 32, 10) for number in range(1, 5)},
        "B11": BrokerSetup.of(300, 128, 1),
        "B12": BrokerSetup.of(200, 128, 0.5),
        "B21": BrokerSetup.of(350, 64, 1),
        "B22": BrokerSetup.of(400, 64, 1.5),
        "B31": BrokerSetup.of(266, 64, 1),
        "B32": BrokerSetup.of(700, 64, 2),
        "B41": BrokerSetup.of(166, 64, 0.5),
        "B42": BrokerSetup.of(233, 128, 0.5),
    }
)
"""Table VI, simulation."""

STAR: Final = {B0: tuple(GatewayId(f"B{number}") for number in range(1, 5))}

SIMULATION: Final = Setup(
    name="simulation",
    brokers=SIMULATED,
    clusters=STAR,
    publishers=40,
    subscribers=2_000,
    zero_share=0.25,
    join_s=1_010.0,
    change_at=3_000.0,
    length_s=6_000.0,
    message_bytes=300,
    law=SIMULATION_LAW,
    join_at=GatewayId("B1"),
)

HETEROGENEOUS: Final = Setup(
    name="heterogeneous",
    brokers=MIXED,
    clusters=STAR,
    publishers=60,
    subscribers=600,
    zero_share=0.5,
    join_s=600.0,
    change_at=1_500.0,
    length_s=4_500.0,
    message_bytes=3_500,
    law=CLUSTER_LAW,
    join_at=GatewayId("B1"),
)

HOMOGENEOUS: Final = Setup(
    name="homogeneous",
    brokers=ALIKE,
    clusters=STAR,
    publishers=60,
    subscribers=600,
    zero_share=0.5,
    join_s=600.0,
    change_at=1_500.0,
    length_s=4_500.0,
    message_bytes=3_500,
    law=CLUSTER_LAW,
    join_at=GatewayId("B1"),
)

CHAIN: Final = Setup(
    name="chain",
    brokers=CHAINED,
    clusters={GatewayId(f"B{number}0"): (GatewayId(f"B{number}1"), GatewayId(f"B{number}2")) for number in range(1, 5)},
    publishers=40,
    subscribers=2_000,
    zero_share=0.25,
    join_s=1_010.0,
    change_at=8_000.0,
    length_s=14_000.0,
    message_bytes=300,
    law=SIMULATION_LAW,
    join_at=GatewayId("B11"),
)
