"""Questions for offload plugins: profiles and estimates of two brokers, of the paper's Table I, and made-up ones."""

import random
from dataclasses import replace

import numpy as np

from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId
from mqloom.core.load import Metric
from mqloom.gateway.offload_interfaces import Bits, Group, OffloadBounds, OffloadTask, Profile


def table_one(metric: Metric, randomness: random.Random, bounds: OffloadBounds | None = None) -> OffloadTask:
    """Return the paper's example of four subscriptions and six publications (Table I), with brokers added to it.

    Ten clients have one subscription each: two, three, four and one of them those four. Three publications a second
    come in, half of which the accepting broker gets too. A publication takes 20 ms for each subscription there is.
    """
    groups = [
        Group([ClientId("a1"), ClientId("a2")], 2, 1, 100.0, is_maximal=True, is_covered=False, covers=[1, 2]),
        Group([ClientId(f"b{number}") for number in (1, 2, 3)], 3, 1, 100.0, False, is_covered=False, covers=[]),
        Group([ClientId(f"c{number}") for number in (1, 2, 3, 4)], 4, 1, 100.0, False, is_covered=True, covers=[]),
        Group([ClientId("d1")], 1, 1, 100.0, is_maximal=True, is_covered=False, covers=[]),
    ]
    bits = _packed([0b110111, 0b110100, 0b100000, 0b001000, 0b110001], 6)
    delay = DelayModel(slope_s=0.02, base_s=0.0)
    return OffloadTask(
        metric=metric,
        profile=Profile(groups, bits[:-1], bits[-1], samples=6, input_rate=3.0),
        local=BrokerEstimate(
            input_rate=3.0, subscriptions=10, delay=delay, output_bytes_s=1_200.0, output_bytes_s_max=2_000.0
        ),
        remote=BrokerEstimate(
            input_rate=1.5, subscriptions=2, delay=delay, output_bytes_s=200.0, output_bytes_s_max=2_000.0
        ),
        is_overloaded=False,
        bounds=bounds or OffloadBounds(),
        randomness=randomness,
    )


def made_up_task(
    metric: Metric,
    randomness: random.Random,
    *,
    groups: int,
    clients_max: int = 8,
    samples: int = 50,
    is_overloaded: bool = False,
    bounds: OffloadBounds | None = None,
) -> OffloadTask:
    """Return a question in which the offloading broker has so many groups of up to so many clients each.

    What hangs below a group wants a part of what that wants. Some clients may not be moved, some groups want nothing, a
    broker may have a flat delay, no room, or more load than the one that offloads.
    """
    rows = _wanted(randomness, groups, samples)
    wanted_there = _some(randomness, samples, randomness.choice([0.0, 0.3, 0.8]))
    covers = _covers(randomness, rows)
    below = {place for places in covers for place in places}
    made = [
        _group(randomness, place, clients_max, place not in below, row & ~wanted_there == 0, covers[place])
        for place, row in enumerate(rows)
    ]
    rate = randomness.uniform(1.0, 500.0)
    sent = sum(
        rate * row.bit_count() / max(1, samples) * each.bytes_each * each.subscribers
        for row, each in zip(rows, made, strict=True)
    )
    number = sum(each.subscriptions * each.subscribers for each in made)
    capacity = max(1.0, sent) / randomness.uniform(0.5, 1.3)
    delay_s = randomness.uniform(0.3, 1.2) / rate
    less = [randomness.uniform(0.0, 1.1) for _ in range(4)]
    task = OffloadTask(
        metric=metric,
        profile=Profile(made, _packed(rows, samples), _packed([wanted_there], samples)[0], samples, rate),
        local=_estimate(randomness, rate, number, delay_s, sent, capacity),
        remote=_estimate(
            randomness, rate * less[0], round(number * less[1]), delay_s * less[2], sent * less[3], capacity
        ),
        is_overloaded=is_overloaded,
        bounds=bounds or OffloadBounds(),
        randomness=randomness,
    )
    if randomness.random() < 0.5:
        return _some_stay(randomness, task)
    gets = sum(
        rate * row.bit_count() / max(1, samples) * each.subscribers for row, each in zip(rows, made, strict=True)
    )
    factor = randomness.choice([1.0, 0.9, 1.2])
    task = replace(
        task,
        profile=replace(task.profile, deliveries_factor=factor),
        local=_by_deliveries(randomness, task.local, gets * factor),
        remote=_by_deliveries(randomness, task.remote, gets * randomness.uniform(0.0, 1.1)),
    )
    return _some_stay(randomness, task)


