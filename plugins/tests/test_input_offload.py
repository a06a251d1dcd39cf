import random
from dataclasses import replace

from mqloom.gateway.offload_interfaces import OffloadBounds
from mqloom.lab.offload_tasks import table_one
from mqloom.plugins.offload import input_offload


def test_it_is_offered_by_name() -> None:
    assert input_offload.mqloom_offload().name == "input"


def test_the_covering_group_goes_first_and_then_some_of_those_it_covered() -> None:
    task = table_one("input", random.Random(1))
    choice = input_offload.choose(replace(task, is_overloaded=True))
    assert [(card.group, card.number) for card in choice.cards] == [(0, 2), (1, 1)]
    assert choice.reason == "no further move makes the difference smaller: input utilisation 0.280 here, 0.250 there"


def test_without_overload_output_is_not_reversed_so_far_that_it_comes_back() -> None:
    choice = input_offload.choose(table_one("input", random.Random(1)))
    assert [(card.group, card.number) for card in choice.cards] == [(0, 2), (2, 1)]
    assert choice.remote.output_ratio - choice.local.output_ratio < 0.09
    strict = input_offload.choose(table_one("input", random.Random(1), OffloadBounds(reversal=0.0)))
    assert strict.remote.output_ratio - strict.local.output_ratio < 0.005


def test_who_is_covered_does_not_go_while_that_one_stays() -> None:
    task = table_one("input", random.Random(1))
    groups = [task.profile.groups[0]._replace(clients=[]), *task.profile.groups[1:]]
    choice = input_offload.choose(replace(task, profile=replace(task.profile, groups=groups)))
    assert list(choice.clients) == ["d1"]
    assert choice.reason.startswith("nobody is left who can be moved: ")


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
