"""Work beside the event loop: pure functions run in a thread of their own, one after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mqloom.core.effects import RunBeside
from mqloom.core.events import RanBeside
from mqloom.core.limits import PROBLEM_MAX


class Beside:
    """The worker of one gateway; `told` is called in the event loop when something has ended."""

    def __init__(self, told: Callable[[RanBeside], None]) -> None:
        self._told = told
        self._executor: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, effect: RunBeside) -> None:
        """Run a function, behind those before it."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mqloom-beside")
        task = asyncio.get_running_loop().create_task(self._run(self._executor, effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, executor: ThreadPoolExecutor, effect: RunBeside) -> None:
        result: object = None
        problem = ""
        try:
            result = await asyncio.get_running_loop().run_in_executor(executor, effect.function)
        except Exception as error:  # the function is a plugin's: whatever it raises is its answer
            problem = f"{type(error).__name__}: {error}"[:PROBLEM_MAX]
        self._told(RanBeside(number=effect.number, result=result, problem=problem))

    async def close(self) -> None:
        """Wait for nothing: a function that runs comes to its end unheard."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
