"""One overlay by scripts of events, and a few joined."""

from dataclasses import replace
from itertools import pairwise

import pytest

from mqloom.core.ids import GatewayId
from mqloom.core.messages import Told
from mqloom.gateway.interfaces import (
    AnchorsChanged,
    CountOverlay,
    LinkStood,
    NeighbourTold,
    OpenSoftLink,
    OverlayStarted,
    OverlayWoke,
    TellNeighbour,
    WakeOverlayAt,
)
from mqloom.lab.gate import US as GATE
from mqloom.lab.gate import Gate, parts_of
from mqloom.lab.overlay_net import OverlayNet
from mqloom.plugins.overlay import TreeOverlay
from mqloom.plugins.overlay.bodies import Report, View, decode, encode
from mqloom.plugins.overlay.loads import Loads
from mqloom.plugins.overlay.master_map import MasterMap
from mqloom.plugins.tree_overlay import mqloom_check, mqloom_overlay

US, A, B, C, D = (GatewayId(name) for name in ("us", "a", "b", "c", "d"))
LINE = [GatewayId(f"l{each}") for each in range(6)]


def line(**settings: object) -> OverlayNet:
    net = OverlayNet(list(pairwise(LINE)), dict.fromkeys(LINE, settings), delay_s=0.05)
    net.start()
    net.run(1.0)
    return net


# ---- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"strategy": "S3"}, "strategy"),
        ({"strateggy": "S1"}, "did you mean 'strategy'"),
        ({"delta": 0}, "delta"),
        ({"uplink_per_s": 0}, "uplink_per_s"),
        ({"fanout": 35, "max_links": 30}, "max_links: 30 is less than fanout"),
        ({"weave_s": "often"}, "weave_s"),
    ],
)
def test_wrong_settings_are_refused_and_say_why(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        TreeOverlay(US, [A], settings)
    assert len(mqloom_check(settings)) == 1


def test_s0_says_nothing_and_asks_for_nothing() -> None:
    overlay = TreeOverlay(US, [A, B])
    body = encode(View(1, [C], [0]))
    for event in (OverlayStarted(), LinkStood(A, True), NeighbourTold(A, body), OverlayWoke(), LinkStood(A, False)):
        assert list(overlay.handle(event, 0.0)) == []
    assert overlay.anchor_here(C, A) == A
    assert overlay.anchor_for(A, B) == overlay.anchor_for(None, B) == US
    assert overlay.route([A, B], A) == (B,)


# ---- events -----------------------------------------------------------------------------------------------------


def test_a_view_that_changes_the_map_changes_anchors_and_is_told_on() -> None:
    overlay = TreeOverlay(US, [A, B], {"strategy": "S1"})
    overlay.handle(LinkStood(B, True), 0.0)
    changed, told = overlay.handle(NeighbourTold(A, encode(View(1, [C], [0]))), 0.0)
    assert changed == AnchorsChanged()
    assert isinstance(told, TellNeighbour)
    assert decode(told.body) == View(2, [A, C], [0, 1])
    assert list(overlay.handle(NeighbourTold(A, encode(View(2, [C], [0]))), 0.0)) == []


def test_the_anchor_announced_is_ours_for_our_own_client_and_for_one_that_is_not_on_the_map() -> None:
    overlay = TreeOverlay(US, [A, B], {"strategy": "S1"})
    assert overlay.anchor_for(None, A) == overlay.anchor_for(C, A) == US


def test_a_waking_too_early_changes_nothing_and_asks_again() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "S2"})
    assert list(overlay.handle(OverlayStarted(), 5.0)) == [WakeOverlayAt(25.0)]
    assert list(overlay.handle(OverlayWoke(), 10.0)) == [WakeOverlayAt(25.0)]


