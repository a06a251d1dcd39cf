"""What waits between a connection and the gateway: all of it, in order, and gathered where messages follow fast."""

import asyncio
from collections.abc import Callable

import pytest

from mqloom.core.limits import GATHER_EVERY_S, GATHERED_AT_ONCE
from mqloom.gateway.drivers.backlog import Backlog
from mqloom.gateway.drivers.mqtt import ConnectionPlan, Received
from mqloom.gateway.interfaces import BrokerAddress

MESSAGES = 400


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


def batches_of(*, gathers: bool) -> tuple[list[list[int]], float]:
    """Let messages come one by one, fast; return in which batches they went, and how long it took."""

    async def run() -> tuple[list[list[int]], float]:
        loop, batches = asyncio.get_running_loop(), list[list[int]]()
        backlog = Backlog(
            plan(lambda batch: batches.append([int(each.payload) for each in batch]), gathers=gathers),
            lambda token: None,
        )
        began = loop.time()
        for number in range(MESSAGES):
            if backlog.add([message(number)]):
                loop.call_soon(backlog.hand_over)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        while len(backlog):
            await asyncio.sleep(GATHER_EVERY_S)
        return batches, loop.time() - began

    return asyncio.run(run())


def test_what_follows_fast_goes_in_batches_that_are_apart_and_nothing_is_left_behind() -> None:
    batches, took_s = batches_of(gathers=True)
    assert [number for batch in batches for number in batch] == list(range(MESSAGES))
    assert [len(batch) for batch in batches[:GATHERED_AT_ONCE]] == [1] * GATHERED_AT_ONCE
    assert len(batches) <= GATHERED_AT_ONCE + took_s / GATHER_EVERY_S + 1


def test_where_nothing_is_gathered_each_goes_at_once() -> None:
    batches, _ = batches_of(gathers=False)
    assert batches == [[number] for number in range(MESSAGES)]


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_waits_for_its_time_is_not_handed_over_meanwhile_paused(*, is_paused: bool) -> None:
    async def run() -> int:
        loop, seen = asyncio.get_running_loop(), list[Received]()
        backlog = Backlog(plan(seen.extend, gathers=True), lambda token: None)
        for number in range(2 * GATHERED_AT_ONCE):
            if backlog.add([message(number)]):
                backlog.hand_over()
        assert GATHERED_AT_ONCE <= len(seen) < 2 * GATHERED_AT_ONCE  # the rest has its time
        if is_paused:
            backlog.pause()
        before = len(seen)
        await asyncio.sleep(20 * GATHER_EVERY_S)
        handed_over = len(seen) - before
        if is_paused:
            assert handed_over == 0
            backlog.resume()
            await asyncio.sleep(2 * GATHER_EVERY_S)
        assert [each.token[1] for each in seen] == list(range(2 * GATHERED_AT_ONCE))
        loop.call_soon(backlog.hand_over)  # one too many does no harm
        await asyncio.sleep(0)
        return handed_over

    assert (asyncio.run(run()) == 0) is is_paused
