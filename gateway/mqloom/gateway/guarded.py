"""An overlay whose mistakes cost no more than its advice: it is counted, and the primary links serve without it."""

import contextlib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Literal

import msgspec

from mqloom.core.ids import GatewayId
from mqloom.core.limits import ID_LENGTH_MAX, TOLD_BYTES_MAX
from mqloom.core.records import PaintedLink
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    CountOverlay,
    DescribingOverlay,
    Explanation,
    MovingOverlay,
    NeighboursChanged,
    OpenSoftLink,
    Overlay,
    OverlayEffect,
    OverlayEvent,
    TellNeighbour,
    WakeOverlayAt,
    WeavingOverlay,
)
from mqloom.gateway.journal import Journal, PluginFailed


class GuardedOverlay:
    """An overlay plugin, asked with care: what raises, or names somebody to whom there is no link, is a failure."""

    def __init__(self, gateway: GatewayId, overlay: Overlay, neighbours: Sequence[GatewayId], journal: Journal) -> None:
        self._gateway = gateway
        self._overlay = overlay
        self._weaving = overlay if isinstance(overlay, WeavingOverlay) else None
        self._describing = overlay if isinstance(overlay, DescribingOverlay) else None
        self._neighbours = tuple(neighbours)
        self._journal = journal
        try:
            self._moving = journal.guard("overlay", _as_moving, overlay)
        except PluginFailed:
            self._moving = None
        self.stand_in: dict[GatewayId, GatewayId] = {}
        """While a primary link is moved: the link that is not in use, and the one on the same side that is."""
        self.joining: GatewayId | None = None
        """The new neighbour as long as publications do not go there: wishes do, and come from there."""
        self.soft: set[GatewayId] = set()
        """The gateways to which a soft link is up: the node keeps this."""

    def knows(self, gateway: GatewayId) -> bool:
        """Ask whether a gateway that is no neighbour is on the map."""
        if self._weaving is None:
            return False
        try:
            return self._journal.guard("overlay", self._weaving.knows, gateway) is True
        except PluginFailed:
            return False

    @property
    def reach(self) -> int:
        """How many hops a soft link spans at most; 0 if primary links cannot be moved."""
        try:
            return 0 if self._moving is None else self._journal.guard("overlay", _reach, self._moving)
        except PluginFailed:
            return 0

    def way_to(self, gateway: GatewayId) -> Sequence[GatewayId]:
        """Ask for the primary way to a gateway; nothing if it is not on the map."""
        if self._moving is None:
            return ()
        try:
            return self._journal.guard("overlay", _way_to, self._moving, gateway)
        except PluginFailed:
            return ()

    def set_neighbours(self, neighbours: Sequence[GatewayId]) -> NeighboursChanged:
        """Have other neighbours; returns what the overlay must be told."""
        self._neighbours = tuple(neighbours)
        return NeighboursChanged(self._neighbours)

    def spread_wishes(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Ask where a subscription travels on: as `spread`, and to a neighbour that is about to be one."""
        targets = self.spread(source)
        if self.joining is None or source == self.joining or source == self.stand_in.get(self.joining):
            return targets
        return [*targets, self.joining]

    def spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        """Ask where what goes to all travels on; without an answer, to everybody but the source."""
        if self.stand_in and source is not None:
            source = self.stand_in.get(source, source)
        try:
            return self._journal.guard("overlay", self._spread, source)
        except PluginFailed:
            return [each for each in self._neighbours if each != source]

    def _spread(self, source: GatewayId | None) -> Sequence[GatewayId]:
        answer = self._overlay.spread(source)
        for each in answer:
            if each not in self._neighbours:
                raise ValueError(f"it named {each!r:.100}, which is no neighbour")
        return answer

    def route(
        self, wanted: Collection[GatewayId], source: GatewayId | None, sides: Callable[[], Collection[GatewayId]]
    ) -> Sequence[GatewayId]:
        """Ask where a publication goes; without an answer, to the neighbours on whose sides it is wanted."""
        if self.stand_in and source is not None:
            source = self.stand_in.get(source, source)
        try:  # as `Journal.guard` does, without its calls: each publication is asked for
            answer = list(self._overlay.route(wanted, source))
            for each in answer:
                if each not in self._neighbours and each not in self.soft:
                    raise ValueError(f"it named {each!r:.100}, to which there is no link")
        except Exception as error:
            self._journal.failed("overlay", error)
            wanted = sides()
            return [each for each in self._neighbours if each in wanted and each != source]
        return answer

    def anchor_here(self, named: GatewayId | None, source: GatewayId | None) -> GatewayId | None:
        """Ask by which anchor we keep what `source` announced (None: our own client); without an answer, that one."""
        if source is None or named is None or self._weaving is None:
            return source
        try:
            return self._journal.guard("overlay", self._anchor_here, self._weaving, named, source)
        except PluginFailed:
            return source

    def _anchor_here(self, weaving: WeavingOverlay, named: GatewayId, source: GatewayId) -> GatewayId:
        answer = _as_name(weaving.anchor_here(named, source))
        if answer == self._gateway:
            raise ValueError(f"it says that {named!r:.100} behind {source!r:.100} is here")
        return answer

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId | None:
        """Ask by which anchor we announce what we keep by this one; None is ourselves."""
        if anchor is None or self._weaving is None:
            return None
        try:
            answer = self._journal.guard("overlay", self._anchor_for, self._weaving, anchor, target)
        except PluginFailed:
            return None
        return None if answer == self._gateway else answer

    @staticmethod
    def _anchor_for(weaving: WeavingOverlay, anchor: GatewayId, target: GatewayId) -> GatewayId:
        return _as_name(weaving.anchor_for(anchor, target))

    def paint(self) -> tuple[str, Sequence[PaintedLink]]:
        """Ask for the strategy and all links; without an answer, the primary ones."""
        if self._describing is not None:
            with contextlib.suppress(PluginFailed):
                return self._journal.guard("overlay", self._paint, self._describing)
        return "", [PaintedLink(gateway=each, kind="primary", up=False, distance=1) for each in self._neighbours]

    @staticmethod
    def _paint(overlay: DescribingOverlay) -> tuple[str, Sequence[PaintedLink]]:
        links = [msgspec.convert(link._asdict(), PaintedLink) for link in overlay.links()]
        for link in links:
            if not math.isfinite(link.gain):
                raise ValueError(f"{link.gain} is no gain")
        return msgspec.convert(overlay.strategy, str), links

    def explain(self, anchors: Collection[GatewayId]) -> Explanation | None:
        """Ask where a publication of our own would go, and why; None without an answer."""
        if self._describing is None:
            return None
        try:
            return self._journal.guard("overlay", self._explain, self._describing, anchors)
        except PluginFailed:
            return None

    def _explain(self, overlay: DescribingOverlay, anchors: Collection[GatewayId]) -> Explanation:
        answer = overlay.explain(anchors, None)
        for each in answer.copies:
            if each not in self._neighbours and each not in self.soft:
                raise ValueError(f"it named {each!r:.100}, to which there is no link")
        return answer

    def check(self) -> None:
        """State the invariants, those of the overlay among them, if it can say them."""
        assert self._gateway not in self._neighbours
        assert self.soft.isdisjoint(self._neighbours)
        check = getattr(self._overlay, "check", None)
        if callable(check):
            check()

    def handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        """Hand an event over; of an overlay that fails nothing is done."""
        if self._weaving is None:
            return ()
        try:
            return self._journal.guard("overlay", self._handle, event, now)
        except PluginFailed:
            return ()

    def _handle(self, event: OverlayEvent, now: float) -> Sequence[OverlayEffect]:
        assert self._weaving is not None
        effects = list(self._weaving.handle(event, now))
        for effect in effects:
            match effect:
                case TellNeighbour():
                    is_bytes = isinstance(effect.body, bytes)  # else the neighbour would refuse the whole frame
                    if not is_bytes or effect.neighbour not in self._neighbours or len(effect.body) > TOLD_BYTES_MAX:
                        raise ValueError(f"it cannot tell {effect.neighbour!r:.100} {effect.body!r:.100}")
                case OpenSoftLink() | CloseSoftLink():
                    if effect.gateway in (self._gateway, *self._neighbours):
                        raise ValueError(f"there is no soft link to {effect.gateway!r:.100}")
                case WakeOverlayAt():
                    if not math.isfinite(effect.at):
                        raise ValueError(f"{effect.at} is no time to wake at")
                case AnchorsChanged():
                    pass
                case CountOverlay():
                    msgspec.convert(effect._asdict(), _Count)
                case _:
                    raise TypeError(f"an overlay answers with its effects, not {effect!r:.100}")
        return effects


class _Count(msgspec.Struct):
    """What may be counted: an overlay that thinks of ever new reasons would fill memory."""

    counter: Literal["overlay_ignored", "anchors_unknown"]
    reason: Annotated[str, msgspec.Meta(pattern="^[a-z]{0,20}$")]
    amount: Annotated[int, msgspec.Meta(ge=1)]


def _as_name(answer: object) -> GatewayId:
    """Return an answer that can be the name of a gateway; else a neighbour would refuse the frame that it is in."""
    if not isinstance(answer, str) or not 0 < len(answer) <= ID_LENGTH_MAX:
        raise ValueError(f"{answer!r:.100} is no name of a gateway")
    return GatewayId(answer)


def _reach(overlay: MovingOverlay) -> int:
    return int(overlay.reach)


def _way_to(overlay: MovingOverlay, gateway: GatewayId) -> list[GatewayId]:
    return [_as_name(each) for each in overlay.way_to(gateway)]


def _as_moving(overlay: Overlay) -> MovingOverlay | None:
    return overlay if isinstance(overlay, MovingOverlay) else None  # which may ask it for `reach`