def test_publications_weave_a_soft_link_and_then_travel_on_it() -> None:
    net = line(strategy="S2")
    assert net.publish(LINE[0], [LINE[5]]).hops == list(pairwise(LINE))
    for period in range(1, 6):
        for _ in range(10):
            net.publish(LINE[0], [LINE[5]])
        net.run(20.5 * period)
    assert net.publish(LINE[0], [LINE[5]]).hops == [(LINE[0], LINE[4]), (LINE[4], LINE[5])]
    report = {each.gateway: each for each in net.overlays[LINE[0]].links()}
    assert report[LINE[1]].kind == "primary"
    assert (report[LINE[4]].kind, report[LINE[4]].distance, report[LINE[4]].publications) == ("soft", 4, 10)
    assert report[LINE[4]].gain >= 10, "one more is bypassed than by the link to the one before it"


def test_soft_links_are_opened_around_a_neighbour_that_crashed_and_publications_take_them() -> None:
    net = line(strategy="S1")
    net.crash(LINE[1])
    net.run(2.0)
    assert (LINE[0], LINE[2]) in net.soft
    journey = net.publish(LINE[0], LINE)
    assert set(journey.reached) == set(LINE)
    assert journey.hops[:2] == [(LINE[0], LINE[1]), (LINE[0], LINE[2])]


def test_a_soft_link_that_is_down_is_not_used() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "S2", "weave_s": 1.0})
    overlay.handle(OverlayStarted(), 0.0)
    overlay.handle(NeighbourTold(A, encode(View(1, [C], [0]))), 0.0)
    for _ in range(5):
        overlay.route([C], None)
    assert OpenSoftLink(C) in overlay.handle(OverlayWoke(), 1.0)
    assert overlay.route([C], None) == (A,)
    overlay.handle(LinkStood(C, True), 1.0)
    assert overlay.route([C], None) == (C,)
    overlay.handle(LinkStood(C, False), 1.0)
    assert overlay.route([C], None) == (A,)
    overlay.check()


# ---- SH ---------------------------------------------------------------------------------------------------------


def test_sh_spares_an_uplink_that_is_nearly_full_and_stops_when_it_is_not() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "SH", "uplink_per_s": 10.0})
    assert list(overlay.handle(OverlayStarted(), 0.0)) == [WakeOverlayAt(1.0)]
    seen = []
    sent = 0
    for second in range(1, 9):
        sent += 10 if second < 5 else 1
        overlay.handle(OverlayWoke(sent), float(second))
        seen.append(overlay.explain([A], None).strategy)
    assert seen == ["S2", "S2", "S1", "S1", "S2", "S2", "S2", "S2"]


def test_sh_spares_no_uplink_for_what_does_not_go_out() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "SH", "uplink_per_s": 10.0})
    overlay.handle(OverlayStarted(), 0.0)
    overlay.handle(LinkStood(A, False), 0.0)
    for second in range(1, 9):
        for _ in range(100):
            overlay.route([A], None)
        overlay.handle(OverlayWoke(0), float(second))
        assert overlay.explain([A], None).strategy == "S2"


def test_sh_without_a_known_uplink_is_hinted_at() -> None:
    kind = mqloom_overlay({"strategy": "SH"})
    assert kind.hints is not None
    assert [each[:40] for each in kind.hints({})] == ["strategy SH without uplink_per_s is S2: "]
    assert kind.hints({"uplink_per_s": 5.0}) == kind.hints({"strategy": "S2"}) == []


def test_sh_without_a_known_uplink_is_s2() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "SH"})
    assert list(overlay.handle(OverlayStarted(), 0.0)) == [WakeOverlayAt(20.0)]
    assert overlay.explain([A], None).strategy == "S2"


# ---- loads ------------------------------------------------------------------------------------------------------


def test_loads_and_round_trips_are_known_throughout_the_map() -> None:
    net = line(strategy="S2", uplink_per_s=1.0)
    for _ in range(100):
        net.publish(LINE[3], [LINE[4]])
    net.run(110.0)
    loads = net.overlays[LINE[0]]._loads
    assert set(loads._loads) == set(LINE[1:5])
    assert {each: loads._round_trips[each] for each in LINE[1:5]} == dict.fromkeys(LINE[1:5], 100)


