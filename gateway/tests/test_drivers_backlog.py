"""What waits between a connection and the gateway: all of it, in order, and gathered where the gateway is busy."""

import asyncio
import itertools
import time
from collections.abc import Callable

import pytest

from mqloom.core.limits import GATHER_S_MAX, GATHER_TIMES
from mqloom.gateway.drivers import backlog
from mqloom.gateway.drivers.backlog import Backlog
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received
from mqloom.gateway.interfaces import BrokerAddress

MESSAGES = 400
BATCH_S = 0.0003
"""What a batch costs in these tests, however large it is; five of these are less than the longest wait."""


def plan(on_messages: Callable[[list[Received]], None], *, gathers: bool) -> ConnectionPlan:
    return ConnectionPlan(
        address=BrokerAddress("127.0.0.1", 1),
        client_id="test",
        clean_session=True,
        subscriptions=(),
        on_messages=on_messages,
        on_up=lambda: None,
        on_down=lambda problem: None,
        acknowledges=False,
        gathers=gathers,
    )


def message(number: int) -> Received:
    return Received("stocks", str(number).encode(), 1, retain=False, token=(1, number))


def work(seconds: float) -> None:
    """Keep the event loop busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def fed(queue: Backlog, numbers: range) -> None:
    """Let messages come one by one, as fast as the event loop turns."""
    for number in numbers:
        if queue.add([message(number)]):
            asyncio.get_running_loop().call_soon(queue.hand_over)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def batches_of(*, gathers: bool, batch_s: float = BATCH_S) -> list[tuple[float, list[int]]]:
    """Return when each batch began, and what was in it."""

    async def run() -> list[tuple[float, list[int]]]:
        loop, batches = asyncio.get_running_loop(), list[tuple[float, list[int]]]()

        def take(batch: list[Received]) -> None:
            batches.append((loop.time(), [int(each.payload) for each in batch]))
            work(batch_s)

        queue = Backlog(plan(take, gathers=gathers), lambda tokens: None)
        await fed(queue, range(MESSAGES))
        while len(queue):
            await asyncio.sleep(GATHER_S_MAX)
        return batches

    return asyncio.run(run())


def test_what_follows_fast_goes_in_batches_that_are_apart_and_nothing_is_left_behind() -> None:
    batches = batches_of(gathers=True)
    assert [number for _, batch in batches for number in batch] == list(range(MESSAGES))
    assert all(later - sooner > GATHER_TIMES * BATCH_S for (sooner, _), (later, _) in itertools.pairwise(batches))
    assert len(batches) < MESSAGES / 2


def test_a_batch_that_took_longer_than_one_waits_is_followed_at_once() -> None:
    """What is saturated must not rest."""
    batches = batches_of(gathers=True, batch_s=2 * GATHER_S_MAX)
    gaps = [later - sooner for (sooner, _), (later, _) in itertools.pairwise(batches)]
    assert min(gaps) < 2.5 * GATHER_S_MAX


def test_where_nothing_is_gathered_each_goes_at_once() -> None:
    assert [batch for _, batch in batches_of(gathers=False)] == [[number] for number in range(MESSAGES)]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> float:
    """Have each batch wait for so long, whatever the one before took: a busy machine must not be the reason."""
    monkeypatch.setattr(backlog, "GATHER_TIMES", 1_000_000)
    monkeypatch.setattr(backlog, "GATHER_S_MAX", 0.5)
    return 0.5


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_waits_for_its_time_is_not_handed_over_meanwhile_paused(*, is_paused: bool, slow: float) -> None:
    async def run() -> int:
        loop, seen = asyncio.get_running_loop(), list[Received]()
        waiting = Backlog(plan(seen.extend, gathers=True), lambda tokens: None)
        for number in range(9):
            if waiting.add([message(number)]):
                waiting.hand_over()
        assert [each.token[1] for each in seen] == [0]  # the rest has its time
        if is_paused:
            waiting.pause()
        await asyncio.sleep(2 * slow)
        handed_over = len(seen) - 1
        if is_paused:
            assert handed_over == 0
            waiting.resume()
            await asyncio.sleep(slow / 2)
        assert [each.token[1] for each in seen] == list(range(9))
        loop.call_soon(waiting.hand_over)  # one too many does no harm
        await asyncio.sleep(0)
        return handed_over

    assert (asyncio.run(run()) == 0) is is_paused


def test_to_pause_and_resume_while_something_waits_for_its_time_makes_no_second_turn(slow: float) -> None:
    """Each turn comes again as long as there is more: with two of them nothing would be gathered."""

    async def run() -> list[int]:
        sizes = list[int]()
        waiting = Backlog(plan(lambda batch: sizes.append(len(batch)), gathers=True), lambda tokens: None)
        for number in range(9):
            if waiting.add([message(number)]):
                waiting.hand_over()
            waiting.pause()
            waiting.resume()
            await asyncio.sleep(0)
        await asyncio.sleep(2 * slow)
        return sizes

    assert asyncio.run(run()) == [1, 8]