def _some_stay(randomness: random.Random, task: OffloadTask) -> OffloadTask:
    """Return the same task, in which now and then some publications come in whoever goes."""
    if randomness.random() < 0.7:
        return task
    samples = task.profile.samples
    staying = _packed([_some(randomness, samples, 0.3)], samples)[0]
    return replace(task, profile=replace(task.profile, staying=staying))


def _by_deliveries(randomness: random.Random, estimate: BrokerEstimate, deliveries_s: float) -> BrokerEstimate:
    """Return the same broker, if what a publication costs goes by how many get it."""
    counted = replace(estimate, deliveries_s=deliveries_s)
    slope_s = randomness.choice([0.0, 0.3, 1.0]) * estimate.delay_s / max(1.0, counted.work)
    return replace(counted, delay=DelayModel(slope_s, estimate.delay_s - slope_s * counted.work))


def _some(randomness: random.Random, samples: int, share: float) -> int:
    """Return samples, each with this probability; the first is the lowest bit."""
    return sum(1 << place for place in range(samples) if randomness.random() < share)


def _wanted(randomness: random.Random, groups: int, samples: int) -> list[int]:
    return [_some(randomness, samples, randomness.choice([0.0, 0.02, 0.05, 0.2, 0.5])) for _ in range(groups)]


def _covers(randomness: random.Random, rows: list[int]) -> list[list[int]]:
    """Return what hangs below each group, and take from those what the one above does not want."""
    covers: list[list[int]] = [[] for _ in rows]
    for place in range(1, len(rows)):
        for above in {randomness.randrange(place) for _ in range(randomness.choice([0, 0, 0, 1, 1, 2]))}:
            rows[place] &= rows[above]
            covers[above].append(place)
    return covers


def _group(
    randomness: random.Random, place: int, clients_max: int, is_maximal: bool, is_covered: bool, covers: list[int]
) -> Group:
    subscribers = randomness.randint(1, clients_max)
    movable = subscribers if randomness.random() < 0.8 else randomness.randint(0, subscribers)
    return Group(
        clients=[ClientId(f"c{place}.{number}") for number in range(movable)],
        subscribers=subscribers,
        subscriptions=randomness.randint(1, 3),
        bytes_each=randomness.choice([0.0, 100.0, randomness.uniform(10.0, 5_000.0)]),
        is_maximal=is_maximal,
        is_covered=is_covered and randomness.random() < 0.9,
        covers=covers,
    )


def _estimate(
    randomness: random.Random, rate: float, subscriptions: int, delay_s: float, bytes_s: float, capacity: float
) -> BrokerEstimate:
    slope_s = randomness.choice([0.0, 0.3, 1.0]) * delay_s / max(1, subscriptions)
    return BrokerEstimate(
        input_rate=rate,
        subscriptions=subscriptions,
        delay=DelayModel(slope_s, delay_s - slope_s * subscriptions),
        output_bytes_s=bytes_s,
        output_bytes_s_max=capacity if randomness.random() < 0.9 else 0.0,
        cpu_beside=randomness.choice([0.0, 0.0, randomness.uniform(0.0, 0.3)]),
        memory_beside=randomness.choice([0.0, 0.2, 0.2, 0.92]),
        memory_each=randomness.choice([0.0, randomness.uniform(0.0, 0.2) / max(1, subscriptions)]),
    )


def _packed(rows: list[int], samples: int) -> Bits:
    words = max(1, -(-samples // 64))
    octets = b"".join(row.to_bytes(words * 8, "little") for row in rows)
    return np.frombuffer(octets, dtype="<u8").astype(np.uint64).reshape(len(rows), words)
