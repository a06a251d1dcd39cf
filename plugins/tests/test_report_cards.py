"""Report cards by hand: the paper's Table I, and what restrains the number of clients."""

import random
from dataclasses import replace

import numpy as np
import pytest

from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId
from mqloom.core.load import METRICS
from mqloom.gateway.offload_interfaces import Group, OffloadBounds, OffloadTask, Profile
from mqloom.lab.offload_tasks import made_up_task, table_one
from mqloom.plugins.offload.aims import Balance
from mqloom.plugins.offload.ledger import Ledger, unpack
from mqloom.plugins.offload.report_cards import Reports, report


def task_of(clients: int, local_bytes_s: float, remote_bytes_s: float, **bounds: float) -> OffloadTask:
    """Clients of one group that get 10 bytes a second each, at brokers that can send 1,000."""
    group = Group([ClientId(str(each)) for each in range(clients)], clients, 1, 10.0, True, True, [])
    brokers = [
        BrokerEstimate(
            input_rate=1.0, subscriptions=0, delay=DelayModel(0, 0), output_bytes_s=sent, output_bytes_s_max=1_000.0
        )
        for sent in (local_bytes_s, remote_bytes_s)
    ]
    one = np.array([[1]], dtype=np.uint64)
    return OffloadTask(
        metric="output",
        profile=Profile([group], one, one[0], samples=1, input_rate=1.0),
        local=brokers[0],
        remote=brokers[1],
        is_overloaded=False,
        bounds=OffloadBounds(**bounds),  # type: ignore[arg-type] # moves_max is not among them
        randomness=random.Random(1),
    )


def reports(task: OffloadTask) -> Reports:
    ledger = Ledger(task)
    return report(ledger, Balance(task.metric, task.bounds), np.ones(len(ledger.groups), dtype=np.bool_))


def test_rates_are_those_of_table_one() -> None:
    ledger = Ledger(table_one("input", random.Random(1)))
    assert list(ledger.bytes_s / 100) == [2.5, 1.5, 0.5, 0.5]
    assert list(ledger.added) == [1.0, 0.5, 0.0, 0.5]
    assert list(ledger.reduced) == [1.0, 0.0, 0.0, 0.5]


def test_what_was_moved_is_wanted_there_from_then_on() -> None:
    ledger = Ledger(table_one("input", random.Random(1)))
    ledger.move(1, 1, 0.0)
    assert list(ledger.added) == [0.5, 0.0, 0.0, 0.5]
    assert ledger.remote.input_rate == 2.0


def test_input_does_not_fall_by_what_comes_in_whoever_goes() -> None:
    task = table_one("input", random.Random(1))
    staying = np.array([0b010111], dtype=np.uint64)  # all that only `a` wants, and nothing of `d`
    ledger = Ledger(replace(task, profile=replace(task.profile, staying=staying)))
    assert list(ledger.reduced) == [0.0, 0.0, 0.0, 0.5]
    ledger.move(0, 2, 0.0)
    assert ledger.local.input_rate == task.local.input_rate
    ledger.move(1, 3, 0.0)
    ledger.move(2, 4, 0.0)
    assert ledger.local.input_rate == task.local.input_rate - 0.5  # the one that nobody publishes here


def test_input_falls_when_the_last_who_wanted_it_goes() -> None:
    ledger = Ledger(table_one("input", random.Random(1)))
    ledger.move(0, 1, 0.0)
    assert ledger.local.input_rate == 3.0
    ledger.move(0, 1, 0.0)
    assert ledger.local.input_rate == 2.0
    assert list(ledger.reduced)[1:3] == [1.0, 0.0]  # two bits are now wanted by nobody but the second group


def test_who_must_stay_keeps_the_input() -> None:
    task = table_one("input", random.Random(1))
    groups = [task.profile.groups[0]._replace(subscribers=3), *task.profile.groups[1:]]
    ledger = Ledger(replace(task, profile=replace(task.profile, groups=groups)))
    ledger.move(0, 2, 0.0)
    assert ledger.local.input_rate == 3.0
    assert not ledger.maximal[1]


def test_what_hung_below_a_group_that_is_gone_is_maximal_here_and_covered_there() -> None:
    ledger = Ledger(table_one("input", random.Random(1)))
    assert list(ledger.maximal) == [True, False, False, True]
    assert list(ledger.covered) == [False, False, True, False]
    ledger.move(0, 2, 0.0)
    assert list(ledger.maximal) == [True, True, True, True]
    assert list(ledger.covered) == [True, True, True, False]


