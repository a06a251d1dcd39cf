"""Everything in a small scope: the right gateways pass, and each that is broken on purpose is found."""

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mqloom.core.command import main
from mqloom.core.ids import GatewayId
from mqloom.lab import command_lab_exhaust
from mqloom.lab.broken import BROKEN
from mqloom.lab.exhaust import Search, builder, run_exhaust
from mqloom.lab.simulation import World
from mqloom.lab.small_ends import check_rest
from mqloom.lab.small_scope import CUTS_BOTH, DEEP, QUICK, A, B, C, N, Scope, chain, move
from mqloom.lab.small_steps import ViolationError
from mqloom.lab.small_world import SmallWorld

CRASHES = chain("a crash", crashes=1, may_crash=(A, B, C), delays=0)
TWO_AND_A_CRASH = chain("two and a crash", (A, A), crashes=1, may_crash=(A,), delays=0)
CUT = chain("a cut", cuts=1, may_cut=CUTS_BOTH, delays=0)
BOTH = chain("a cut and a crash", crashes=1, may_crash=(A,), cuts=1, may_cut=CUTS_BOTH[:1], delays=0)
WISHES = chain("wishes", (A, A), wishes=True)
MOVE_INWARD = move("a move and one for its gateway", (N,), (A,), delays=1)
MOVE_CRASH = move("a move and a crash", clients_at=(), crashes=1, may_crash=(A,), delays=1)


@pytest.mark.parametrize("scope", QUICK, ids=lambda scope: scope.name)
def test_nothing_is_lost_doubled_or_stuck_in_a_small_scope(scope: Scope) -> None:
    report = run_exhaust(scope)
    assert report.problem is None, "\n".join(report.trace)
    assert report.is_complete
    assert report.rests > 0


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", DEEP, ids=lambda scope: scope.name)
def test_nothing_is_lost_doubled_or_stuck_in_a_deeper_scope(scope: Scope) -> None:
    report = run_exhaust(scope)
    assert report.problem is None, "\n".join(report.trace)
    assert report.is_complete


@pytest.mark.parametrize(
    ("name", "scope", "problem"),
    [
        ("no-duplicate-removal", CRASHES, "was given p1 twice"),
        ("acknowledging-on-receipt", CRASHES, "was never given p1"),
        ("forgetting-parked", CUT, "was never given p1"),
        ("forgetting-given-back", BOTH, "was never given p1"),
        ("mark-without-fence", TWO_AND_A_CRASH, "was given p1 twice"),
        ("covering-without-anchors", WISHES, "c2 was never given p1"),
        ("moving-unpassed", MOVE_INWARD, "cA was never given p1"),
        pytest.param("moving-unkept", MOVE_CRASH, "it never comes to rest again", marks=pytest.mark.full),
        ("moving-without-aliases", MOVE_INWARD, "cA was never given p1"),
    ],
)
def test_a_gateway_that_is_broken_on_purpose_is_found(name: str, scope: Scope, problem: str) -> None:
    report = run_exhaust(scope, broken=BROKEN[name])
    assert report.problem is not None
    assert problem in report.problem
    assert report.trace


def test_a_mark_that_is_not_heeded_shows_by_memory_alone() -> None:
    # No small scope can see it: what is remembered is trimmed by the thousand.
    def remembered(name: str | None) -> int:
        gateways = [GatewayId("A"), GatewayId("B")]
        world = World([(gateways[0], gateways[1])], gateways, lambda: 0.01)
        if name is not None:
            BROKEN[name].spoil(world.nodes[gateways[1]])
        world.client(gateways[1], "c").subscribe("all", "s/#")
        world.run(2)
        for number in range(3_000):
            world.at(2 + number / 1_000, lambda: world.publish(gateways[0], "s/t", {"x": 1}))
        world.run(20)
        return len(world.nodes[gateways[1]]._traffic._seen)

    assert remembered(None) < 2_000
    assert remembered("mark-unheeded") == 3_000


def test_every_broken_gateway_is_tried_here() -> None:
    assert len([name for name in BROKEN if name != "waiting-for-ever"]) == 10  # that is about load agents: not here


def test_the_trace_of_a_finding_is_its_shortest_way() -> None:
    report = run_exhaust(CRASHES, broken=BROKEN["acknowledging-on-receipt"])
    assert report.trace[0] == "A has p1 enter its broker"
    assert sum("CRASHES" in line for line in report.trace) == 1
    assert any("is started again, epoch 2" in line for line in report.trace)


