import random
from collections import Counter
from dataclasses import replace

import pytest

from mqloom.core.estimators import BrokerEstimate
from mqloom.gateway.offload_interfaces import OffloadBounds
from mqloom.lab.offload_tasks import made_up_task, table_one
from mqloom.plugins.offload import random_offload
from mqloom.plugins.offload.random_offload import number_of

BROKER = table_one("output", random.Random(1)).local


def with_output(ratio: float, subscriptions: int) -> BrokerEstimate:
    return replace(BROKER, subscriptions=subscriptions, output_bytes_s=ratio * 2_000.0)


def test_it_is_offered_by_name() -> None:
    assert random_offload.mqloom_offload().name == "random"


@pytest.mark.parametrize(
    ("ours", "theirs", "number"),
    [
        ((0.6, 100), (0.2, 20), 27),  # 100 - 0.4 * 100 / 0.6 = 33.3 and 0.4 * 20 / 0.2 - 20 = 20: their mean
        ((0.6, 100), (0.0, 20), 50),  # no load to go by: the first alone
        ((0.6, 100), (0.01, 90), 49),  # the second is more than there are: the first alone
        ((0.6, 100), (0.2, 0), 17),
        ((0.2, 100), (0.6, 10), 0),
        ((0.5, 100), (0.5, 10), 0),
        ((0.6, 0), (0.2, 10), 0),
    ],
)
def test_the_number_of_subscriptions_is_the_mean_of_two(
    ours: tuple[float, int], theirs: tuple[float, int], number: int
) -> None:
    assert number_of("output", with_output(*ours), with_output(*theirs)) == number


def test_the_same_randomness_draws_the_same() -> None:
    one, two = (random_offload.choose(table_one("output", random.Random(8))) for _ in range(2))
    assert one == two
    assert list(one.clients) == ["c4", "b1", "b3", "d1", "a1"]
    assert one.reason == "5 of 5 subscriptions drawn: output utilisation 0.275 here, 0.425 there"


def test_everybody_is_drawn_as_often_as_anybody_else() -> None:
    drawn = Counter(
        client
        for seed in range(2_000)
        for client in random_offload.choose(table_one("output", random.Random(seed))).clients
    )
    assert len(drawn) == 10
    assert all(900 < number < 1_100 for number in drawn.values())


def test_clients_with_several_subscriptions_are_drawn_until_the_number_is_reached() -> None:
    for seed in range(20):
        task = made_up_task("output", random.Random(seed), groups=30)
        wanted = number_of("output", task.local, replace(task.remote, output_bytes_s=0.0))
        choice = random_offload.choose(replace(task, remote=replace(task.remote, output_bytes_s=0.0)))
        drawn = task.local.subscriptions - choice.local.subscriptions
        assert wanted <= drawn < wanted + 3 or len(choice.clients) == sum(
            len(each.clients) for each in task.profile.groups
        )


def test_it_may_overload_the_other_broker() -> None:
    task = table_one("output", random.Random(3))
    brokers = [replace(each, output_bytes_s_max=800.0) for each in (task.local, task.remote)]
    choice = random_offload.choose(replace(task, local=brokers[0], remote=brokers[1]))
    assert choice.remote.output_ratio > 0.9


def test_no_more_are_drawn_than_may_be_moved() -> None:
    choice = random_offload.choose(table_one("output", random.Random(8), OffloadBounds(moves_max=2)))
    assert len(choice.clients) == 2