def test_what_hangs_below_two_is_maximal_when_both_are_gone() -> None:
    task = table_one("input", random.Random(1))
    groups = list(task.profile.groups)
    groups[3] = groups[3]._replace(covers=[1])
    ledger = Ledger(replace(task, profile=replace(task.profile, groups=groups)))
    ledger.move(0, 2, 0.0)
    assert list(ledger.maximal) == [True, False, True, True]
    ledger.move(3, 1, 0.0)
    assert ledger.maximal.all()


def test_of_two_who_want_the_same_the_second_takes_the_input_along() -> None:
    task = table_one("input", random.Random(1))
    bits = np.array([[0b11], [0b11], [0b1], [0b1000]], dtype=np.uint64)
    ledger = Ledger(replace(task, profile=replace(task.profile, bits=bits)))
    assert list(ledger.reduced) == [0.0, 0.0, 0.0, 0.5]
    ledger.move(0, 2, 0.0)
    assert list(ledger.reduced)[1:3] == [0.5, 0.0]
    ledger.move(2, 4, 0.0)
    assert ledger.reduced[1] == 1.0
    assert ledger.local.input_rate == 3.0


@pytest.mark.parametrize(
    ("clients", "local", "remote", "number", "difference"),
    [
        (100, 500.0, 100.0, 20, 0.0),  # 20 clients make them equal
        (100, 510.0, 100.0, 20, 0.01),  # 20 leave 10 bytes more here, 21 leave 10 more there: the fewer
        (100, 512.0, 100.0, 21, -0.008),  # the nearer, though it is below
        (100, 508.0, 100.0, 20, 0.008),
        (7, 500.0, 100.0, 7, 0.26),  # all that there are
        (100, 950.0, 880.0, 2, 0.03),  # a third would overload the other broker
        (100, 950.0, 900.0, 0, 0.05),
    ],
)
def test_the_number_is_what_balance_needs_and_the_other_broker_has_room_for(
    clients: int, local: float, remote: float, number: int, difference: float
) -> None:
    found = reports(task_of(clients, local, remote))
    assert found.number[0] == number
    if number:
        assert found.difference[0] == pytest.approx(difference)


def test_a_difference_within_the_threshold_is_enough() -> None:
    assert reports(task_of(100, 500.0, 100.0, balance=0.1)).number[0] == 15


def test_a_move_that_would_make_the_difference_larger_is_not_promising() -> None:
    found = reports(task_of(1, 504.0, 500.0, balance=0.0))
    assert found.number[0] == 1
    assert not found.is_promising[0]
    assert found.best([found.difference]) is None


def test_nobody_is_moved_who_relieves_nobody() -> None:
    """A group of which one must stay only brings the other broker input, while delays do not change."""
    task = table_one("input", random.Random(1))
    groups = [group._replace(subscribers=9) for group in task.profile.groups]
    flat = DelayModel(0.0, 0.2)
    brokers = [replace(broker, delay=flat) for broker in (task.local, task.remote)]
    found = reports(replace(task, profile=replace(task.profile, groups=groups), local=brokers[0], remote=brokers[1]))
    assert list(found.number) != [0, 0, 0, 0]
    assert not found.is_promising.any()


def test_ties_are_decided_by_the_next_key_and_then_by_place() -> None:
    groups = np.array([5, 6, 7, 8])
    yes = np.array([True, True, True, False])
    found = Reports(groups, np.array([3, 2, 2, 1]), np.zeros(4), yes)
    assert found.best([found.difference, found.number]) == 1
    assert found.best([found.difference, found.number], among=np.array([True, False, False, True])) == 0


def test_a_trial_says_to_the_bit_what_an_estimate_says() -> None:
    for seed in range(30):
        task = made_up_task("output", random.Random(seed), groups=6)
        ledger = Ledger(task)
        for place, group in enumerate(task.profile.groups):
            for number in range(1, len(group.clients) + 1):
                here, there = ledger.trial(np.array([place]), np.array([number]))
                other = Ledger(task)
                other.move(place, number, 0.0)
                for outlook, estimate in ((here, other.local), (there, other.remote)):
                    assert outlook.utilisation[0] == estimate.utilisation
                    assert [outlook.of(metric)[0] for metric in METRICS] == [estimate.of(metric) for metric in METRICS]


def test_bits_are_read_from_the_lowest_of_the_first_word_on() -> None:
    words = np.array([[0b101, 0b1]], dtype=np.uint64)
    assert list(np.flatnonzero(unpack(words, 66)[0])) == [0, 2, 64]
    assert unpack(words, 64).shape == (1, 64)
