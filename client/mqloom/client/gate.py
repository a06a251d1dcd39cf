"""Keeps what an application sends out of the moment in which one connection is exchanged for another.

A lock would not do: paho calls back with locks of its own held, and the callback may send. Who holds ours and waits for
one of those, and who holds one of those and waits for ours, would wait for ever. So no lock is held while somebody
sends: those inside are counted, and every wait has an end, behind which it goes on as with paho alone.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

from mqloom.client.limits import EXCHANGE_S, LEAVE_S


class Gate:
    """Whoever sends passes it; while it is closed nobody begins to, but for what belongs to something begun before."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()  # by thread
        self._closed_by: int | None = None

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Be inside; waits for the end of an exchange, EXCHANGE_S at most."""
        me = threading.get_ident()
        with self._changed:
            if me not in self._inside:
                self._changed.wait_for(lambda: self._closed_by in (None, me), EXCHANGE_S)
            self._inside[me] += 1
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> bool:
        """Be inside, which is to be left by this thread; or return False, if that would mean to wait."""
        me = threading.get_ident()
        with self._changed:
            if me not in self._inside and self._closed_by not in (None, me):
                return False
            self._inside[me] += 1
            return True

    def leave(self) -> None:
        """Be inside no longer, as often as one has entered."""
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Keep others out, when those inside have left; waits for them for LEAVE_S at most."""
        me = threading.get_ident()
        with self._changed:
            self._closed_by = me
            self._changed.wait_for(lambda: not self._inside.keys() - {me}, LEAVE_S)
        try:
            yield
        finally:
            with self._changed:
                self._closed_by = None
                self._changed.notify_all()
