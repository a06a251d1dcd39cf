"""Which control publications agents want, and over which links these are found: a small routing table of its own.

Theory of operation. What an agent wants (`WantControls`) is told hop by hop, in order with everything else on a link,
as far as it reaches. Each gateway remembers of each agent what it wants by its newest epoch and number, and from which
neighbours it has heard that, at what distance; the nearest counts, the others stand by. Whoever has another nearest, or
another want, tells the neighbours on the other sides; whoever has none left tells them so. A link that opens is told
everything, and what came over a link that closes, or whose neighbour begins anew, is forgotten: so what a gateway that
is gone wanted is withdrawn from neighbour to neighbour, and nothing must be renewed or run out.

Covering: a filter of somebody behind us is not told to the other sides if our own agent of the same name wants at least
as much, from as far: what it asks for comes to us in any case, and we know where to pass it on. So what the edges of a
cluster ask for changes between them and their head only, since heads ask for all of it. When ours asks for less, the
others' filters are told before that. A neighbour from which we have heard of the same agent may be on a cycle with us,
where what one side leaves out would be missed on the other: it is told everything.

Should primary links form a cycle, a want goes round no further than its hops, and neither does a control publication.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mqloom.core.errors import FilterError
from mqloom.core.filter import Filter
from mqloom.core.ids import GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, CONTROL_WANTS_MAX
from mqloom.core.messages import Control, Want
from mqloom.gateway.agent_interfaces import Subject, WantControls
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.journal import Journal
from mqloom.gateway.outbox import Outbox

Version = tuple[int, int]
Told = tuple[Version | None, tuple[str, ...], int, int]
"""What a neighbour knows from us: which version, where that matters to it; filters, distance, and from how far."""


@dataclass(slots=True)
class Wanted:
    """What one agent wants, and who has told us."""

    version: Version
    wheres: tuple[str, ...]
    filters: tuple[Filter, ...]
    hops_max: int
    offers: dict[GatewayId | None, int] = field(default_factory=dict)
    """By whom we know, at what distance the agent is; None: it is ours."""
    told: dict[GatewayId, Told] = field(default_factory=dict)
    """Neighbours who know it from us."""

    def nearest(self) -> GatewayId | None:
        """Return through whom the agent is reached."""
        return min(self.offers, key=self.offers.__getitem__)

    def matches(self, subject: Mapping[str, object]) -> bool:
        """Whether a control publication about this is wanted."""
        return any(each.matches(subject) for each in self.filters)

    def add(self, wheres: tuple[str, ...], filters: tuple[Filter, ...]) -> None:
        """Take in filters of the same version that another had covered until now."""
        new = [place for place, where in enumerate(wheres) if where not in self.wheres]
        self.wheres += tuple(wheres[place] for place in new)
        self.filters += tuple(filters[place] for place in new)

    def not_covered(self, own: "Wanted", distance: int) -> tuple[str, ...]:
        """Return the filters that our own agent's do not cover, if this agent is at a distance behind us."""
        if own.hops_max < self.hops_max - distance:
            return self.wheres
        return tuple(
            where
            for where, each in zip(self.wheres, self.filters, strict=True)
            if not any(ours.covers(each) for ours in own.filters)
        )


