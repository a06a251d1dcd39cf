"""The experiment on moves draws what it says, counts right, and notices what it is for."""

from collections.abc import Sequence

import pytest

from mqloom.core.ids import GatewayId
from mqloom.gateway import moves
from mqloom.gateway.moves import Moves
from mqloom.gateway.traffic import Traffic
from mqloom.lab.experiment import tell_nobody
from mqloom.lab.experiments import publiy_move
from mqloom.lab.experiments.publiy_move import Outcome, carry_out, draw, shake
from mqloom.lab.node_builders import weaving_settings
from mqloom.lab.plan import Plan
from mqloom.lab.world import World

STEPS = [(10.0, "asking"), (10.1, "freezing"), (11.0, "linking"), (12.0, "moved")]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publiy_move, "RUNS_QUICK", 1)


def missed(seed: int = 1) -> set[str]:
    return {row.name for row in publiy_move.run(seed, True, tell_nobody).rows if not row.ok}


def plans(count: int = 200) -> Sequence[Plan]:
    return [draw(f"test {number}") for number in range(count)]


# ---- what is drawn -------------------------------------------------------------------------------------------------


def test_trees_of_three_to_eight_gateways_are_drawn_and_everybody_publishes_and_subscribes() -> None:
    drawn = plans()
    assert {len(plan.gateways) for plan in drawn} == set(range(3, 9))
    for plan in drawn:
        assert len(plan.links) == len(plan.gateways) - 1
        assert [each.gateway for each in plan.subscribers] == list(plan.publishers.values()) == list(plan.gateways)
        assert plan.publications[0].at < publiy_move.ORDER_S < plan.publications[-1].at
    assert draw("test 1") == draw("test 1")


def test_every_order_is_to_one_on_the_map_that_is_no_neighbour() -> None:
    hops = set()
    for plan in plans():
        (move,) = plan.moves
        way = publiy_move._way(plan, move.gateway, move.to)
        assert 3 <= len(way) <= int(str(weaving_settings(plan, move.gateway)["delta"])) + 1
        hops.add(len(way) - 1)
    assert hops == {2, 3, 4, 5}


def test_what_goes_wrong_does_so_in_any_of_the_steps_and_befalls_all_kinds_of_gateways() -> None:
    seen = set()
    for plan in plans():
        (fault,) = shake(plan, STEPS).faults
        assert STEPS[0][0] <= fault.at <= STEPS[-1][0]
        assert fault.lasts_s <= max(publiy_move.LAST_S)
        step = [name for at, name in STEPS if at <= fault.at][-1]
        seen.add((step, fault.kind))
    assert seen == {(step, kind) for _, step in STEPS[:-1] for kind in publiy_move.FAULTS}


# ---- what is counted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "held_s"),
    [
        ([], 0.0),
        (["linking", "stayed"], 0.0),
        (["holding", "keeping", "leaving", "moved"], 2.0),
        (["holding", "settling", "holding", "keeping", "leaving"], 2.0),
        (["holding", "keeping"], 1.0),
        (["holding"], 0.0),
    ],
)
def test_how_long_publications_were_held(steps: list[str], held_s: float) -> None:
    outcome = Outcome(draw("test"), steps=[(float(at), step) for at, step in enumerate(steps)])
    assert outcome.held_s == held_s
    assert outcome.took_s == max(0, len(steps) - 1)


def test_nothing_is_missed() -> None:
    assert missed() == set()


def test_it_draws_the_delays_around_the_move() -> None:
    picture = publiy_move.run(1, True, tell_nobody).picture
    assert picture is not None
    (moving, holding) = picture.spans
    assert moving[0] <= holding[0] <= holding[1] <= moving[1]
    for panel in picture.panels:
        times = [at for at, _ in panel.curves[0].points]
        assert times[0] < moving[0] < moving[1] < times[-1]


# ---- what it notices -----------------------------------------------------------------------------------------------


def test_it_notices_what_is_lost_on_the_way_to_the_new_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Traffic, old: GatewayId, new: GatewayId) -> None:
        for entry in self._flows[old].take_all():
            if entry.duty is not None:
                self._custody.meet(entry.duty)

    monkeypatch.setattr(Traffic, "divert", forget)
    found = [carry_out(plan) for plan in plans(3)]
    assert sum(outcome.lost for outcome in found) > 0
    assert any("missed" in text for outcome in found for text in outcome.wrong)


@pytest.mark.full
def test_it_notices_what_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuttering(World):
        def settle(self) -> bool:
            for subscriber in self.subscribers.values():
                subscriber.life.delivered.extend(subscriber.life.delivered[:1])
            return super().settle()

    monkeypatch.setattr(publiy_move, "World", Stuttering)
    names = {"delivered twice", "delivered twice, with a crash", "at rest: no tree, or not as it should be"}
    assert missed() == names


@pytest.mark.full
def test_it_notices_an_old_neighbour_that_does_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moves, "parted", lambda self, neighbour, number: None)
    assert "at rest: no tree, or not as it should be" in missed()


@pytest.mark.full
def test_it_notices_orders_that_are_not_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOVE_S", 0.001)
    assert missed() == {"orders that ended in the new network"}
