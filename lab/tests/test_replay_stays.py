import numpy as np

from mqloom.core.ids import GatewayId
from mqloom.lab.padres_workload import Stay
from mqloom.lab.replay_stays import stays_of

A, B = GatewayId("A"), GatewayId("B")
EVER = float("inf")


def stays(a: list[int], b: list[int]) -> list[Stay]:
    return sorted(stays_of({A: np.array(a), B: np.array(b)}, 10.0))


def test_who_is_there_from_the_beginning_joins_where_it_was() -> None:
    assert stays([2, 2, 2, 2], [1, 1, 1, 1]) == [Stay(0.0, EVER, A), Stay(0.0, EVER, A), Stay(0.0, EVER, B)]


def test_who_comes_later_joins_then_and_who_leaves_leaves() -> None:
    assert stays([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], [0] * 10) == [Stay(20.0, 60.0, A)]


def test_a_move_is_no_news() -> None:
    assert stays([2, 2, 2, 1, 1, 0, 0], [0, 0, 0, 1, 1, 2, 2]) == [Stay(0.0, EVER, A)] * 2


def test_while_somebody_moves_it_is_at_both_and_counts_once() -> None:
    assert stays([1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]) == [Stay(0.0, EVER, A)]
