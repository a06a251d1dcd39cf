"""What the edges of a head hear of each other, and what they have missed (paper 000, 3.3.4).

With Adaptive PIE an edge that widens its filters begins to hear brokers that have spoken before, and may have nothing
new to say for long. Its head hears all of them, and gets its filters in any case, to route by. So the head sees what
the edge has begun to hear, and tells it, as far as it does not have it: filters that were narrow for a while often
miss nothing. Asking costs no message.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mqloom.agents.mediation import want_in
from mqloom.agents.pie import BOARD_BROKERS_MAX, ENGAGED, Pie, subject_of
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId


class Hearer:
    """One edge: its filters, and what it has heard last of whom."""

    def __init__(self) -> None:
        self.filters: tuple[Filter, ...] = ()
        self.heard: dict[GatewayId, Pie] = {}  # unheard of for longest first
        self.outdated: set[GatewayId] = set()
        """Of whom that is not what they have said last."""

    def said(self, pie: Pie) -> None:
        """Somebody has said this, which comes to it if its filters let that through."""
        held = self.heard.get(pie.broker)
        if self._wants(pie):
            self._hear(pie)
        elif held is not None and not (pie.is_still_engaged and held.state in ENGAGED):
            self.outdated.add(pie.broker)

    def missed(self, pie: Pie) -> bool:
        """Tell whether it has to be told what somebody has said last; then it is taken to be."""
        held = self.heard.get(pie.broker)
        is_known = held is not None and pie.broker not in self.outdated
        # Also if it would not come to it, but what it holds instead seems to be true by its filters.
        if is_known or not (self._wants(_bare(pie)) or (held is not None and self._wants(_bare(held)))):
            return False
        self._hear(pie)
        return True

    def _hear(self, pie: Pie) -> None:
        self.heard.pop(pie.broker, None)
        self.heard[pie.broker] = pie
        self.outdated.discard(pie.broker)
        if len(self.heard) > BOARD_BROKERS_MAX:  # as at the edge itself, it is forgotten
            forgotten = next(iter(self.heard))
            del self.heard[forgotten]
            self.outdated.discard(forgotten)

    def _wants(self, pie: Pie) -> bool:
        subject = subject_of(pie)
        return any(each.matches(subject) for each in self.filters)


def _bare(pie: Pie) -> Pie:
    """Return a PIE that is filtered by what it says alone, and not by what was said before it."""
    return replace(pie, least=None, is_still_engaged=False)


class Hearers:
    """What the edges of one head want to hear, and have heard, of each other.

    There are no more than neighbours, and each has heard of no more than the head keeps. Of an edge whose filters came
    before the head was one, nothing is known: with its next filters it is told all that these let through.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._is_edge = want_in("HEAR", cluster)
        """What all edges of our cluster want, and nobody else."""
        self._hearers: dict[GatewayId, Hearer] = {}

    def said(self, pie: Pie) -> None:
        """Somebody has said this: if it is an edge of ours, the gateways have brought it to all who want it."""
        for gateway, hearer in self._hearers.items():
            if gateway != pie.broker and pie.cluster == self._cluster:
                hearer.said(pie)

    def keep(self, neighbours: Collection[GatewayId]) -> None:
        """Forget who is none of our neighbours any more."""
        for gateway in [each for each in self._hearers if each not in neighbours]:
            del self._hearers[gateway]

    def wanted(self, gateway: GatewayId, wheres: Sequence[str], edges: Sequence[Pie], *, is_new: bool) -> list[Pie]:
        """Take other filters of a neighbour; return what it has missed, if it is one of our edges.

        `edges` are what these have said last. Who is new has heard nothing.
        """
        if self._is_edge not in wheres:
            self._hearers.pop(gateway, None)
            return []
        hearer = Hearer() if is_new else self._hearers.get(gateway, Hearer())
        self._hearers[gateway] = hearer
        hearer.filters = tuple(Filter.parse(where) for where in wheres)
        known = {pie.broker for pie in edges}
        hearer.heard = {broker: pie for broker, pie in hearer.heard.items() if broker in known}
        hearer.outdated &= known
        return [pie for pie in edges if pie.broker != gateway and hearer.missed(pie)]
