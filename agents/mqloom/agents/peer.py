"""PEER: which part a broker has in the federation (paper 000, section 3.1), from its neighbours or as configured.

    neighbours   role    cluster
    none         edge    its own: there is nobody to balance with
    one          edge    the neighbour's
    more         head    its own; its edges are the neighbours that have no other

    edge --- head --- head --- edge
    edge ---'            `---- edge

Edges of one cluster balance with each other, and clusters with clusters by their heads. Nobody knows how many
neighbours its neighbour has. So of two brokers joined only to each other both are edges, each of the other's cluster:
they find each other because an edge counts whoever calls it its head as one of its own cluster too.

Subscribers should be at edges, and publishers at heads: only edges give load away and take it. That is recommended
and not enforced; subscribers at a head stay there. Where the tree is not of this shape, say `cluster` and `role` in the
settings: brokers of the same `cluster` and of the role edge balance with each other, wherever they are. More levels
come of themselves: a head whose neighbours are all heads has no edges, takes no part in sessions, and hands global PIE
on to its neighbours (3.3.2), so that the clusters around it see each other.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal

from mqloom.agents.pie import RELAYS_MAX, Pie
from mqloom.agents.settings import BalanceSettings
from mqloom.core.ids import GatewayId

Role = Literal["edge", "head"]

LOCAL_HOPS: Final = 2
"""Links that local PIE crosses: edge, head, edge."""

GLOBAL_HOPS: Final = 1
"""Links that global PIE crosses (3.3.2: a time to live of 1): head, head."""

CONFIGURED_HOPS: Final = 8
"""Links that local PIE crosses in a cluster that was configured: its brokers may be anywhere. It only goes where it is
asked for, but brokers of a cluster that are further apart do not see each other."""

GRACE_PERIODS: Final = 2
"""A head takes itself for one without edges when none has said anything for so many periods of local PIE."""


class Peer:
    """The part of one broker; recomputed when its neighbours change."""

    def __init__(self, gateway: GatewayId, neighbours: Collection[GatewayId], settings: BalanceSettings) -> None:
        self.gateway = gateway
        self._settings = settings
        self._grace_s = GRACE_PERIODS * settings.local_pie_s
        self._silent_since: float | None = None
        self.neighbours: tuple[GatewayId, ...] = ()
        self.role: Role = "edge"
        self.cluster = ""
        self.change(neighbours)

    def change(self, neighbours: Collection[GatewayId]) -> bool:
        """Take other neighbours; tell whether role or cluster have changed."""
        before = (self.role, self.cluster)
        self.neighbours = tuple(sorted(set(neighbours) - {self.gateway}))
        self.role = self._settings.role or ("head" if len(self.neighbours) > 1 else "edge")
        by_topology = self.neighbours[0] if len(self.neighbours) == 1 and self.role == "edge" else self.gateway
        self.cluster = self._settings.cluster or by_topology
        if (self.role, self.cluster) != before:
            self._silent_since = None
        return (self.role, self.cluster) != before

    @property
    def is_configured(self) -> bool:
        """Whether an operator has said to which cluster it belongs."""
        return bool(self._settings.cluster)

    @property
    def head(self) -> GatewayId | None:
        """Whom to ask for balancing with other clusters, if that can be told without asking around.

        In a configured cluster the head is whoever has the role; requests go to all of the cluster, and only it counts
        them.
        """
        if self.role == "head":
            return self.gateway
        return self.neighbours[0] if len(self.neighbours) == 1 and not self.is_configured else None

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters whose edges count as those of our own; two for an edge, since its neighbour may be one too."""
        if self.role == "head" or self.is_configured or self.cluster == self.gateway:
            return (self.cluster,)
        return (self.cluster, self.gateway)

    @property
    def local_hops(self) -> int:
        """How many links local PIE, and what else is for our own cluster, must cross."""
        return CONFIGURED_HOPS if self.is_configured else LOCAL_HOPS

    @property
    def session_hops(self) -> int:
        """How many links local PIE must cross in a session between clusters: to the other head, and to its edges.

        Relays make the way between two heads longer, by at most as many links as there can be relays. It only goes
        where it is asked for.
        """
        return 2 * self.local_hops - 1 + RELAYS_MAX

    def edges(self, pies: Sequence[Pie]) -> list[Pie]:
        """Return what the edges of our own cluster say, out of all local PIE.

        By the topology these are neighbours: who is none any more has left, whatever it said last.
        """
        return [
            pie
            for pie in pies
            if pie.cluster in self.clusters
            and pie.broker != self.gateway
            and (self.is_configured or pie.broker in self.neighbours)
        ]

    def relays(self, edges: Sequence[Pie], now: float) -> bool:
        """Tell whether global PIE of others is to be handed on: by heads without edges, and only by them (3.3.2).

        Who has just begun has not heard its edges yet, and waits.
        """
        if self.role != "head" or edges:
            self._silent_since = None
            return False
        if self._silent_since is None:
            self._silent_since = now
        return now - self._silent_since >= self._grace_s
