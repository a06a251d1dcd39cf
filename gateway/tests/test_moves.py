"""Moves of a primary link, by production nodes in virtual time: whole ones, and orders that are refused."""

from dataclasses import replace

import pytest

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.events import (
    Ordered,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ANSWERS_BURST, ID_LENGTH_MAX
from mqloom.core.records import PlaceLink, decode_move
from mqloom.gateway.pace import Pace
from mqloom.lab.gate import US, A, B, Gate, parts_of
from mqloom.lab.moving import MOVED, STEPS, Federation, stayed

# ---- a whole move --------------------------------------------------------------------------------------------------


def test_a_whole_move() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    assert world.steps == STEPS
    assert world.is_new()
    assert world.kept("A") == [
        PlaceLink(GatewayId("M")),
        PlaceLink(GatewayId("B"), 1, True, (GatewayId("A"), GatewayId("N"))),
    ]
    assert world.kept("B")[-1] == PlaceLink(GatewayId("A"), 1, False, (GatewayId("A"), GatewayId("N")))
    assert world.kept("N") == [PlaceLink(GatewayId("P"))]
    node = world.world.gateways["A"].node
    assert node is not None
    assert node.counters.value("moves_made", "") == 1
    assert not node.is_moving


def test_until_the_new_place_is_kept_the_old_network_is_complete_and_then_the_new_one() -> None:
    world = Federation().order().until("freezing")
    assert world.neighbours("A") == {"M", "N"}
    world.until("linking")
    assert "A" not in world.neighbours("B")
    world.until("sweeping")
    assert world.kept("B")[-1] == PlaceLink(GatewayId("A"), 1, False, (GatewayId("A"), GatewayId("N")))
    assert world.neighbours("A") == {"M", "N", "B"}
    assert "A" in world.neighbours("B")
    world.until("keeping")
    assert PlaceLink(GatewayId("N")) in world.kept("A")
    world.until("leaving")
    assert world.kept("A")[-1] == PlaceLink(GatewayId("B"), 1, True, (GatewayId("A"), GatewayId("N")))
    assert "N" in world.neighbours("A")
    assert world.end() == MOVED


def test_the_map_is_that_of_the_new_network_and_the_gateway_can_move_back() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    world.world.gateways["A"].answers.clear()
    world.order("N")
    assert world.end() == MOVED
    assert world.neighbours("A") == {"M", "N"}
    assert world.neighbours("B") == {"P", "C"}
    assert world.kept("A")[-1] == PlaceLink(GatewayId("N"), 2, True, (GatewayId("A"), GatewayId("N")))


def test_all_restart_in_the_new_network() -> None:
    world = Federation().order()
    assert world.end() == MOVED
    for gateway in world.world.gateways.values():
        gateway.crash(lambda: 0.0)
    world.wait(1.0)
    for gateway in world.world.gateways.values():
        gateway.start()
    assert world.end() == MOVED
    assert world.is_new()


def test_a_gateway_that_moves_twice_at_once_is_told_so() -> None:
    world = Federation().order().order("C")
    assert world.answers[-1] == stayed("a move is under way here or near: try again when it is over")
    assert world.end() == MOVED


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("A", "A cannot be a neighbour of itself"),
        ("N", "N is a neighbour of A already"),
        ("X", "X is not in the configuration of A: its address is not known"),
        ("C", "C is not on the map of A: a move goes 3 hops at most"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_refused_in_words(to: str, problem: str) -> None:
    world = Federation(delta=3).order(to)
    assert world.end() == stayed(problem)
    assert not world.is_new()
    assert world.kept("A") == [PlaceLink(GatewayId("M")), PlaceLink(GatewayId("N"))]
    node = world.world.gateways["A"].node
    assert node is not None
    assert node.counters.reasons("moves_refused") == {"order": 1}


def test_without_a_map_nothing_is_moved() -> None:
    world = Federation(strategy="S0").order()
    assert world.end() == stayed("the overlay of this gateway keeps no map: choose strategy S1, S2 or SH")


def test_no_move_begins_while_the_old_neighbour_is_down() -> None:
    world = Federation()
    world.cut("A", "N")
    world.wait(8.0)
    world.order()
    world.heal("A", "N")
    assert world.end() == stayed("the link to N is down: what waits for it must arrive first")


def test_two_moves_near_each_other_do_not_both_happen_at_a_time() -> None:
    world = Federation().order()
    world.order("A", of="B")  # it does not hear of the other before it asks itself
    first = world.end()
    theirs = [answer for _, answer in world.world.gateways["A"].answers][-1]
    problems = {first.problem, theirs.problem}
    assert "moved" not in (first.answer, theirs.answer) or "stayed" in (first.answer, theirs.answer)
    assert any("has agreed to a move of" in problem or "moves: try again" in problem for problem in problems)


def test_a_move_ends_where_it_began_when_somebody_near_cannot_be_asked() -> None:
    world = Federation()
    world.cut("B", "C")
    world.wait(8.0)
    world.order()
    world.wait(2.0)
    world.heal("B", "C")
    assert world.end() == stayed("B does not reach C")
    assert not world.is_new()


MALFORMED = '; it must look like {"number": 1, "move_to": "broker-b"}'


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"number": 1}', b'{"number": 1, "move_to": "B", "x": 1}', b" " * 70_000]
)
def test_a_malformed_order_is_answered_and_counted(data: bytes) -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    effects = gate.handle(Ordered(client=ClientId("ann"), data=data))
    (answer,) = [each for each in effects if isinstance(each, PublishLocally)]
    assert answer.topic == layout.control(US, ClientId("ann"))
    told = decode_move(answer.payload)
    assert told.answer == "stayed"
    assert told.problem.endswith(MALFORMED) or "bytes, the bound is" in told.problem
    assert gate.counted("moves_refused") == {"malformed": 1}


def test_an_order_of_one_whose_name_is_too_long_is_counted_and_not_answered() -> None:
    gate = Gate(parts_of(A, B)).up(A, B)
    effects = gate.handle(Ordered(client=ClientId("x" * (ID_LENGTH_MAX + 1)), data=b'{"number": 1, "move_to": "B"}'))
    assert not [each for each in effects if isinstance(each, PublishLocally)]
    assert gate.counted("moves_refused") == {"client": 1}


@pytest.mark.parametrize(("data", "reason"), [(b"{", "malformed"), (b'{"number": 1, "move_to": "nobody"}', "order")])
def test_refused_orders_by_many_names_are_answered_at_a_pace_and_not_by_qos_1(data: bytes, reason: str) -> None:
    gate = Gate(replace(parts_of(), pace=Pace()))
    answers: list[PublishLocally] = []
    for number in range(ANSWERS_BURST + 10):
        effects = gate.handle(Ordered(client=ClientId(f"hostile-{number}"), data=data))
        answers += (each for each in effects if isinstance(each, PublishLocally))
    assert len(answers) == ANSWERS_BURST
    assert {each.qos for each in answers} == {0}
    assert gate.counted("moves_refused") == {reason: ANSWERS_BURST + 10}
