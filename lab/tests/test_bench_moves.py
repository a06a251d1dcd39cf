"""Which delays are a move's, and what it adds: counted by hand."""

from array import array

import pytest

from mqloom.lab.bench_moves import Span, Travelled, delays, last_end, out_of_order
from mqloom.lab.bench_quotes import Came, Sent

FIRST = 100
SENT = Sent(FIRST, array("d", [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), 5.0)


def travelled(came: dict[int, float], *moves: Span) -> Travelled:
    return Travelled(Came(array("q", came), array("d", came.values())), moves)


def test_what_a_move_adds_is_told_against_the_calm_delays_of_the_same_subscriber() -> None:
    near = travelled({100: 0.1, 101: 1.1, 103: 3.4}, (2.9, 3.5))
    far = travelled({100: 0.3, 101: 1.3, 103: 3.5}, (2.9, 3.5))
    found = delays(SENT, [near, far], [(0.0, 2.0)])
    assert found.calm == pytest.approx([0.1, 0.1, 0.3, 0.3])
    assert found.moving == pytest.approx([0.4, 0.5])
    assert found.added == pytest.approx([0.2, 0.3])
    assert found.added_ms(0.5) == pytest.approx(300)
    assert found.added_ms_max == pytest.approx(300)


def test_what_was_under_way_when_a_move_began_or_ended_counts_as_moved() -> None:
    before = travelled({102: 3.0}, (2.9, 3.5))
    after = travelled({103: 4.2}, (2.9, 3.5))
    around = travelled({102: 4.0}, (2.9, 3.5))
    found = delays(SENT, [before, after, around], [])
    assert found.moving == pytest.approx([1.0, 1.2, 2.0])
    assert found.calm == []


def test_what_came_while_only_others_were_moved_is_neither() -> None:
    found = delays(SENT, [travelled({103: 3.2}), travelled({103: 3.2}, (2.9, 3.1))], [(0.0, 2.5), (3.5, 5.0)])
    assert found.moving == pytest.approx([0.2])
    assert found.calm == []


def test_each_of_several_moves_and_pauses_counts() -> None:
    one = travelled({100: 0.1, 101: 1.5, 102: 2.1, 103: 3.6, 104: 4.1}, (0.9, 1.6), (2.9, 3.7))
    found = delays(SENT, [one], [(0.0, 0.8), (1.8, 2.8), (3.9, 5.0)])
    assert found.calm == pytest.approx([0.1, 0.1, 0.1])
    assert found.added == pytest.approx([0.4, 0.5])


def test_who_has_no_calm_delay_is_told_against_everybodys() -> None:
    found = delays(SENT, [travelled({100: 0.2}), travelled({103: 3.5}, (2.9, 3.6))], [(0.0, 2.0)])
    assert found.added == pytest.approx([0.3])


def test_of_nothing_there_is_no_figure() -> None:
    found = delays(SENT, [travelled({})], [(0.0, 2.0)])
    assert found.added_ms(0.99) is None
    assert found.added_ms_max is None


def test_what_was_not_published_in_this_run_has_no_delay() -> None:
    assert delays(SENT, [travelled({99: 1.0, 106: 1.0}, (0.0, 5.0))], [(0.0, 5.0)]).moving == []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], 0), ([1, 2, 3], 0), ([1, 3, 2], 1), ([3, 1, 2], 2), ([1, 2, 1], 0), ([1, 3, 2, 2, 4], 1)],
)
def test_out_of_order_is_what_came_behind_a_later_one_for_the_first_time(numbers: list[int], expected: int) -> None:
    assert out_of_order(Came(array("q", numbers), array("d", [0.0] * len(numbers)))) == expected


def test_a_wave_is_over_when_the_last_of_its_moves_is() -> None:
    crowd = [travelled({}, (1.0, 2.0), (6.0, 7.0)), travelled({}, (1.5, 3.0))]
    assert last_end(crowd, (0.5, 4.0)) == 3.0
    assert last_end(crowd, (8.0, 9.0)) == 9.0
