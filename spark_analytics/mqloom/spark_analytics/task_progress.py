"""How far Spark is with what it does: its tracker knows how many tasks each stage has, and how many are done."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.sql import SparkSession

LOOK_S: Final = 0.5
END_S: Final = 2.0
"""How long to wait for a look that was begun."""

TellTasks = Callable[[int, int], None]
"""Is told how many tasks are done, and of how many."""


@contextmanager
def watched_tasks(spark: SparkSession, tell: TellTasks) -> Iterator[None]:
    """Tell, from a thread of its own, how many of the tasks that Spark has are done, while somebody waits for it."""
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(spark, tell, ended), name="mqloom-tasks", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join(END_S)


def _watch(spark: SparkSession, tell: TellTasks, ended: threading.Event) -> None:
    with suppress(Exception):  # Java may end before we do: who waits for the work tells that, and this is no part of it
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(LOOK_S):
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            done = sum(each.numCompletedTasks for each in stages if each is not None)
            tasks = sum(each.numTasks for each in stages if each is not None)
            if tasks:
                tell(done, tasks)