def test_what_is_reported_goes_over_urgent_links_and_stays_small() -> None:
    net = line(strategy="S2")
    overlay = net.overlays[LINE[2]]
    told = [each for each in overlay.handle(OverlayWoke(), 30.0) if isinstance(each, TellNeighbour)]
    assert [(each.neighbour, each.urgent) for each in told] == [(LINE[1], True), (LINE[3], True)]
    assert all(len(each.body) < 60 for each in told)


def test_of_who_is_not_on_the_map_any_more_nothing_is_known() -> None:
    loads = Loads(None)
    loads.take(A, Report(1, [1, 1], [-1, 5], 3.0, None, 0.0), [A, C], 4.0)
    loads.take(B, Report(1, [1], [-1], 3.0, None, 0.0), [B], 4.0)
    loads.forget_but(MasterMap(US, [B], {}))
    assert [set(known) for known in (loads._loads, loads._round_trips, loads._heard)] == [{B}, set(), {B}]


def test_what_is_ignored_is_among_the_counters_of_the_gateway() -> None:
    near = GatewayId("A")
    gate = Gate(replace(parts_of(near), overlay=TreeOverlay(GATE, [near], {"strategy": "S2"}))).up(near)
    gate.hear(near, Told(b"nonsense"))
    gate.hear(near, Told(b"again"))
    assert gate.counted("overlay_ignored") == {"malformed": 2}


def test_anchors_that_are_not_on_the_map_are_counted_now_and_then() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "S2"})
    overlay.handle(OverlayStarted(), 0.0)
    for _ in range(3):
        overlay.route([GatewayId("far"), GatewayId("farther")], None)
    counted = [each for each in overlay.handle(OverlayWoke(), 20.0) if isinstance(each, CountOverlay)]
    assert counted == [CountOverlay("anchors_unknown", amount=2)]
    assert not any(isinstance(each, CountOverlay) for each in overlay.handle(OverlayWoke(), 40.0))


def test_a_report_on_another_view_or_of_nonsense_is_ignored_and_counted() -> None:
    overlay = TreeOverlay(US, [A], {"strategy": "S2"})
    overlay.handle(NeighbourTold(A, encode(View(3, [C], [0]))), 0.0)
    ignored = CountOverlay("overlay_ignored", "report")
    for report in (
        Report(2, [1, 1], [-1, 5], 0.0, None, 0.0),
        Report(3, [1], [-1], 0.0, None, 0.0),
        Report(3, [1, 1], [-1, 5], float("nan"), None, 0.0),
    ):
        assert overlay.handle(NeighbourTold(A, encode(report)), 0.0) == [ignored]
    good = Report(3, [1, 1], [-1, 5], 0.0, float("nan"), 0.0)
    assert overlay.handle(NeighbourTold(A, encode(good)), 0.0) == []
    assert overlay._loads._loads == {A: 1, C: 1}
    assert overlay._loads._round_trips == {C: 5}


def test_without_known_uplinks_the_busiest_gateway_counts_as_full() -> None:
    master = MasterMap(US, [A, B], {A: [(C, 0)], B: [(D, 0)]})
    loads = Loads(None)
    assert loads.scaling(master, master.numbers[C]) == loads.slowness(master, master.numbers[C]) == 1.0
    loads.take(A, Report(1, [-101, -1], [-1, 30], 0.0, None, 0.0), [A, C], 0.0)
    loads.take(B, Report(1, [-11, -1], [-1, 10], 0.0, None, 0.0), [B, D], 0.0)
    assert loads.scaling(master, master.numbers[C]) == 1.5
    assert loads.scaling(master, master.numbers[D]) == 1.0
    assert loads.slowness(master, master.numbers[C]) == 1.5
    assert loads.slowness(master, master.numbers[D]) == 0.5
    loads.measure(7.2)
    assert loads.report(A, [B], 1, 0.0).loads == [-8, -11]
