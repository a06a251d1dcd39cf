"""Storms: deterministic, quiet when all is well, and loud when something is broken on purpose."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mqloom.lab import faults
from mqloom.lab.plan import TOPOLOGIES, FaultPlan, links_of
from mqloom.lab.shrink import shrink
from mqloom.lab.storm import draw_plan, replay, run_plan, run_seed, run_storm
from mqloom.lab.world import Options

SCRIPT = """
import sys, msgspec
from mqloom.lab.storm import run_storm
sys.stdout.buffer.write(msgspec.json.encode(run_storm(100, 3, lambda text: None)))
"""


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("0", "1", "4711")
    }
    assert len(outputs) == 1
    assert msgspec.json.decode(outputs.pop())["runs"] == 3


def test_without_faults_everybody_gets_exactly_what_brute_force_says() -> None:
    storm = run_storm(1, 10, lambda text: None, kinds=())
    assert not storm.failed
    assert storm.expected > 1_000
    assert storm.delivered >= storm.expected
    assert storm.lost == storm.held_by_lost_stores == 0


def test_run_number_i_has_seed_s_plus_i() -> None:
    storm = run_storm(7, 2, lambda text: None, kinds=())
    assert storm.reports == [run_seed(7, ()), run_seed(8, ())]


def test_a_replay_gives_the_same_report_and_a_readable_trace() -> None:
    report, lines = replay(7, ())
    assert report == run_seed(7, ())
    assert any("gets p" in line for line in lines)
    assert any("publishes p" in line for line in lines)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_topology_is_a_tree(topology: str) -> None:
    plan = draw_plan(3)
    gateways = tuple("ABCDEF")
    links = links_of(topology, gateways, plan.randomness("links"))
    assert len(links) == 5
    reached = {"A"}
    for one, other in links:
        assert one in reached
        reached.add(other)
    assert reached == set(gateways)


def test_every_kind_of_fault_is_drawn_and_all_are_mended() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(faults.KINDS)
    assert all(fault.lasts_s >= 0 for plan in plans for fault in plan.faults)


def broken_plan_seed() -> int:
    """Return a seed whose run fails when a gateway acknowledges what it has only received."""
    for seed in range(1, 40):
        report, _ = run_plan(draw_plan(seed, ("gateway-crash",)), Options(acknowledges_at_once=True))
        if report.findings:
            return seed
    raise AssertionError("no run failed")


def test_a_gateway_that_acknowledges_on_receipt_is_caught_and_the_run_is_made_smaller(tmp_path: Path) -> None:
    plan = draw_plan(broken_plan_seed(), ("gateway-crash",))
    options = Options(acknowledges_at_once=True)
    small = shrink(plan, lambda candidate: bool(run_plan(candidate, options)[0].findings), tries_max=60)
    report, _ = run_plan(small, options)
    assert any("missed" in finding for finding in report.findings)
    assert len(small.publications) < len(plan.publications)
    assert len(small.faults) <= len(plan.faults)


def test_shrinking_leaves_only_what_is_needed() -> None:
    plan = draw_plan(11, ("link-cut", "gateway-crash"))
    needed = FaultPlan(kind="link-cut", at=5.0, lasts_s=1.0, target=("G0", "G1"))
    plan = msgspec.structs.replace(plan, faults=(*plan.faults, needed))

    def fails(candidate: object) -> bool:
        assert isinstance(candidate, type(plan))
        return needed in candidate.faults and any(each.number == 17 for each in candidate.publications)

    small = shrink(plan, fails)
    assert small.faults == (needed,)
    assert [each.number for each in small.publications] == [17]
    assert not small.subscribers