def outcomes_of_a_move(*may_crash: GatewayId) -> set[str]:
    """Return how a move ends, with a crash of one of these."""
    scope = move("a move", delays=0, crashes=1, may_crash=may_crash)
    world = SmallWorld(scope, builder(scope))
    search = Search(world)
    assert search.run(lambda _: None, None).is_complete
    new = {"A": {B}, "N": {B}, "B": {A, N}}
    ends = set()
    for number in search._rests:
        sides = zip(world.gateways, world.sides, search._states[number], strict=False)
        found = {name: set(world.store.glance(side.sides.values[at].node).neighbours) for name, side, at in sides}
        ends.add("moved" if found == new else "stayed")
    return ends


def test_a_move_is_made_if_nothing_fails_and_else_made_or_not() -> None:
    assert outcomes_of_a_move() == {"moved"}
    assert outcomes_of_a_move(A) == {"moved", "stayed"}


def test_a_network_between_the_old_and_the_new_one_is_found() -> None:
    scope = move("a move", delays=0)
    world = SmallWorld(scope, builder(scope))
    search = Search(world)
    search.run(lambda _: None, None)
    [end] = search._rests
    check_rest(world, search._states[end])
    world.scope = replace(scope, move=(A, B, N))  # as if it had been ordered to go the other way
    with pytest.raises(ViolationError, match="the primary network is not what it should be: A -> B, B -> A, B -> N"):
        check_rest(world, search._states[end])


def test_a_search_that_is_bounded_says_so() -> None:
    report = run_exhaust(CRASHES, states_max=100)
    assert not report.is_complete
    assert report.problem is None


def test_every_order_has_all_that_orders_in_turn_have() -> None:
    in_turn = run_exhaust(chain("in turn", (A, A), delays=0))
    slow = run_exhaust(chain("one slow queue", (A, A), delays=1))
    every = run_exhaust(chain("every order", (A, A)))
    assert in_turn.gateway_states < slow.gateway_states <= every.gateway_states


def test_what_brokers_read_when_makes_no_difference_to_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = chain("a crash", crashes=1, may_crash=(B,), delays=0)

    def outcomes() -> set[tuple[tuple[int, ...], ...]]:
        world = SmallWorld(scope, builder(scope))
        search = Search(world)
        assert search.run(lambda _: None, None).problem is None
        rests = [search._states[number] for number in search._rests]
        readers = world.clients.readers.values
        return {tuple(readers[number].received for number in state[world.first_client : -1]) for state in rests}

    reduced = outcomes()
    monkeypatch.setattr(SmallWorld, "make_safe", lambda *_: None)
    assert outcomes() == reduced


def run_command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command_lab_exhaust.configure(parser)
    return command_lab_exhaust.run(parser.parse_args(words))


def test_the_command_tells_how_much_it_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("--only", "2 wishes") == 0
    first, last = capsys.readouterr().out.splitlines()
    assert re.match(r"2 publications, 2 wishes, every order: \d+ states, \d+ transitions, \d+ times at rest", first)
    assert last == "nothing found: 1 scope, tried to the end"


def test_a_command_that_was_kept_from_trying_everything_says_so_and_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command("--only", "2 publications,", "--states", "150") == 1
    *scopes, last = capsys.readouterr().out.splitlines()
    assert [line.endswith("; not all, stopped here") for line in scopes[:2]] == [True, False]
    assert last == f"nothing found, but NOT everything was tried: --states stopped {len(scopes) - 1} of 6 scopes"
    assert run_command("--only", "2 wishes", "--states", "50", "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_the_command_writes_what_led_to_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.txt"
    words = ("--only", "every order", "--broken", "covering-without-anchors", "--trace", str(file))
    assert run_command(*words) == 1
    told = capsys.readouterr().out
    assert "FOUND: c2 was never given p1" in told
    assert "nothing found" not in told
    assert "p1 enter its broker" in file.read_text(encoding="utf-8")


def test_the_command_answers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("--only", "2 wishes", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert answer["scopes"][0]["states"] > 50


def test_the_command_refuses_what_names_no_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "exhaust", "--only", "no such scope", "--json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "mqloom lab: --only 'no such scope': no scope has this in its name; --deep has more\n"
