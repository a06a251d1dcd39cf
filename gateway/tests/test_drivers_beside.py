"""Work beside the event loop: it goes on meanwhile, and whatever a function does is told."""

import asyncio
import threading

from mqloom.core.effects import RunBeside
from mqloom.core.events import RanBeside
from mqloom.gateway.drivers.beside import Beside


def test_functions_run_in_another_thread_and_what_they_raise_is_told() -> None:
    async def scenario() -> list[RanBeside]:
        told: list[RanBeside] = []
        done = asyncio.Event()

        def tell(event: RanBeside) -> None:
            told.append(event)
            if len(told) == 3:
                done.set()

        beside = Beside(tell)
        beside.run(RunBeside(number=1, function=threading.get_ident))
        beside.run(RunBeside(number=2, function=lambda: 1 // 0))
        beside.run(RunBeside(number=3, function=lambda: "x"))
        assert told == []
        await asyncio.wait_for(done.wait(), 10)
        await beside.close()
        return told

    first, second, third = asyncio.run(scenario())
    assert first.result not in (None, threading.get_ident())
    assert second == RanBeside(number=2, problem="ZeroDivisionError: integer division or modulo by zero")
    assert third == RanBeside(number=3, result="x")


def test_at_the_end_nobody_waits_for_a_function() -> None:
    async def scenario() -> list[RanBeside]:
        told: list[RanBeside] = []
        go = threading.Event()
        beside = Beside(told.append)
        for number in (1, 2):
            beside.run(RunBeside(number=number, function=lambda: go.wait(10)))
        await asyncio.sleep(0)
        await beside.close()
        go.set()
        return told

    assert asyncio.run(scenario()) == []