class ControlWants:
    """What the agents of all gateways in reach want, as one gateway knows it."""

    def __init__(
        self, gateway: GatewayId, epoch: int, overlay: GuardedOverlay, outbox: Outbox, journal: Journal
    ) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._overlay = overlay
        self._outbox = outbox
        self._journal = journal
        self._wanted: dict[str, dict[GatewayId, Wanted]] = {}  # by agent, then by gateway
        self._open: dict[GatewayId, None] = {}
        self._number = 0
        self._size = 0

    # ---- what is wanted ------------------------------------------------------------------------------------------

    def want(self, agent: str, effect: WantControls) -> None:
        """An agent of ours wants this from now on; its filters must have been checked."""
        wheres = tuple(effect.wheres) if effect.hops > 0 else ()
        hops_max = min(effect.hops, CONTROL_HOPS_MAX)
        before = self._wanted.get(agent, {}).get(self._gateway)
        if before is not None and (before.wheres, before.hops_max) == (wheres, hops_max):
            return
        if before is None and not wheres:
            return
        self._number += 1
        filters = tuple(Filter.parse(where) for where in wheres)
        wanted = Wanted((self._epoch, self._number), wheres, filters, hops_max, {None: 0} if wheres else {})
        self._put(agent, self._gateway, wanted)

    def of_neighbours(self, agent: str) -> dict[GatewayId, tuple[str, ...]]:
        """Return what the agents of this name at our neighbours want, as these themselves have told us."""
        known = self._wanted.get(agent, {})
        return {gateway: each.wheres for gateway, each in known.items() if gateway in each.offers and each.wheres}

    def receive(self, want: Want, sender: GatewayId) -> None:
        """A neighbour tells what an agent behind it wants, or that there is none any more."""
        self._journal.counters.add("wants_received")
        if want.origin == self._gateway:
            return  # it has come round
        wanted = self._wanted.get(want.agent, {}).get(want.origin)
        version = (want.epoch, want.number)
        if wanted is not None and version < wanted.version:
            wanted.offers.pop(sender, None)  # it knows no better
        elif wanted is not None and version == wanted.version and wanted.wheres:
            again = self._read(want, sender, is_new=False)
            if again is not None and again.wheres:
                wanted.offers[sender] = want.hops + 1
                wanted.add(again.wheres, again.filters)
            else:
                wanted.offers.pop(sender, None)
        else:
            wanted = self._read(want, sender, is_new=wanted is None)
        if wanted is not None:
            self._put(want.agent, want.origin, wanted)

    def _read(self, want: Want, sender: GatewayId, *, is_new: bool) -> Wanted | None:
        """Return what a neighbour says is wanted now; None if it is refused, or nothing."""
        version = (want.epoch, want.number)
        if not want.wheres:
            return None if is_new else Wanted(version, (), (), 0)
        text = f"{sender} told what agent {want.agent!r:.100} of {want.origin!r:.100} wants"
        if want.hops >= want.hops_max:
            self._journal.refuse("wants_refused", "hops", f"{text}, from further away than it does")
            return None
        if is_new and self._size >= CONTROL_WANTS_MAX:
            self._journal.refuse("wants_refused", "many", f"{text}: more than {CONTROL_WANTS_MAX} do")
            return None
        try:
            filters = tuple(Filter.parse(where) for where in want.wheres)
        except FilterError as error:
            self._journal.refuse("wants_refused", "filter", f"{text}: {error}")
            return None
        return Wanted(version, want.wheres, filters, want.hops_max, {sender: want.hops + 1})

    # ---- links ---------------------------------------------------------------------------------------------------

    def open_link(self, neighbour: GatewayId) -> None:
        """A neighbour listens, and knows nothing."""
        self._open[neighbour] = None
        for agent, origin, wanted in list(self._all()):
            wanted.told.pop(neighbour, None)
            self._tell(agent, origin, wanted)

    def close_link(self, neighbour: GatewayId) -> None:
        """A neighbour does not listen any more, and what it has said does not count."""
        self._open.pop(neighbour, None)
        for _, _, wanted in self._all():
            wanted.told.pop(neighbour, None)
        self.doubt(neighbour)

    def doubt(self, neighbour: GatewayId) -> None:
        """A neighbour begins anew: what it has said does not count."""
        for agent, origin, wanted in list(self._all()):
            if wanted.offers.pop(neighbour, None) is not None:
                self._put(agent, origin, wanted)

    # ---- questions -----------------------------------------------------------------------------------------------

    def wheres_of(self, agent: str, gateway: GatewayId) -> tuple[str, ...]:
        """Return what an agent of a gateway wants, as far as we know; empty: nothing."""
        wanted = self._wanted.get(agent, {}).get(gateway)
        return wanted.wheres if wanted is not None else ()

    def is_wanted_here(self, agent: str, subject: Subject, hops: int) -> bool:
        """Whether our agent of this name wants a control publication that has crossed so many links."""
        wanted = self._wanted.get(agent, {}).get(self._gateway)
        return wanted is not None and hops <= wanted.hops_max and wanted.matches(subject)

    def targets(self, control: Control, source: GatewayId | None) -> list[GatewayId]:
        """Return the neighbours behind which a control publication is wanted, as far as it goes."""
        sides: set[GatewayId | None] = set()
        for wanted in self._wanted.get(control.agent, {}).values():
            side = wanted.nearest()
            distance = wanted.offers[side]
            if side in sides or distance > control.hops_left or control.hops + distance > wanted.hops_max:
                continue
            if wanted.matches(control.subject):
                sides.add(side)
        return [each for each in self._overlay.spread(source) if each in sides] if sides else []

    def __len__(self) -> int:
        """Return of how many agents it is known what they want, ours among them."""
        return self._size

    def check(self) -> None:
        """State the invariants."""
        assert self._size == sum(map(len, self._wanted.values())) <= CONTROL_WANTS_MAX + len(self._wanted)
        for agent, origin, wanted in self._all():
            assert wanted.wheres, (agent, origin)
            assert wanted.offers, (agent, origin)
            assert (None in wanted.offers) == (origin == self._gateway)
            assert wanted.told.keys() <= self._open.keys()
            assert wanted.nearest() not in wanted.told

    # ---- telling -------------------------------------------------------------------------------------------------

    def _all(self) -> Iterator[tuple[str, GatewayId, Wanted]]:
        for agent, by_gateway in self._wanted.items():
            for origin, wanted in by_gateway.items():
                yield agent, origin, wanted

    def _put(self, agent: str, origin: GatewayId, wanted: Wanted) -> None:
        """Have this wanted, or nothing if nobody offers it, and tell those who know otherwise."""
        by_gateway = self._wanted.setdefault(agent, {})
        before = by_gateway.get(origin)
        if before is not None:
            wanted.told = before.told
        self._size += bool(wanted.offers) - (before is not None)
        if wanted.offers:
            by_gateway[origin] = wanted
        else:
            by_gateway.pop(origin, None)
            if not by_gateway:
                del self._wanted[agent]
        if origin == self._gateway:  # what ours covers no longer is told before ours is less
            for other, theirs in by_gateway.items():
                if other != origin:
                    self._tell(agent, other, theirs)
        self._tell(agent, origin, wanted)

    def _tell(self, agent: str, origin: GatewayId, wanted: Wanted) -> None:
        tell: dict[GatewayId, Told] = {}
        if wanted.offers:
            side = wanted.nearest()
            distance = wanted.offers[side]
            if distance < wanted.hops_max:
                targets = [each for each in self._overlay.spread_wishes(side) if each in self._open and each != side]
                tell = self._worth_telling(agent, origin, wanted, targets, distance)
        for neighbour in [each for each in wanted.told if each not in tell]:
            del wanted.told[neighbour]
            self._journal.counters.add("wants_withdrawn")
            self._outbox.post(neighbour, [Want(origin, *wanted.version, agent, ())])
        for neighbour, told in tell.items():
            if wanted.told.get(neighbour) == told:
                continue
            wanted.told[neighbour] = told
            _, wheres, distance, hops_max = told
            self._journal.counters.add("wants_sent")
            self._outbox.post(neighbour, [Want(origin, *wanted.version, agent, wheres, distance, hops_max)])

    def _worth_telling(
        self, agent: str, origin: GatewayId, wanted: Wanted, neighbours: list[GatewayId], distance: int
    ) -> dict[GatewayId, Told]:
        """Return what each of these neighbours must know: what our own agent wants covers what others do."""
        own = self._wanted.get(agent, {}).get(self._gateway) if origin != self._gateway else None
        needed = wanted.wheres if own is None else wanted.not_covered(own, distance)
        told: dict[GatewayId, Told] = {}
        for neighbour in neighbours:
            if neighbour in wanted.offers:
                told[neighbour] = (wanted.version, wanted.wheres, distance, wanted.hops_max)
            elif needed:
                told[neighbour] = (None, needed, distance, wanted.hops_max)
        return told
