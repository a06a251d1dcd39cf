"""What every offload promises, whatever it is asked."""

import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqloom.core.estimators import BrokerEstimate
from mqloom.core.load import METRICS, Metric, difference
from mqloom.gateway.offload_interfaces import OffloadBounds, OffloadChoice, OffloadTask
from mqloom.lab.offload_tasks import made_up_task
from mqloom.plugins.offload import input_offload, match_offload, output_offload, random_offload
from mqloom.plugins.offload.aims import PRICE

OFFLOADS = {"input": input_offload, "match": match_offload, "output": output_offload}
GUARDED: dict[Metric, tuple[Metric, ...]] = {
    "input": ("match", "output"),
    "match": ("input", "output"),
    "output": ("input",),
}


@dataclass(frozen=True)
class Asked:
    task: OffloadTask
    choice: OffloadChoice


@st.composite
def tasks(draw: st.DrawFn, metric: Metric) -> OffloadTask:
    return made_up_task(
        metric,
        random.Random(draw(st.integers(0, 2**32))),
        groups=draw(st.integers(0, 9)),
        clients_max=draw(st.sampled_from([1, 3, 30])),
        samples=draw(st.sampled_from([0, 1, 50, 65])),
        is_overloaded=draw(st.booleans()),
        bounds=OffloadBounds(
            overload=draw(st.sampled_from([0.5, 0.9, 3.0])),
            balance=draw(st.sampled_from([0.0, 0.005, 0.2])),
            reversal=draw(st.sampled_from([0.0, 0.05])),
            moves_max=draw(st.sampled_from([0, 1, 10, 10_000])),
        ),
    )


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    metric = draw(st.sampled_from(METRICS))
    task = draw(tasks(metric))
    return Asked(task, OFFLOADS[metric].choose(task))


@st.composite
def asked_at_random(draw: st.DrawFn) -> Asked:
    task = draw(tasks(draw(st.sampled_from(METRICS))))
    return Asked(task, random_offload.choose(task))


def fullest(estimate: BrokerEstimate) -> float:
    return max(estimate.cpu_ratio, estimate.input_ratio, estimate.memory_ratio)


def gap(task: OffloadTask, local: BrokerEstimate, remote: BrokerEstimate) -> float:
    """What the offload makes smaller: of overloaded processors, inputs and memories the fullest."""
    if task.metric == "match" and task.is_overloaded:
        return fullest(local) - fullest(remote)
    metric = task.metric
    return difference(metric, local.of(metric), remote.of(metric), task.bounds.delay_factor_s)


@settings(max_examples=200, deadline=None)
@given(asked())
def test_the_accepting_broker_is_never_predicted_to_be_overloaded(asked: Asked) -> None:
    if asked.choice.clients:
        assert asked.choice.remote.utilisation <= asked.task.bounds.overload


@settings(max_examples=200, deadline=None)
@given(asked())
def test_the_difference_ends_smaller_or_nobody_is_moved(asked: Asked) -> None:
    task, choice = asked.task, asked.choice
    if not choice.clients:
        assert (choice.local, choice.remote, list(choice.cards)) == (task.local, task.remote, [])
        return
    differences = [abs(gap(task, task.local, task.remote)), *(abs(card.difference) for card in choice.cards)]
    assert all(after < before for before, after in pairwise(differences))
    assert differences[-1] == abs(gap(task, choice.local, choice.remote))


@settings(max_examples=200, deadline=None)
@given(asked())
def test_nothing_of_the_offloading_broker_gets_worse_and_what_it_is_about_gets_better(asked: Asked) -> None:
    before, after = asked.task.local, asked.choice.local
    if asked.choice.clients:
        assert after.utilisation <= before.utilisation
        assert after.delay_s <= before.delay_s
        if not (asked.task.metric == "match" and asked.task.is_overloaded):
            assert after.of(asked.task.metric) < before.of(asked.task.metric)


@settings(max_examples=200, deadline=None)
@given(st.one_of(asked(), asked_at_random()))
def test_who_goes_may_go_goes_once_and_not_too_many_do(asked: Asked) -> None:
    task, choice = asked.task, asked.choice
    assert len(set(choice.clients)) == len(choice.clients) <= task.bounds.moves_max
    group_of = {client: place for place, group in enumerate(task.profile.groups) for client in group.clients}
    numbers: Counter[int] = Counter()
    for card in choice.cards:
        assert card.number > 0
        numbers[card.group] += card.number
    assert Counter(group_of[client] for client in choice.clients) == numbers
    assert choice.reason


