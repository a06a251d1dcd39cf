"""The sending end of a conversation: frames until they have come, publications until they are taken care of.

Frames that were not acknowledged are sent again after RESEND_S, each time in vain after twice as long. No more than
LINK_WINDOW publications are on their way.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from mqloom.core.limits import LINK_WINDOW, RESEND_FRAMES_MAX, RESEND_S, SILENCE_S
from mqloom.core.messages import Flush, Flushed
from mqloom.core.publication import Publication
from mqloom.gateway.custody import Duty


class Entry(NamedTuple):
    """What goes to a neighbour in order: a publication with its duty (QoS 0: none), or a wave behind publications."""

    message: Publication | Flush | Flushed
    duty: Duty | None
    is_parked: bool = False
    """It came out of the park, which keeps it until it is acknowledged."""


class _Sent:
    """A frame: its bytes until it has come, and what in it is not taken care of."""

    __slots__ = ("data", "entries")

    def __init__(self, data: bytes, entries: list[Entry]) -> None:
        self.data: bytes | None = data
        self.entries = entries


class Departures:
    """What was sent to one neighbour in our present conversation."""

    def __init__(self) -> None:
        self.sequence = 1
        """Of the next frame; the first frame, a greeting, is said until it is answered."""
        self.held = 0
        """Publications that are not taken care of."""
        self._frames: deque[_Sent] = deque()
        self._first = 1  # the sequence of the first of them
        self._come = 1
        self._over: list[Entry] = []
        self._again_at: float | None = None
        self._again_s = RESEND_S
        self._waiting_since = 0.0

    @property
    def room(self) -> int:
        """How many more publications may be sent."""
        return max(0, LINK_WINDOW - self.held)

    def sent(self, data: bytes, entries: list[Entry], now: float) -> None:
        """A frame goes out."""
        was_waiting = self._come < self.sequence
        self._frames.append(_Sent(data, entries))
        self.held += len(entries)
        self.sequence += 1
        if not was_waiting:
            self._wait(now)

    def acknowledged(self, come: int, done: int, now: float) -> list[Entry]:
        """The neighbour has got, and taken care of, so many frames; returns what it has taken care of since."""
        if not done <= come <= self.sequence:  # no neighbour says that of its own
            return []
        if come > self._come:
            for index in range(max(self._come, self._first) - self._first, come - self._first):
                self._frames[index].data = None
            self._come = come
            self._wait(now)
        finished: list[Entry] = []
        while self._first < done:
            finished += self._frames.popleft().entries
            self._first += 1
        self.held -= len(finished)
        return finished

    def again(self, now: float) -> Iterator[bytes]:
        """Yield what is to be sent again now."""
        if self._again_at is None or now < self._again_at:
            return
        self._again_s = min(2 * self._again_s, 8 * RESEND_S)
        self._again_at = now + self._again_s
        start = self._come - self._first
        for index in range(start, min(len(self._frames), start + RESEND_FRAMES_MAX)):
            data = self._frames[index].data
            assert data is not None
            yield data

    def connected(self, now: float) -> None:
        """A connection was made anew: what was on its way over the last is lost."""
        self._wait(now)
        if self._again_at is not None:
            self._again_at = now

    def are_stalled(self, now: float) -> bool:
        """Whether nothing has come for too long."""
        return self._again_at is not None and now >= self._waiting_since + SILENCE_S

    @property
    def deadline(self) -> float | None:
        """When `again` and `are_stalled` must be asked."""
        return None if self._again_at is None else min(self._again_at, self._waiting_since + SILENCE_S)

    def end(self) -> None:
        """The conversation is over; another begins."""
        self._over += [entry for frame in self._frames for entry in frame.entries]
        self._frames.clear()
        self.sequence = self._first = self._come = 1
        self.held = 0
        self._again_at = None
        self._again_s = RESEND_S

    def take_back(self) -> list[Entry]:
        """Return, in order, what was not taken care of in conversations that are over."""
        over, self._over = self._over, []
        return over

    def check(self) -> None:
        """State the invariants."""
        assert self._first + len(self._frames) == self.sequence
        assert self._first <= max(self._come, self._first) <= self.sequence
        assert self.held == sum(len(frame.entries) for frame in self._frames)
        assert (self._again_at is None) == (self._come >= self.sequence)

    def _wait(self, now: float) -> None:
        """There is progress: begin to wait anew, if there is anything to wait for."""
        self._waiting_since = now
        self._again_s = RESEND_S
        self._again_at = now + RESEND_S if self._come < self.sequence else None
