"""What the command does when its query ends: it begins again after the collector was away, and tells all else."""

import threading
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from mqloom.core.errors import LocalError
from mqloom.spark_analytics.command_spark_stream import follow

AWAY = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed:
Traceback (most recent call last):
  File "asking.py", line 64, in ask
mqloom.spark_analytics.ranges.NoAnswerError: no answer from tcp://127.0.0.1:1 within 60 s: is `mqloom collect` running?
"""
BROKEN = "mqloom.spark_analytics.segments.SpoolError: it is another spool"


class Queries:
    """Queries that end at once, each with its error, and the last with a stop."""

    def __init__(self, *errors: str) -> None:
        self.errors = [*errors]
        self.started = self.stopped = 0
        self.stopping = threading.Event()

    def start(self) -> StreamingQuery:
        self.started += 1
        error = self.errors.pop(0) if self.errors else None
        if error is None:
            self.stopping.set()
        query = SimpleNamespace(isActive=False, exception=lambda: error, stop=self.stop, lastProgress=None)
        return cast(StreamingQuery, query)

    def stop(self) -> None:
        self.stopped += 1


def test_after_the_collector_was_away_the_query_goes_on_and_that_is_told_ever_more_seldom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    queries = Queries(*[AWAY] * 5)
    follow(queries.start, queries.stopping)
    assert (queries.started, queries.stopped) == (6, 6)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 3
    assert told[0].startswith("no answer from tcp://127.0.0.1:1 within 60 s")


def test_what_else_ends_a_query_ends_the_command() -> None:
    queries = Queries(AWAY, BROKEN)
    with pytest.raises(LocalError, match="it is another spool"):
        follow(queries.start, queries.stopping)
    assert (queries.started, queries.stopped) == (2, 2)


def test_who_looks_once_is_told_that_nobody_answers() -> None:
    queries = Queries(AWAY)
    with pytest.raises(LocalError, match="no answer from"):
        follow(queries.start, queries.stopping, once=True)


def test_whoever_was_stopped_meanwhile_has_no_error() -> None:
    queries = Queries(BROKEN)
    queries.stopping.set()
    follow(queries.start, queries.stopping)
    assert queries.stopped == 1