@settings(max_examples=200, deadline=None)
@given(st.one_of(asked(), asked_at_random()))
def test_what_is_predicted_is_what_follows_from_who_goes(asked: Asked) -> None:
    profile, choice = asked.task.profile, asked.choice
    going = set(choice.clients)
    wanted_here = taken = subscriptions = 0
    left_here = 0 if profile.staying is None else int.from_bytes(profile.staying.astype("<u8").tobytes(), "little")
    bytes_s = deliveries_s = 0.0
    there = int.from_bytes(profile.accepting.astype("<u8").tobytes(), "little")
    for place, (group, row) in enumerate(zip(profile.groups, profile.bits, strict=True)):
        bits = int.from_bytes(row.astype("<u8").tobytes(), "little")
        gone = len(going & set(group.clients))
        wanted_here |= bits
        left_here |= bits if gone < group.subscribers else 0
        taken |= bits if gone else 0
        subscriptions += gone * group.subscriptions
        deliveries_s += gone * gets_each(asked.task, place)
        bytes_s += gone * group.bytes_each * profile.input_rate * bits.bit_count() / max(1, profile.samples)
    each = profile.input_rate / max(1, profile.samples)
    reduced = each * (wanted_here & ~left_here).bit_count()
    added = each * (taken & ~there).bit_count()
    more = {"subscriptions": subscriptions, "bytes_s": bytes_s, "deliveries_s": deliveries_s}
    less = {name: -amount for name, amount in more.items()}
    local = asked.task.local.after(rate=-reduced, **less)  # type: ignore[arg-type]
    remote = asked.task.remote.after(rate=added, **more)  # type: ignore[arg-type]
    for predicted, expected in ((choice.local, local), (choice.remote, remote)):
        assert predicted.subscriptions == expected.subscriptions
        assert predicted.input_rate == pytest.approx(expected.input_rate, rel=1e-9, abs=1e-9)
        assert predicted.output_bytes_s == pytest.approx(expected.output_bytes_s, rel=1e-9, abs=1e-6)
        assert (predicted.deliveries_s is None) == (expected.deliveries_s is None)
        if expected.deliveries_s is not None:
            assert predicted.deliveries_s == pytest.approx(expected.deliveries_s, rel=1e-9, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(METRICS).flatmap(tasks))
def test_what_is_given_for_one_metric_costs_at_most_half_of_it_in_others_unless_there_is_overload(
    task: OffloadTask,
) -> None:
    if task.is_overloaded:
        return
    choice = OFFLOADS[task.metric].choose(task)
    if not choice.clients:
        return
    reversible = max(task.bounds.balance, task.bounds.reversal)
    worse = 0.0
    for metric in GUARDED[task.metric]:
        before, after = (
            max(0.0, difference(metric, remote.of(metric), local.of(metric), task.bounds.delay_factor_s) - reversible)
            for local, remote in ((task.local, task.remote), (choice.local, choice.remote))
        )
        worse += max(0.0, after - before)
    gained = abs(gap(task, task.local, task.remote)) - abs(gap(task, choice.local, choice.remote))
    assert worse <= PRICE * gained + 1e-9


def gets_each(task: OffloadTask, group: int) -> float:
    """Return what each client of a group gets a second."""
    profile = task.profile
    bits = int.from_bytes(profile.bits[group].astype("<u8").tobytes(), "little")
    return profile.input_rate * bits.bit_count() / max(1, profile.samples) * profile.deliveries_factor


def replayed(task: OffloadTask, choice: OffloadChoice, cards: int) -> tuple[BrokerEstimate, BrokerEstimate]:
    """Return both brokers after the first cards."""
    local, remote = task.local, task.remote
    for card in choice.cards[:cards]:
        subscriptions, bytes_s = card.number * task.profile.groups[card.group].subscriptions, card.bytes_s_each
        gets = card.number * gets_each(task, card.group)
        local = local.after(
            rate=-card.rate_reduced,
            subscriptions=-subscriptions,
            bytes_s=-card.number * bytes_s,
            deliveries_s=-gets,
        )
        remote = remote.after(
            rate=card.rate_added, subscriptions=subscriptions, bytes_s=card.number * bytes_s, deliveries_s=gets
        )
    return local, remote


@settings(max_examples=200, deadline=None)
@given(st.one_of(asked(), asked_at_random()))
def test_the_cards_lead_from_the_question_to_the_prediction(asked: Asked) -> None:
    assert replayed(asked.task, asked.choice, len(asked.choice.cards)) == (asked.choice.local, asked.choice.remote)
