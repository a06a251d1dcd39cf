import random
from dataclasses import replace

import pytest

from mqloom.core.ids import ClientId
from mqloom.gateway.offload_interfaces import OffloadBounds
from mqloom.lab.offload_tasks import table_one
from mqloom.plugins.offload import input_offload


def test_it_is_offered_by_name() -> None:
    assert input_offload.mqloom_offload().name == "input"


def test_the_covering_group_goes_first_and_then_some_of_those_it_covered() -> None:
    task = table_one("input", random.Random(1))
    choice = input_offload.choose(task)
    assert [(card.group, card.number) for card in choice.cards] == [(0, 2), (2, 1)]
    assert choice.reason == "no further move makes the difference smaller: input utilisation 0.280 here, 0.250 there"


def test_without_overload_output_is_not_reversed_so_far_that_it_comes_back() -> None:
    task = table_one("input", random.Random(1))
    even = replace(task, remote=replace(task.remote, output_bytes_s=1_150.0))
    choice = input_offload.choose(even)
    assert list(choice.clients) == ["d1", "c1", "c2", "c3"]  # not a1 and a2, with whom most of the output would go
    assert choice.remote.output_ratio - choice.local.output_ratio - 0.05 <= (0.54 - choice.cards[-1].difference) / 2
    overloaded = input_offload.choose(replace(even, is_overloaded=True))
    assert list(overloaded.clients) == ["a1", "a2", "c1"]


def test_output_that_is_far_more_there_already_forbids_nobody_who_gets_next_to_nothing() -> None:
    task = table_one("input", random.Random(1))
    groups = [group._replace(bytes_each=0.1) for group in task.profile.groups]
    full = replace(task.remote, output_bytes_s=1_700.0)
    choice = input_offload.choose(replace(task, profile=replace(task.profile, groups=groups), remote=full))
    assert full.output_ratio - task.local.output_ratio > 0.2
    assert choice.cards[-1].difference < 0.05


def test_who_brings_input_there_and_leaves_as_much_here_does_not_go_for_that() -> None:
    """Two of the covering set, of which one must stay: to move the other would raise input there and relieve nobody."""
    task = table_one("input", random.Random(1))
    groups = [task.profile.groups[0]._replace(clients=[ClientId("a1")]), *task.profile.groups[1:]]
    choice = input_offload.choose(replace(task, profile=replace(task.profile, groups=groups)))
    assert "a1" not in choice.clients
    assert list(choice.clients) == ["d1", "c1", "c2", "c3"]


def test_a_group_that_would_leave_the_other_with_far_more_does_not_go_since_others_come_nearer() -> None:
    choice = input_offload.choose(table_one("input", random.Random(1)))
    assert "d1" not in choice.clients  # it would leave 0.09 more there
    assert choice.cards[-1].difference == pytest.approx(0.03)


def test_if_nobody_who_brings_input_can_go_those_with_the_least_traffic_do() -> None:
    task = table_one("input", random.Random(1))
    groups = [
        group if place in (1, 2) else group._replace(clients=[]) for place, group in enumerate(task.profile.groups)
    ]
    choice = input_offload.choose(replace(task, profile=replace(task.profile, groups=groups)))
    assert list(choice.clients) == ["c1", "c2", "c3", "c4"]
    assert choice.remote.delay_s - choice.local.delay_s <= 0.009
    assert choice.reason.startswith("more would leave the other broker's matching delay or output utilisation too far")


def test_it_ends_when_as_many_were_moved_as_may_be() -> None:
    choice = input_offload.choose(table_one("input", random.Random(1), OffloadBounds(moves_max=1)))
    assert len(choice.clients) == 1
    assert choice.reason.startswith("no more may be moved in one session: ")


def test_a_broker_that_has_less_gives_nothing() -> None:
    task = table_one("input", random.Random(1))
    choice = input_offload.choose(replace(task, local=task.remote, remote=task.local))
    assert list(choice.clients) == []
    assert choice.reason == "nothing to do: input utilisation 0.060 here, 0.600 there"


def test_a_broker_without_room_gets_nobody() -> None:
    task = table_one("input", random.Random(1))
    choice = input_offload.choose(replace(task, remote=replace(task.remote, memory_beside=0.91)))
    assert list(choice.clients) == []
    assert choice.reason.startswith("the other broker has no room for more: ")


def test_nobody_to_move_is_no_problem() -> None:
    task = table_one("input", random.Random(1))
    profile = replace(task.profile, groups=[], bits=task.profile.bits[:0])
    assert list(input_offload.choose(replace(task, profile=profile)).clients) == []
