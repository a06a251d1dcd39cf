import random
from dataclasses import replace

from mqloom.lab.offload_tasks import table_one
from mqloom.plugins.offload import match_offload


def test_it_is_offered_by_name() -> None:
    assert match_offload.mqloom_offload().name == "match"


def test_those_with_the_least_traffic_go() -> None:
    choice = match_offload.choose(table_one("match", random.Random(1)))
    assert list(choice.clients) == ["c1", "c2", "c3", "c4"]  # as little as d1, which would bring additional input
    assert choice.reason == "done: matching delay 120 ms here, 120 ms there"
    assert choice.cards[0].difference == 0.0


def test_of_the_same_traffic_what_brings_least_input_goes_first() -> None:
    task = table_one("match", random.Random(1))
    remote = replace(task.remote, subscriptions=0)
    choice = match_offload.choose(replace(task, remote=remote))
    assert list(choice.clients) == ["c1", "c2", "c3", "c4", "d1"]


def test_an_overloaded_broker_goes_on_until_it_is_below_the_threshold() -> None:
    task = table_one("match", random.Random(1))
    local = replace(task.local, cpu_beside=0.45)  # 1.05: 8 subscriptions less would be far more than balance needs
    remote = replace(task.remote, subscriptions=9)  # the delays are nearly balanced already
    balanced = match_offload.choose(replace(task, local=local, remote=remote))
    assert len(balanced.clients) == 0
    relieved = match_offload.choose(replace(task, local=local, remote=remote, is_overloaded=True))
    assert list(relieved.clients) == ["c1", "c2", "c3"]
    assert relieved.local.cpu_ratio < 0.9
    assert relieved.reason == "done: the fullest of processor, input and memory 0.870 here, 0.360 there"


def test_memory_falls_as_far_as_it_is_known_what_a_subscription_takes() -> None:
    task = replace(table_one("match", random.Random(1)), is_overloaded=True)
    known = replace(task.local, memory_beside=0.46, memory_each=0.05)
    choice = match_offload.choose(replace(task, local=known))
    assert choice.local.memory_ratio < 0.9
    assert len(choice.clients) == 2
    unknown = replace(task.local, memory_beside=0.96)
    assert list(match_offload.choose(replace(task, local=unknown)).clients) == []
