"""Offloads of 10,000 clients take seconds of the processor, one by one or in few groups."""

import random
import time
from collections.abc import Callable

import numpy as np
import pytest

from mqloom.core.estimators import BrokerEstimate, DelayModel
from mqloom.core.ids import ClientId
from mqloom.gateway.offload_interfaces import Group, OffloadBounds, OffloadChoice, OffloadTask, Profile
from mqloom.plugins.offload import input_offload, match_offload, output_offload, random_offload

CLIENTS = 10_000
SAMPLES = 50
RATE = 100.0


def task_of(groups: int) -> OffloadTask:
    """A broker that is nearly full, with all of the clients, and another like it that is nearly empty."""
    numbers = np.random.default_rng(1)
    wanted = np.zeros((groups + 1, 64), dtype=np.bool_)
    wanted[:, :SAMPLES] = numbers.random((groups + 1, SAMPLES)) < numbers.uniform(0.02, 0.6, (groups + 1, 1))
    bits = np.packbits(wanted, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    sizes = numbers.uniform(100.0, 1_000.0, groups)
    each = CLIENTS // groups
    made = [
        Group(
            clients=[ClientId(f"{place}.{client}") for client in range(each)],
            subscribers=each,
            subscriptions=1,
            bytes_each=float(sizes[place]),
            is_maximal=place % 3 == 0,
            is_covered=place % 4 == 0,
            covers=[place + 1] if place % 3 == 0 and place + 1 < groups else [],
        )
        for place in range(groups)
    ]
    sent = float((wanted[:groups].sum(axis=1) * sizes).sum()) * each * RATE / SAMPLES
    local, remote = (
        BrokerEstimate(
            input_rate=RATE * share,
            subscriptions=round(CLIENTS * share),
            delay=DelayModel(0.008 / CLIENTS, 0.001),
            output_bytes_s=sent * share,
            output_bytes_s_max=sent / 0.92,
        )
        for share in (1.0, 0.1)
    )
    return OffloadTask(
        metric="output",
        profile=Profile(made, bits[:groups], bits[groups], SAMPLES, RATE),
        local=local,
        remote=remote,
        is_overloaded=False,
        bounds=OffloadBounds(),
        randomness=random.Random(1),
    )


@pytest.mark.full
@pytest.mark.parametrize("groups", [10_000, 100, 1])
@pytest.mark.parametrize("module", [input_offload, match_offload, output_offload, random_offload])
def test_ten_thousand_clients_take_seconds(module: object, groups: int) -> None:
    choose: Callable[[OffloadTask], OffloadChoice] = module.choose  # type: ignore[attr-defined] # a plugin
    task = task_of(groups)
    began = time.process_time()
    choice = choose(task)
    took_s = time.process_time() - began
    assert took_s < 5.0, (
        f"{groups} groups: {took_s:.2f} s, {len(choice.clients)} clients, {len(choice.cards)} cards: {choice.reason}"
    )
    assert len(choice.clients) > 1_000 or groups == 1
