"""Publications at an even rate until they are enough: a thread gives the publisher's process order after order."""

import contextlib
import threading
import time
from array import array
from typing import Final

from mqloom.lab.bench_processes import START_S_MAX, BenchError, Worker
from mqloom.lab.bench_publisher import LATE_S_MAX, Done, Order
from mqloom.lab.bench_quotes import FIRST_NUMBER, Sent

SLICE_S: Final = 1.0
"""How much is published by one order; so much later at most it stops."""


class Load:
    """What is published from the start to the end; each order makes up for what the last was short of."""

    def __init__(self, publisher: Worker, rate: float) -> None:
        self._publisher = publisher
        self._rate = rate
        self._times: array[float] = array("d")
        self._begun: float | None = None  # when the first was sent: the process takes a while to start
        self._took_s = 0.0
        self._problem: BenchError | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqloom-bench-load", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise BenchError if it could not go on."""
        if self._problem is not None:
            raise self._problem

    def end(self) -> Sent:
        """Stop; return what was published, of which nothing need be acknowledged. Raises BenchError."""
        self.stop()
        self.check()
        if not self._times:
            raise BenchError("nothing was published")
        return Sent(FIRST_NUMBER, self._times, self._took_s)

    def stop(self) -> None:
        """Stop, whatever has become of it."""
        self._is_over.set()
        self._thread.join(SLICE_S + LATE_S_MAX + START_S_MAX)

    def _run(self) -> None:
        try:
            self._publish()
            while not self._is_over.is_set():
                self._publish()
        except BenchError as error:
            self._problem = error
        with contextlib.suppress(IndexError):
            self._took_s = self._times[-1] - self._times[0]

    def _publish(self) -> None:
        passed_s = 0.0 if self._begun is None else time.monotonic() - self._begun
        due = (passed_s + SLICE_S) * self._rate - len(self._times)
        count = min(max(1, round(due)), max(1, round(2 * self._rate * SLICE_S)))  # what is far too late is left out
        self._publisher.ask(Order(FIRST_NUMBER + len(self._times), count, count / SLICE_S, 1))
        done: Done = self._publisher.answer(SLICE_S + LATE_S_MAX + START_S_MAX)
        self._times.extend(done.times)
        if self._begun is None and self._times:
            self._begun = self._times[0]
