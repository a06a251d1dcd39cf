"""Storms: deterministic, quiet when all is well, and loud when something is broken on purpose."""

import os
import subprocess
import sys

import msgspec
import pytest

from mqloom.gateway import traffic
from mqloom.lab import faults
from mqloom.lab.broken import BROKEN, everywhere
from mqloom.lab.gateway_parks import Park
from mqloom.lab.plan import TOPOLOGIES, FaultPlan, Plan, links_of
from mqloom.lab.shrink import shrink
from mqloom.lab.storm import draw_plan, replay, run_plan, run_seed, run_storm

LIGHT = 28
"""The seed of a small run with many kinds of faults."""

SCRIPT = """
import sys, msgspec
from mqloom.lab.storm import run_storm
sys.stdout.buffer.write(msgspec.json.encode(run_storm(27, 2, lambda text: None)))
"""


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE
        )
        for seed in ("0", "4711")
    ]
    outputs = [process.communicate()[0] for process in running]
    assert outputs[0] == outputs[1]
    report = msgspec.json.decode(outputs[0])
    assert (report["runs"], report["failed"]) == (2, 0)
    assert report["expected"] > 100


def test_without_faults_everybody_gets_exactly_what_brute_force_says() -> None:
    storm = run_storm(1, 4, lambda text: None, kinds=())
    assert not storm.failed
    assert storm.expected > 1_000
    assert storm.delivered >= storm.expected
    assert storm.lost == storm.held_by_lost_stores == 0


def test_run_number_i_has_seed_s_plus_i_and_a_replay_tells_what_happened() -> None:
    told: list[str] = []
    storm = run_storm(LIGHT, 1, told.append)
    report, lines = replay(LIGHT)
    assert storm.reports == [report]
    assert report.seed == LIGHT
    assert told[-1].startswith("1 run, 0 failed: ")
    for text in ("gets p", "publishes p", "FAULT", "established", "PUBACK"):
        assert any(text in line for line in lines), text


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_topology_is_a_tree(topology: str) -> None:
    gateways = tuple("ABCDEF")
    links = links_of(topology, gateways, draw_plan(3).randomness("links"))
    assert len(links) == 5
    reached = {"A"}
    for one, other in links:
        assert one in reached
        reached.add(other)
    assert reached == set(gateways)


def test_every_kind_of_fault_is_drawn_and_all_are_mended() -> None:
    plans = [draw_plan(seed) for seed in range(150)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(faults.KINDS)
    assert all(fault.lasts_s >= 0 for plan in plans for fault in plan.faults)


@pytest.mark.parametrize("seed", [7, 59, 442, 5007, 10049, 30086, 50075, 50083])
def test_seeds_that_failed_once_do_not_any_more(seed: int) -> None:
    assert run_seed(seed, migrations=False).findings == []


@pytest.mark.parametrize("seed", [85, 106, 209, 249, 100_489, 100_696, 100_754, 101_182, 201_184])
def test_seeds_that_failed_with_clients_that_move_do_not_any_more(seed: int) -> None:
    assert draw_plan(seed).migrations
    assert run_seed(seed).findings == []


# ---- what is broken on purpose ---------------------------------------------------------------------------------------


def loses(plan: Plan) -> bool:
    with everywhere(BROKEN["acknowledging-on-receipt"]):
        return any("missed" in finding for finding in run_plan(plan)[0].findings)


def crash_plan() -> Plan:
    """Return a plan in which a gateway crashes while publications are under way."""
    plan = draw_plan(21, ())
    crashes = tuple(
        FaultPlan(kind="gateway-crash", at=publication.at + 0.1, lasts_s=1.0, target=(gateway,))
        for publication in plan.publications[20:140:20]
        for gateway in (plan.publishers[publication.publisher],)
    )
    return msgspec.structs.replace(plan, faults=crashes, publications=plan.publications[:150])


def test_a_gateway_that_acknowledges_on_receipt_is_caught_and_the_run_is_made_smaller() -> None:
    plan = crash_plan()
    assert run_plan(plan)[0].findings == []
    assert loses(plan)
    small = shrink(plan, loses, tries_max=30)
    assert loses(small)
    assert len(small.publications) < len(plan.publications)
    assert len(small.faults) < len(plan.faults)


STORES = ("broker-loses-store", "broker-loses-store", "link-cut", "own-cut", "broker-restart", "link-cut-one-way")
"""Faults among which publications are parked while a broker loses its store."""


def test_a_gateway_that_trusts_whatever_its_broker_acknowledges_for_a_park_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = 1068
    assert run_seed(seed, STORES, migrations=False).findings == []

    def create(park: Park) -> None:
        park._is_doubted = False
        park.endpoint.open()

    monkeypatch.setattr(Park, "doubt", lambda park: None)
    monkeypatch.setattr(Park, "create", create)
    assert any("missed" in finding for finding in run_seed(seed, STORES, migrations=False).findings)


def test_shrinking_leaves_only_what_is_needed() -> None:
    plan = draw_plan(11, ("link-cut", "gateway-crash"))
    needed = FaultPlan(kind="link-cut", at=5.0, lasts_s=1.0, target=("G0", "G1"))
    plan = msgspec.structs.replace(plan, faults=(*plan.faults, needed))

    def fails(candidate: Plan) -> bool:
        return needed in candidate.faults and any(each.number == 17 for each in candidate.publications)

    small = shrink(plan, fails)
    assert small.faults == (needed,)
    assert [each.number for each in small.publications] == [17]
    assert not small.subscribers


@pytest.mark.parametrize("seed", [2001, 2010, 2023, 2040, 2059, 2073])
def test_marks_that_are_told_all_the_time_overtake_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MARK_EVERY", 4)
    assert draw_plan(seed).is_restless
    assert run_seed(seed, migrations=False).findings == []
