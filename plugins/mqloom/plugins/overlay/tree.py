"""The overlay of one gateway: a tree of primary links, and soft links across it (paper 001, sections 2 to 6).

`handle` is the only way in for what changes; `route`, `spread` and the anchors only answer. The parts: `neighbourhood`
(the map), `router` (publications), `weaving` (soft links), `loads` (how the others fare).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

from mqloom.core.ids import GatewayId
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CountOverlay,
    Explanation,
    LinkReport,
    LinkStood,
    MoveNear,
    MoveOver,
    NeighboursChanged,
    NeighbourTold,
    OverlayEffect,
    OverlayEvent,
    OverlayStarted,
    OverlayWoke,
    TellNeighbour,
    WakeOverlayAt,
)
from mqloom.plugins.overlay.bodies import Report, View, decode, encode
from mqloom.plugins.overlay.limits import MEASURE_S, SMOOTHING, UTILISATION_MAX
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap, Tree
from mqloom.plugins.overlay.neighbourhood import Neighbourhood
from mqloom.plugins.overlay.router import Router
from mqloom.plugins.overlay.settings import read_settings
from mqloom.plugins.overlay.weaving import Weaving

NOTHING: Mapping[str, object] = {}


class TreeOverlay:
    """The links of one gateway in a network whose primary links have no cycle.

    Raises ValueError for settings that are wrong. With S0, the default, it says nothing and asks for nothing.
    """

    def __init__(
        self, gateway: GatewayId, neighbours: Sequence[GatewayId], settings: Mapping[str, object] = NOTHING
    ) -> None:
        assert gateway not in neighbours
        self.settings = read_settings(settings)
        self._neighbours = tuple(neighbours)
        self._others = _others(self._neighbours)
        self._delta = self.settings.sight
        self._neighbourhood = Neighbourhood(gateway, self._neighbours, self._delta)
        self._loads = Loads(self.settings.uplink_per_s)
        self._weaving = Weaving(
            fanout=self.settings.fanout,
            max_links=self.settings.max_links,
            period_s=self.settings.weave_s,
            loads=self._loads,
        )
        strategy = "S2" if self.settings.strategy == "SH" else self.settings.strategy
        self._router = Router(self._map, strategy)
        self._up: set[GatewayId] = set()
        self._down: set[GatewayId] = set()
        """Neighbours that were there, and are not."""
        self._path: frozenset[GatewayId] = frozenset()
        """Of a move near us: no soft link may touch it."""
        self._told: dict[GatewayId, tuple[int, Tree]] = {}
        """The number of the view that each neighbour was told last, and the tree in it."""
        self._views_told = 0
        self._weave_at = self._measure_at = 0.0
        self._measured = (0.0, 0)
        """When SH last measured, and how many copies had gone out."""
        self._woven = (0.0, 0)
        """Likewise at the end of the last period."""
        self._sent_per_s = 0.0

    # ---- answers -------------------------------------------------------------------------------------------------

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Everybody but the source: subscriptions travel on primary links only (section 4)."""
        return self._others[source]

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        """The anchor itself if it is on the map behind that neighbour, else the neighbour: right, if near-sighted."""
        number = self._map.numbers.get(anchor)
        if number is None or self._map.gateways[self._map.sides[number]] != neighbour:
            return neighbour
        return anchor

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        """Section 4: unchanged within delta - 1 of us, else the gateway one hop nearer; our own client's is us."""
        number = None if anchor is None else self._map.numbers.get(anchor)
        if number is None:
            return self._map.us
        if self._map.distances[number] < self._delta:
            return self._map.gateways[number]
        parent = self._map.parents[number]
        return self._map.us if parent < 0 else self._map.gateways[parent]

    def route(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Sequence[GatewayId]:
        """Who gets a copy: the strategy's choice among primary and open soft links."""
        return self._router.route(anchors, source)

    @property
    def reach(self) -> int:
        """Soft links span delta hops; without a map nothing can be moved."""
        return self._delta if self._delta > 1 else 0

    def way_to(self, gateway: GatewayId) -> Sequence[GatewayId]:
        """The primary way to a gateway on the map, with itself."""
        number = self._map.numbers.get(gateway)
        return () if number is None else self._map.names(self._map.ways[number])

    def knows(self, gateway: GatewayId) -> bool:
        """Whether a gateway is on the map."""
        return gateway in self._map.numbers

    @property
    def strategy(self) -> str:
        """The strategy that the settings name; which one SH uses at the moment, `explain` says."""
        return self.settings.strategy

    def explain(self, anchors: Collection[GatewayId], source: GatewayId | None) -> Explanation:
        """Say where a publication would go, and why."""
        return self._router.explain(anchors, source)

    def links(self) -> list[LinkReport]:
        """Return all links, primary, soft and candidate, with what they were worth in the last period."""
        return self._weaving.describe(self._map, self._router.down)

    @property
    def _map(self) -> MasterMap:
        return self._neighbourhood.map

    # ---- events --------------------------------------------------------------------------------------------------

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Take an event, return what is to be done."""
        if isinstance(event, NeighboursChanged):
            return self._change_neighbours(event.neighbours, now)
        if self._delta == 1:
            return ()  # nothing to tell, nobody to link to
        match event:
            case OverlayStarted():
                return self._start(now)
            case NeighbourTold():
                return self._hear(event.neighbour, event.body, now)
            case LinkStood():
                return self._stand(event.gateway, up=event.up, now=now)
            case OverlayWoke():
                return self._wake(event.sent, now)
            case MoveNear():
                return self._keep_off(event.path, now)
            case MoveOver():
                return self._keep_off((), now)
            case _:
                assert_never(event)

    def _start(self, now: float) -> list[OverlayEffect]:
        self._weave_at, self._measure_at = now + self.settings.weave_s, now + MEASURE_S
        self._measured = self._woven = (now, 0)
        return [self._next_wake()]

    def _hear(self, neighbour: GatewayId, body: bytes, now: float) -> list[OverlayEffect]:
        if neighbour not in self._others:
            return self._ignore("stranger")
        try:
            told = decode(body)
            if isinstance(told, Report):
                return self._hear_report(neighbour, told, now)
            before = self._map
            fits = self._neighbourhood.take(neighbour, told)
        except ValueError:
            return self._ignore("malformed")
        if not fits:
            return self._ignore("contradicted")
        # Even with the same map, there may be somebody now who may be passed on.
        return [*self._remap(before, now), *self._tell_all()]

    def _hear_report(self, neighbour: GatewayId, report: Report, now: float) -> list[OverlayEffect]:
        known = self._neighbourhood.number_of(neighbour) == report.view
        members = self._neighbourhood.members(neighbour) if known else None
        return [] if self._loads.take(neighbour, report, members, now) else self._ignore("report")

    def _change_neighbours(self, neighbours: Sequence[GatewayId], now: float) -> list[OverlayEffect]:
        """A primary link was moved (section 6): other neighbours, and what they tell."""
        before = self._map
        self._neighbours = tuple(neighbours)
        self._others = _others(self._neighbours)
        self._neighbourhood.set_neighbours(self._neighbours)
        self._up &= set(neighbours)
        self._down &= set(neighbours)
        self._told = {target: told for target, told in self._told.items() if target in self._others}
        return [*self._remap(before, now), *self._tell_all()]

    def _keep_off(self, path: Sequence[GatewayId], now: float) -> list[OverlayEffect]:
        """Have no soft links that touch a path (section 6: those that bypass the gateway that moves)."""
        self._path = frozenset(path)
        woven = self._weaving.keep_off(self._touching(), now)
        self._rewire()
        return [*woven]

    def _touching(self) -> list[GatewayId]:
        """Return the gateways to which a link would touch the path."""
        if self._map.us in self._path:
            return list(self._map.gateways)
        path = self._map.vector(self._path)
        return [each for number, each in enumerate(self._map.gateways) if self._map.ways[number] & path]

    def _ignore(self, reason: str) -> list[OverlayEffect]:
        return [CountOverlay("overlay_ignored", reason)]

    def _stand(self, gateway: GatewayId, *, up: bool, now: float) -> list[OverlayEffect]:
        if gateway not in self._others:
            if self._weaving.stood(gateway, up=up):
                self._router.set_link(gateway, up=up)
            return []
        if up:
            self._up.add(gateway)
            self._set_down(gateway, down=False)
            self._told.pop(gateway, None)  # it may have lost what we said
            return self._tell_all()
        self._up.discard(gateway)
        self._set_down(gateway, down=True)
        # A crashed neighbour comes back: its side stays on the map. Meanwhile it is gone around.
        woven = self._weaving.bypass(self._map, self._router.down, now)
        self._rewire()
        return [*woven]

    # ---- time ----------------------------------------------------------------------------------------------------

    def _wake(self, sent: int, now: float) -> list[OverlayEffect]:
        effects: list[OverlayEffect] = []
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_S
            self._measure(sent, now)
        if now >= self._weave_at:
            self._weave_at = now + self.settings.weave_s
            effects += self._weave(sent, now)
        return [*effects, self._next_wake()]

    def _next_wake(self) -> WakeOverlayAt:
        return WakeOverlayAt(min(self._weave_at, self._measure_at) if self._is_hybrid else self._weave_at)

    @property
    def _is_hybrid(self) -> bool:
        return self.settings.strategy == "SH" and self.settings.uplink_per_s is not None

    def _measure(self, sent: int, now: float) -> None:
        """SH, section 5: spare an uplink that is used by more than four fifths, by S1; else S2."""
        since, before = self._measured
        self._measured = (now, sent)
        if not self._is_hybrid or now <= since:
            return
        assert self.settings.uplink_per_s is not None
        per_s = (sent - before) / (now - since)
        self._sent_per_s += SMOOTHING * (per_s - self._sent_per_s)
        busy = self._sent_per_s > UTILISATION_MAX * self.settings.uplink_per_s
        self._router.set_strategy("S1" if busy else "S2")

    def _weave(self, sent: int, now: float) -> list[OverlayEffect]:
        since, before = self._woven
        self._woven = (now, sent)
        self._loads.measure((sent - before) / (now - since) if now > since else 0.0)
        traffic = self._router.traffic()
        woven = self._weaving.weave(self._map, traffic, self._router.strategy, self._router.down, now)
        self._rewire()
        unknown, self._router.unknown = self._router.unknown, 0
        counted = [CountOverlay("anchors_unknown", amount=unknown)] if unknown else []
        return [*woven, *self._reports(now), *counted]

    def _reports(self, now: float) -> list[OverlayEffect]:
        effects: list[OverlayEffect] = []
        for target in self._neighbours:
            if target in self._up and target in self._told:
                number, tree = self._told[target]
                report = self._loads.report(target, [gateway for gateway, _ in tree], number, now)
                effects.append(TellNeighbour(target, encode(report), urgent=True))
        return effects

    # ---- changes -------------------------------------------------------------------------------------------------

    def _remap(self, before: MasterMap, now: float) -> list[OverlayEffect]:
        if self._map is before:
            return []
        self._loads.forget_but(self._map)
        woven = self._weaving.remap(self._map, now)
        if self._path:
            woven += self._weaving.keep_off(self._touching(), now)
        self._rewire()
        return [*woven, AnchorsChanged()]

    def _rewire(self) -> None:
        self._router.set_map(self._map, self._weaving.up(), self._down)

    def _set_down(self, gateway: GatewayId, *, down: bool) -> None:
        (self._down.add if down else self._down.discard)(gateway)
        self._router.set_down(self._down)

    def _tell_all(self) -> list[OverlayEffect]:
        """Tell each neighbour that is there what it does not know yet."""
        effects: list[OverlayEffect] = []
        for target in self._neighbours:
            if target not in self._up:
                continue
            told = self._told.get(target)
            tree = self._neighbourhood.tree_for(target)
            if told is None or told[1] != tree:
                self._views_told += 1
                self._told[target] = (self._views_told, tree)
                view = View(self._views_told, [gateway for gateway, _ in tree], [parent for _, parent in tree])
                effects.append(TellNeighbour(target, encode(view), urgent=False))
        return effects

    def check(self) -> None:
        """State the invariants of all parts."""
        self._neighbourhood.check()
        self._router.check()
        self._weaving.check(self._map)
        assert self._router.working.master is self._map


def _others(neighbours: Sequence[GatewayId]) -> dict[GatewayId | None, tuple[GatewayId, ...]]:
    """Return where what came from a neighbour, or from here, travels on."""
    everybody: dict[GatewayId | None, tuple[GatewayId, ...]] = {None: tuple(neighbours)}
    return everybody | {source: tuple(other for other in neighbours if other != source) for source in neighbours}
