import random
from dataclasses import replace

import numpy as np

from mqloom.core.estimators import DelayModel
from mqloom.core.ids import ClientId
from mqloom.gateway.offload_interfaces import Group, OffloadBounds, OffloadTask
from mqloom.lab.offload_tasks import table_one
from mqloom.plugins.offload import output_offload


def task_of(groups: list[tuple[int, int, int, bool, list[int]]], accepting: int = 0) -> OffloadTask:
    """Groups as clients, subscribers, bits of eight, whether covered, what they cover; at brokers of table one."""
    task = table_one("output", random.Random(1))
    made = [
        Group([ClientId(f"{place}.{each}") for each in range(clients)], subscribers, 1, 100.0, True, covered, covers)
        for place, (clients, subscribers, _, covered, covers) in enumerate(groups)
    ]
    bits = np.array([[each[2]] for each in groups], dtype=np.uint64)
    profile = replace(task.profile, groups=made, bits=bits, accepting=np.array([accepting], dtype=np.uint64), samples=8)
    return replace(task, profile=replace(profile, input_rate=8.0))


def moved(task: OffloadTask) -> list[tuple[int, int]]:
    return [(card.group, card.number) for card in output_offload.choose(task).cards]


def test_it_is_offered_by_name() -> None:
    assert output_offload.mqloom_offload().name == "output"


def test_first_what_is_covered_there_and_then_what_leaves_the_smallest_difference() -> None:
    choice = output_offload.choose(table_one("output", random.Random(1)))
    assert [(card.group, card.number, card.is_covered) for card in choice.cards] == [(2, 4, True), (1, 2, False)]
    assert choice.reason == "done: output utilisation 0.350 here, 0.350 there"


def test_what_would_bring_too_much_input_does_not_go() -> None:
    task = table_one("output", random.Random(1))
    slow = replace(task.remote, delay=DelayModel(slope_s=0.04, base_s=0.0))
    choice = output_offload.choose(replace(task, remote=slow))
    assert [(card.group, card.number, card.is_covered) for card in choice.cards] == [(2, 4, True)]
    assert choice.reason.startswith("more would leave the other broker's input utilisation too far above ours: ")


def test_input_that_is_far_more_there_already_forbids_nobody_who_adds_next_to_nothing_to_it() -> None:
    """Or this broker would keep its output, and the other, for output, its input, for ever."""
    task = task_of([(1, 1, 0b1111_1111, True, []), (1, 1, 0b1111_1111, True, [])], accepting=0b1111_1111)
    local = replace(
        task.local, input_rate=8.0, subscriptions=16, delay=DelayModel(0.0001, 0.0), output_bytes_s=16_000.0
    )
    remote = replace(task.remote, input_rate=8.0, subscriptions=1_000, delay=DelayModel(0.00002, 0.0))
    wide = [replace(each, output_bytes_s_max=20_000.0) for each in (local, remote)]
    assert wide[1].input_ratio - wide[0].input_ratio > 0.1
    assert moved(replace(task, local=wide[0], remote=wide[1])) == [(0, 1), (1, 1)]


def test_who_takes_most_of_the_input_along_does_not_go_even_if_it_is_covered_there() -> None:
    """Of type I, and it alone would make outputs even; but then the input offload would send it back."""
    task = task_of([(1, 1, 0b1111_1110, True, []), (9, 9, 0b0000_0001, True, [])], accepting=0b1111_1111)
    delay = DelayModel(0.3 / 8 / 20, 0.0)
    local, remote = (replace(each, input_rate=8.0, subscriptions=20, delay=delay) for each in (task.local, task.remote))
    assert moved(replace(task, local=local, remote=remote)) == [(1, 5)]
    assert moved(replace(task, local=local, remote=remote, is_overloaded=True)) == [(0, 1)]


def test_types_go_in_their_order_however_near_they_come() -> None:
    task = task_of(
        [
            (1, 1, 0b0000_0011, True, []),  # type III: the next want the same
            (1, 2, 0b0000_0111, True, []),  # type II: another of them must stay
            (1, 1, 0b0000_1000, True, []),  # type I
        ],
        accepting=0b1111_1111,
    )
    assert moved(task) == [(2, 1), (1, 1)]  # three bits, and the last would make the difference larger
    assert moved(replace(task, local=replace(task.local, output_bytes_s=2_000.0))) == [(2, 1), (1, 1), (0, 1)]


def test_a_type_without_a_promising_group_does_not_end_the_phase() -> None:
    task = task_of([(1, 1, 0b1111_1100, True, []), (1, 1, 0b0000_0011, True, []), (1, 1, 0b0000_0011, True, [])], 0b11)
    remote = replace(task.remote, output_bytes_s=900.0)
    assert moved(replace(task, remote=remote)) == [(1, 1)]  # the first, of type I, would be too much


def test_what_hangs_below_what_was_moved_is_covered_then_and_brings_no_input() -> None:
    task = task_of([(1, 1, 0b0000_0111, False, [1]), (2, 2, 0b0000_0001, False, [])])
    choice = output_offload.choose(replace(task, local=replace(task.local, input_rate=12.0)))
    assert [(card.group, card.number, card.is_covered) for card in choice.cards] == [(0, 1, False), (1, 2, True)]
    assert [card.rate_added for card in choice.cards] == [3.0, 0.0]


def test_a_group_is_chosen_from_once() -> None:
    """Its rest would be covered by then, and go in Phase I, past the point at which input is balanced."""
    task = task_of([(10, 10, 0b0000_0001, False, [1]), (1, 1, 0, False, [])])
    local = replace(task.local, input_rate=12.0, output_bytes_s=4_000.0)
    choice = output_offload.choose(replace(task, local=local, bounds=OffloadBounds(reversal=0.0)))
    assert [(card.group, card.number) for card in choice.cards] == [(0, 9)]


def test_input_that_costs_more_than_half_of_what_is_gained_ends_the_second_phase() -> None:
    task = task_of([(4, 4, 0b0000_0001, False, [])])
    choice = output_offload.choose(replace(task, local=replace(task.local, input_rate=0.3)))
    assert [(card.group, card.number) for card in choice.cards] == [(0, 1)]
    assert choice.reason == "nobody is left who can be moved: output utilisation 0.550 here, 0.150 there"
    none = output_offload.choose(replace(task, local=replace(task.local, input_rate=0.1)))
    assert list(none.clients) == []
    assert none.reason == (
        "more would leave the other broker's input utilisation too far above ours: "
        "output utilisation 0.600 here, 0.100 there"
    )


def test_an_overloaded_output_goes_on_until_it_is_below_the_threshold() -> None:
    task = task_of([(4, 4, 0b0000_0001, False, [])])
    local = replace(task.local, input_rate=0.3, output_bytes_s=1_999.0)
    assert moved(replace(task, local=local)) == [(0, 1)]
    choice = output_offload.choose(replace(task, local=local, is_overloaded=True))
    assert [(card.group, card.number) for card in choice.cards] == [(0, 2)]
    assert choice.reason == "done: no longer overloaded, output utilisation 0.899 here, 0.200 there"


def test_nothing_is_moved_when_output_is_balanced() -> None:
    task = table_one("output", random.Random(1))
    choice = output_offload.choose(replace(task, remote=replace(task.remote, output_bytes_s=1_195.0)))
    assert list(choice.clients) == []
    assert choice.reason.startswith("nothing to do: ")
