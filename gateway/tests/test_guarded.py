"""An overlay that fails costs only its advice."""

import math

import pytest

from mqloom.core.counters import Counters
from mqloom.core.ids import GatewayId
from mqloom.core.limits import TOLD_BYTES_MAX
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CloseSoftLink,
    CountOverlay,
    OpenSoftLink,
    OverlayEffect,
    OverlayStarted,
    TellNeighbour,
    WakeOverlayAt,
)
from mqloom.gateway.journal import Journal

A, B, C, US = (GatewayId(name) for name in "ABCU")


class Answering:
    """An overlay that answers whatever it was told to, or raises it."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def spread(self, source: GatewayId | None) -> list[GatewayId]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]

    def route(self, wanted: object, source: GatewayId | None) -> list[GatewayId]:
        return self.spread(source)


def guarded(answer: object) -> tuple[GuardedOverlay, Counters]:
    counters = Counters()
    return GuardedOverlay(US, Answering(answer), [A, B, C], Journal(counters)), counters


def test_a_good_answer_is_taken_as_it_is() -> None:
    overlay, counters = guarded([C, A])
    assert overlay.spread(None) == overlay.route({A}, B, tuple) == [C, A]
    assert counters.snapshot() == {}


@pytest.mark.parametrize("answer", [RuntimeError("no"), None, [GatewayId("STRANGER")], 5])
def test_without_a_good_answer_the_primary_links_serve(answer: object) -> None:
    overlay, counters = guarded(answer)
    assert overlay.spread(None) == [A, B, C]
    assert overlay.spread(B) == [A, C]
    assert overlay.route({GatewayId("FAR")}, B, lambda: {C, B}) == [C]
    assert counters.reasons("plugin_failures") == {"overlay": 3}


# ---- overlays that weave -----------------------------------------------------------------------------------------

FAR = GatewayId("FAR")


class Weaving(Answering):
    """An overlay that weaves, and answers everything likewise."""

    def anchor_here(self, anchor: GatewayId, neighbour: GatewayId) -> GatewayId:
        return self.spread(None)  # type: ignore[return-value]

    def anchor_for(self, anchor: GatewayId | None, target: GatewayId) -> GatewayId:
        return self.spread(None)  # type: ignore[return-value]

    def knows(self, gateway: GatewayId) -> bool:
        return self.spread(None)  # type: ignore[return-value]

    def handle(self, event: object, now: float) -> list[OverlayEffect]:
        return self.spread(None)  # type: ignore[return-value]


def weaving(answer: object) -> tuple[GuardedOverlay, Counters]:
    counters = Counters()
    return GuardedOverlay(US, Weaving(answer), [A, B, C], Journal(counters)), counters


def test_an_overlay_that_does_not_weave_is_asked_for_no_anchor_and_told_nothing() -> None:
    overlay, counters = guarded(RuntimeError("no"))
    assert not overlay.knows(FAR)
    assert overlay.anchor_here(FAR, A) == A
    assert overlay.anchor_for(A, B) is None
    assert overlay.handle(OverlayStarted(), 0.0) == ()
    assert counters.snapshot() == {}


def test_our_own_clients_and_what_names_no_anchor_are_by_their_side() -> None:
    overlay, _ = weaving(FAR)
    assert overlay.anchor_here(None, None) is None
    assert overlay.anchor_here(None, A) == A
    assert overlay.anchor_for(None, A) is None


def test_a_good_anchor_is_taken_as_it_is_and_ourselves_are_nobody_further() -> None:
    overlay, counters = weaving(FAR)
    assert overlay.anchor_here(FAR, A) == overlay.anchor_for(A, B) == FAR
    assert weaving(US)[0].anchor_for(A, B) is None
    assert counters.snapshot() == {}


@pytest.mark.parametrize("answer", [RuntimeError("no"), None, 5, "", "x" * 129, US])
def test_without_a_good_anchor_the_neighbour_is_the_anchor(answer: object) -> None:
    overlay, counters = weaving(answer)
    assert overlay.anchor_here(FAR, A) == A
    assert overlay.anchor_for(FAR, A) is None
    assert counters.reasons("plugin_failures")["overlay"] in (1, 2)


def test_only_a_clear_yes_puts_a_gateway_on_the_map() -> None:
    assert weaving(True)[0].knows(FAR)
    for answer in (False, None, FAR, RuntimeError("no")):
        assert not weaving(answer)[0].knows(FAR)


def test_a_soft_link_may_be_named_only_while_it_is_up() -> None:
    overlay, counters = guarded([FAR])
    overlay.soft.add(FAR)
    assert overlay.route({FAR}, None, tuple) == [FAR]
    overlay.soft.discard(FAR)
    assert overlay.route({FAR}, None, tuple) == []
    assert counters.reasons("plugin_failures") == {"overlay": 1}


@pytest.mark.parametrize(
    "effect",
    [
        TellNeighbour(A, b"x" * TOLD_BYTES_MAX),
        OpenSoftLink(FAR),
        CloseSoftLink(FAR),
        WakeOverlayAt(7),
        AnchorsChanged(),
        CountOverlay("overlay_ignored", "malformed", 3),
        CountOverlay("anchors_unknown"),
    ],
)
def test_good_effects_are_carried_out(effect: OverlayEffect) -> None:
    overlay, counters = weaving([effect])
    assert overlay.handle(OverlayStarted(), 0.0) == [effect]
    assert counters.snapshot() == {}


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("no"),
        None,
        ["tell everybody"],
        [TellNeighbour(FAR, b"")],
        [TellNeighbour(A, b"x" * (TOLD_BYTES_MAX + 1))],
        [TellNeighbour(A, "text")],  # type: ignore[arg-type]
        [OpenSoftLink(A)],
        [OpenSoftLink(US)],
        [CloseSoftLink(B)],
        [WakeOverlayAt(math.inf)],
        [WakeOverlayAt(math.nan)],
        [AnchorsChanged(), WakeOverlayAt(None)],  # type: ignore[arg-type]
        [CountOverlay("deliveries")],  # type: ignore[arg-type]
        [CountOverlay("overlay_ignored", "said by G17")],
        [CountOverlay("overlay_ignored", "malformed", 0)],
        [CountOverlay("overlay_ignored", "malformed", 0.5)],  # type: ignore[arg-type]
    ],
)
def test_of_bad_effects_none_is_carried_out(answer: object) -> None:
    overlay, counters = weaving(answer)
    assert overlay.handle(OverlayStarted(), 0.0) == ()
    assert counters.reasons("plugin_failures") == {"overlay": 1}


# ---- overlays whose primary links can be moved ---------------------------------------------------------------------


class Moving(Weaving):
    """An overlay with a map, which answers everything likewise."""

    @property
    def reach(self) -> int:
        return self.spread(None)  # type: ignore[return-value]

    def way_to(self, gateway: GatewayId) -> list[GatewayId]:
        return self.spread(None)


def moving(answer: object) -> tuple[GuardedOverlay, Counters]:
    counters = Counters()
    return GuardedOverlay(US, Moving(answer), [A, B, C], Journal(counters)), counters


@pytest.mark.parametrize("overlay", [guarded(RuntimeError("no"))[0], weaving(RuntimeError("no"))[0]])
def test_an_overlay_without_a_map_is_not_asked_for_ways(overlay: GuardedOverlay) -> None:
    assert overlay.reach == 0
    assert overlay.way_to(FAR) == ()


def test_a_good_way_and_a_good_reach_are_taken_as_they_are() -> None:
    assert moving(4)[0].reach == 4
    assert moving([A, FAR])[0].way_to(FAR) == [A, FAR]
    assert moving([])[0].way_to(FAR) == []


@pytest.mark.parametrize("answer", [RuntimeError("no"), None, "far", [1]])
def test_without_a_good_reach_nothing_can_be_moved(answer: object) -> None:
    overlay, counters = moving(answer)
    assert overlay.reach == 0
    assert counters.reasons("plugin_failures") == {"overlay": 1}


@pytest.mark.parametrize("answer", [RuntimeError("no"), None, 5, [5], [""], ["x" * 129], [FAR, None]])
def test_without_a_good_way_there_is_none(answer: object) -> None:
    overlay, counters = moving(answer)
    assert overlay.way_to(FAR) == ()
    assert counters.reasons("plugin_failures") == {"overlay": 1}


def test_while_a_link_is_moved_what_came_over_one_end_came_over_the_other() -> None:
    class Asked(Answering):
        def route(self, wanted: object, source: GatewayId | None) -> list[GatewayId]:
            return [each for each in (A, B) if each != source]

        def spread(self, source: GatewayId | None) -> list[GatewayId]:
            return self.route((), source)

    overlay = GuardedOverlay(US, Asked(None), [A, B], Journal(Counters()))
    overlay.stand_in, overlay.joining = {C: A}, C
    assert overlay.route({A, B}, C, tuple) == overlay.spread(C) == [B]
    assert overlay.route({A, B}, None, tuple) == overlay.spread(None) == [A, B]
    assert overlay.spread_wishes(None) == [A, B, C]
    assert overlay.spread_wishes(B) == [A, C]
    assert overlay.spread_wishes(A) == overlay.spread_wishes(C) == [B]
