"""Brokers whose cores are the bottleneck: how long things take, what waits, and what is counted."""

import pytest

from mqloom.core.ids import GatewayId
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.overlay_cores import MATCHED, Busiest, Core, Overload, busiest_under_s0, serve
from mqloom.lab.overlay_flow import LATENCY_S, Flow
from mqloom.lab.overlay_net import OverlayNet
from mqloom.lab.overlay_tally import Load
from mqloom.lab.overlay_workload import Workload

A, B, C, D = (GatewayId(name) for name in "abcd")
CHAIN = Workload(gateways=(A, B, C), links=((A, B), (B, C)), wanting=(frozenset({C}),), origins=(A,))
STAR = Workload(gateways=(A, B, C, D), links=((A, B), (A, C), (A, D)), wanting=(frozenset({B, C, D}),), origins=(A,))


def served(
    workload: Workload, operations_per_s: float, *loads: Load, strategy: str = "S0", matching: float = 1.0
) -> Flow:
    settings: dict[str, object] = {"strategy": strategy}
    net = OverlayNet(workload.links, dict.fromkeys(workload.gateways, settings))
    core = Core(match_s=matching / operations_per_s, copy_s=1 / operations_per_s)
    return serve(net, workload, loads, core, 1, tell_nobody)


def test_a_broker_matches_once_and_writes_each_copy() -> None:
    found = served(CHAIN, 100.0, Load(per_s=1.0, length_s=10.0))
    assert (found.publications, found.deliveries, found.pure_forwards) == (10, 10, 10)
    assert found.mean_delay_s == pytest.approx(4 * 0.01 + 2 * LATENCY_S), "two operations at A, two at B"
    found = served(STAR, 100.0, Load(per_s=1.0, length_s=10.0))
    assert found.mean_delay_s == pytest.approx((2 + 3 + 4) / 3 * 0.01 + LATENCY_S)
    found = served(CHAIN, 100.0, Load(per_s=1.0, length_s=10.0), matching=3.0)
    assert found.mean_delay_s == pytest.approx(8 * 0.01 + 2 * LATENCY_S), "four operations at A, four at B"


def test_the_busiest_broker_has_this_much_to_do() -> None:
    assert busiest_under_s0(STAR, 1.0, 1) == Busiest(operations=4.0, copies=3.0)
    assert busiest_under_s0(CHAIN, 1.0, 1) == Busiest(operations=2.0, copies=1.0)
    assert busiest_under_s0(CHAIN, 2.5, 1) == Busiest(operations=3.5, copies=1.0)


@pytest.mark.parametrize("subscriptions", [MATCHED, 10 * MATCHED])
def test_cores_are_full_at_the_same_rate_however_long_matching_takes(subscriptions: int) -> None:
    load = Load(per_s=10.0, length_s=100.0)
    found = Overload(STAR, subscriptions, (load,), 1).run("S0", 35, 0.5, tell_nobody)
    assert found.deliveries == pytest.approx(found.wanted / 2, rel=0.01)


def test_a_core_that_is_just_full_delivers_all_and_one_of_half_the_speed_delivers_half() -> None:
    load = Load(per_s=10.0, length_s=100.0)
    most = busiest_under_s0(STAR, 1.0, 1)
    full = served(STAR, 1.001 * load.per_s * most.operations, load)
    half = served(STAR, 0.5 * load.per_s * most.operations, load)
    assert full.deliveries == pytest.approx(full.wanted, rel=0.01)
    assert half.deliveries == pytest.approx(half.wanted / 2, rel=0.01)
    assert half.sent[A] == pytest.approx(half.wanted / 2, rel=0.01), "nothing is decided before its turn"


def test_what_comes_before_the_last_load_is_not_counted_and_may_be_waited_for() -> None:
    before, load = Load(per_s=20.0, length_s=10.0), Load(per_s=5.0, length_s=10.0)
    found = served(CHAIN, 20.0, before, load)
    assert found.publications == 50
    assert found.wanted == 50
    assert found.deliveries == pytest.approx(100, abs=2), "of those published before"
    assert sum(found.over_time) == found.deliveries
    assert len(found.over_time) == 1


def test_soft_links_that_are_woven_meanwhile_are_used() -> None:
    load = Load(per_s=10.0, length_s=60.0)
    assert served(CHAIN, 100.0, load).pure_forwards == 600
    assert served(CHAIN, 100.0, load, strategy="S2").pure_forwards < 250
