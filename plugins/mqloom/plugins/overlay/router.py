"""The way of publications: anchors to links, remembered; and how often, for the profile of links.

Publications travel on the map of real links. How they would travel on others is asked later (section 6, `worth`): an
answer counts how often it was given, and `traffic` works these counts off. So a publication costs one look into a dict.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import Explanation
from mqloom.plugins.overlay.limits import MEMO_MAX, TRAFFIC_MAX
from mqloom.plugins.overlay.master_map import MasterMap, bits
from mqloom.plugins.overlay.strategies import STRATEGIES, forward_s2
from mqloom.plugins.overlay.working_map import WorkingMap
from mqloom.plugins.overlay.worth import Traffic

NO_SIDE = -1


@dataclass(slots=True)
class Answer:
    """Where publications with these anchors go, and how many did."""

    targets: Sequence[GatewayId]
    hits: int = 0


class Router:
    """The working map of one gateway and what follows from it."""

    def __init__(self, master: MasterMap, strategy: str) -> None:
        self.working = WorkingMap(master)
        self.down = 0
        """The primary neighbours that are down, as a bit vector."""
        self.unknown = 0
        """How many anchors that are not on the map were asked for; once for each remembered answer."""
        self._strategy = strategy
        self._memo: dict[tuple[frozenset[GatewayId], int], Answer] = {}
        self._traffic: dict[int, int] = {}

    def route(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Return who gets a copy."""
        master = self.working.master
        side = NO_SIDE if source is None else self._side(source)
        key = (frozenset(anchors), side)
        answer = self._memo.get(key)
        if answer is None:
            if len(self._memo) >= MEMO_MAX:
                self._settle()
            wanted = self._downstream(key[0], side)
            answer = self._memo[key] = Answer(tuple(self._in_order(self._forward(wanted), wanted)))
            self.unknown += sum(anchor not in master.numbers for anchor in key[0])
        answer.hits += 1
        return answer.targets

    def set_map(self, master: MasterMap, soft: Iterable[GatewayId], down: Iterable[GatewayId] = ()) -> None:
        """Take another master map, soft links that are up, and neighbours that are down.

        What was counted on another map is forgotten.
        """
        self._settle()
        if master is not self.working.master:
            self._traffic.clear()
        self.working = WorkingMap(master, soft)
        self.down = master.vector(down) & master.primary

    def set_link(self, gateway: GatewayId, *, up: bool) -> None:
        """Take in a soft link that came up, or take out one that went down: a bit, and what was remembered."""
        self._settle()
        if up:
            self.working.add(gateway)
        else:
            self.working.remove(gateway)

    def set_strategy(self, strategy: str) -> None:
        """Use another strategy from now on."""
        if strategy != self._strategy:
            self._settle()
            self._strategy = strategy

    def set_down(self, down: Iterable[GatewayId]) -> None:
        """Take note of which primary neighbours are down."""
        self._settle()
        self.down = self.working.master.vector(down) & self.working.master.primary

    @property
    def strategy(self) -> str:
        """The strategy in use: S0, S1 or S2."""
        return self._strategy

    def traffic(self) -> Traffic:
        """Return how many publications wanted whom, since the last call."""
        self._settle()
        counted, self._traffic = self._traffic, {}
        return counted

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        """Say where a publication would go, and why; it is not counted."""
        master = self.working.master
        side = NO_SIDE if source is None else self._side(source)
        numbers = {anchor: master.numbers.get(anchor) for anchor in sorted(set(anchors))}
        forward = self._forward(self._downstream(frozenset(anchors), side))
        kept = {a: n for a, n in numbers.items() if n is not None and master.sides[n] != side}
        return Explanation(
            strategy=self._strategy,
            side=None if side == NO_SIDE else master.gateways[side],
            dropped=[a for a, n in numbers.items() if n is not None and a not in kept],
            unknown=[a for a, n in numbers.items() if n is None],
            copies={
                master.gateways[target]: [a for a, n in kept.items() if master.subtrees[target] >> n & 1]
                for target in bits(forward)
            },
            bypassed=master.names(forward & self.down),
        )

    # ---- path computation ----------------------------------------------------------------------------------------

    def _side(self, source: GatewayId) -> int:
        """Return the primary next hop towards a source; one that is not on the map excludes nothing."""
        number = self.working.master.numbers.get(source)
        return NO_SIDE if number is None else self.working.master.sides[number]

    def _downstream(self, anchors: frozenset[GatewayId], side: int) -> int:
        """Return the anchors, but for those where the publication came from.

        Line 2 of Figures 5 and 6, "only keep downstream anchors". An anchor that is not on the map could be on any
        side, so each primary neighbour stands for it: right, if not sparing.
        """
        master = self.working.master
        wanted = 0
        for anchor in anchors:
            number = master.numbers.get(anchor)
            if number is None:
                wanted |= master.primary & ~(1 << side) if side >= 0 else master.primary
            elif master.sides[number] != side:
                wanted |= 1 << number
        return wanted

    def _forward(self, wanted: int) -> int:
        """Return who gets a copy, by the strategy; and around a neighbour that is down.

        Such a neighbour keeps its copy, which waits for it. So that nobody else waits with it, soft links to anchors
        beyond it are used too, whatever the strategy would have left to it (section 6 leaves this to [21]).
        """
        working = self.working
        wanted = working.contract(wanted)
        forward = STRATEGIES[self._strategy](working, wanted)
        for number in bits(forward & self.down):
            forward |= forward_s2(working, wanted & working.beyond(number) & ~(1 << number))
        return forward

    def _in_order(self, forward: int, wanted: int) -> list[GatewayId]:
        """Return who gets a copy, whoever has the most to pass on first; of equals the farthest.

        Copies leave one after the other, and what waits behind a copy waits at all who are served through it.
        """
        master = self.working.master

        def first(number: int) -> tuple[int, int]:
            return -(master.subtrees[number] & wanted).bit_count(), -master.distances[number]

        return [master.gateways[number] for number in sorted(bits(forward), key=first)]

    # ---- counting ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Add up what remembered answers counted, and forget them."""
        master = self.working.master
        for (anchors, side), answer in self._memo.items():
            wanted = self._downstream(anchors, side)
            for each in bits(master.primary):
                if here := wanted & master.subtrees[each]:
                    self._traffic[here] = self._traffic.get(here, 0) + answer.hits
        self._memo.clear()
        if len(self._traffic) > TRAFFIC_MAX:
            often = sorted(self._traffic.items(), key=lambda item: -item[1])[: TRAFFIC_MAX // 2]
            self._traffic = dict(often)

    def check(self) -> None:
        """State the invariants."""
        assert self.working.links & self.working.master.primary == self.working.master.primary
        assert self.down & ~self.working.master.primary == 0
        assert len(self._memo) <= MEMO_MAX
        assert len(self._traffic) <= TRAFFIC_MAX
