"""Moves in which something goes wrong, in each step: links that break, crashes, waves, farewells that are not heard."""

import pytest

from mqloom.core.events import (
    AcksReceived,
)
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import HOLD_S, MOVE_S
from mqloom.core.records import PlaceLink
from mqloom.core.wire import Ack, encode_ack
from mqloom.gateway.links import LinkState
from mqloom.gateway.moves import LEAVE_S
from mqloom.lab import checkers
from mqloom.lab.moving import MOVED, STEPS, Federation, stayed
from mqloom.lab.plan import PublicationPlan

# ---- trouble in each step ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_when_the_link_to_the_old_neighbour_is_lost_it_stays_until_the_new_place_is_kept(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("A", "N")
    world.wait(8.0)
    world.heal("A", "N")
    if step in ("keeping", "leaving"):
        assert world.end() == MOVED
        assert world.is_new()
    else:
        assert world.end() == stayed("the link to N was lost")
        assert not world.is_new()


@pytest.mark.parametrize("step", STEPS[2:])
def test_when_the_link_to_the_new_neighbour_is_lost_it_stays_until_the_new_place_is_kept(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("A", "B")
    world.wait(8.0)
    world.heal("A", "B")
    answer = world.end()
    if step in ("keeping", "leaving"):
        assert answer == MOVED
    elif step == "linking":  # it is waited for, and has come
        assert answer.answer == ("moved" if world.is_new() else "stayed")
    else:
        assert answer == stayed("the link to B was lost")
    assert world.is_new() == (answer == MOVED)


@pytest.mark.parametrize("step", ["linking", "sweeping"])
def test_a_move_that_takes_too_long_ends_where_it_began(step: str) -> None:
    world = Federation().order().until(step)
    world.cut("N", "P")  # whatever goes along the path waits there
    world.wait(MOVE_S)
    world.heal("N", "P")
    answer = world.end()
    assert answer.problem == f"it took longer than {MOVE_S:g} s: it was {world.steps[-2]}"
    assert not world.is_new()


def test_what_is_held_too_long_is_let_go_and_held_again() -> None:
    world = Federation().order().until("holding")
    world.cut("N", "P")
    world.wait(HOLD_S + 0.1)
    assert world.steps[-2:] == ["settling", "holding"]
    world.heal("N", "P")
    assert world.end() == MOVED


def test_a_flush_that_comes_by_ends_the_holding_and_it_begins_again_behind_it() -> None:
    world = Federation().order().until("holding")
    world.world.subscribers["sub-M"].close()
    world.wait(2.0)
    assert world.steps == [*STEPS[:6], "settling", "holding", "keeping", "leaving"]
    assert world.answers[-1] == MOVED
    world.world.settle()
    assert list(checkers.at_rest(world.world)) == []
    assert checkers.judge(world.world).findings == []


def leave_while(step: str, after_s: float, *, own_latency_s: float = 0.000_2) -> Federation:
    """Let M, a leaf, move from A to N; it holds something when the subscriber at A leaves, which waits for that."""
    world = Federation().order("N", of="M").until("holding")
    publication = PublicationPlan(at=0.0, publisher="pub-M", number=1_000, topic="stocks/a", attributes={})
    world.world._publish(publication)
    world.wait(0.01)
    world.world.paths["M~"].quality.latency_s = own_latency_s
    if step == "holding":
        world.wait(after_s)
    else:
        world.until(step)
    world.world.subscribers["sub-A"].close()
    world.wait(3.0)
    world.world.settle()
    assert [*checkers.at_rest(world.world), *checkers.judge(world.world).findings] == []
    return world


@pytest.mark.parametrize("after_ms", range(0, 100, 10))
def test_who_leaves_while_something_is_held_for_it_gets_that_before_it_has_ended(after_ms: int) -> None:
    """The gateway that moves is a leaf, which answers a flush at once: and the answer was held, and sent elsewhere."""
    leave_while("holding", after_ms / 1_000)


@pytest.mark.parametrize("after_ms", range(0, 100, 10))
def test_who_leaves_while_the_new_place_is_being_kept_gets_what_is_held(after_ms: int) -> None:
    world = leave_while("holding", after_ms / 1_000, own_latency_s=0.05)
    assert "keeping" in world.steps


@pytest.mark.parametrize("name", ["sub-M", "sub-A", "sub-N", "sub-C"])
def test_whoever_leaves_just_when_the_new_place_is_being_kept_misses_nothing(name: str) -> None:
    world = Federation().order("N", of="M").until("keeping")
    node = world.world.gateways["M"].node
    assert node is not None
    world.world.subscribers[name].close()
    world.wait(3.0)
    world.world.settle()
    assert [*checkers.at_rest(world.world), *checkers.judge(world.world).findings] == []


def test_one_that_crashes_meanwhile_keeps_off_the_path_when_it_is_back_until_the_move_is_over() -> None:
    """Else its soft links would follow a map of the old network into the new one, and both would leave somebody out."""
    world = Federation().order().until("holding")
    world.world.subscribers["sub-N"].close()  # a wave that waits: the move goes on when it is over
    world.cut("N", "P")
    world.world.gateways["M"].crash(lambda: 0.0)
    world.wait(0.1)
    world.world.gateways["M"].start()
    world.wait(1.0)
    node = world.world.gateways["M"].node
    assert node is not None
    assert node.link_states() == {GatewayId("A"): LinkState.UP}
    assert not node._freezes.is_free
    world.heal("N", "P")
    world.wait(60.0)
    world.world.settle()
    assert list(checkers.at_rest(world.world)) == []
    assert checkers.judge(world.world).findings == []
    assert all(each.node is not None and each.node._freezes.is_free for each in world.world.gateways.values())


# ---- farewell ------------------------------------------------------------------------------------------------------


def test_an_old_neighbour_that_does_not_hear_the_farewell_hears_it_when_it_asks() -> None:
    world = Federation().order().until("leaving")
    world.world.link_path("A", "N").cut(lambda: 20.0)
    world.wait(LEAVE_S + 1.0)
    assert world.answers[-1] == MOVED
    world.wait(5.0)
    world.world.link_path("A", "N").heal()
    assert world.end() == MOVED
    assert world.is_new()


def test_a_new_neighbour_whom_nobody_tells_that_the_gateway_stays_hears_it_when_it_asks() -> None:
    """It has taken it on, and then the gateway crashes: nobody says farewell."""
    world = Federation().order().until("sweeping")
    world.world.gateways["A"].crash(lambda: 0.0)
    world.wait(1.0)
    assert "A" in world.neighbours("B")
    world.world.gateways["A"].start()
    world.wait(3.0)
    assert "A" not in world.neighbours("B")
    world.order()
    assert world.end() == MOVED
    assert world.is_new()
    assert world.kept("A")[-1] == PlaceLink(GatewayId("B"), 2, True, (GatewayId("A"), GatewayId("N")))


def test_one_on_the_path_that_says_farewell_meanwhile_is_heard_when_the_move_is_over() -> None:
    world = Federation().order().until("sweeping")
    parted = encode_ack(Ack(GatewayId("N"), Conversation(1, 0), 0, 0, (), 99))
    world.world.gateways["A"]._handle(AcksReceived(neighbour=GatewayId("N"), acks=(parted,)))
    assert "N" in world.neighbours("A")
    assert world.end() == MOVED
