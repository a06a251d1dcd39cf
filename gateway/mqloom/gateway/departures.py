"""The sending end of a conversation: frames until they have come, publications until they are taken care of.

Frames that were not acknowledged are sent again after RESEND_S, each time in vain after twice as long. No more than
LINK_WINDOW publications are on their way. Publications leave at once; but when frames follow each other faster than
FRAME_EVERY_S, the next waits so long, and fills up; behind a large one it waits for FRAME_LARGE_EVERY_S. An
acknowledgement that all is taken care of is said once, and may be lost; so after ASK_S without any it is asked for.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from mqloom.core.limits import (
    ASK_S,
    FRAME_EVERY_S,
    FRAME_FULL,
    FRAME_LARGE,
    FRAME_LARGE_EVERY_S,
    FRAMES_AT_ONCE,
    LINK_WINDOW,
    RESEND_FRAMES_MAX,
    RESEND_S,
    SILENCE_S,
)
from mqloom.core.messages import Flush, Flushed, Mark, Passed
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack
from mqloom.gateway.cadence import Cadence
from mqloom.gateway.custody import Duty


class Entry(NamedTuple):
    """What goes to a neighbour in order: a publication with its duty (QoS 0: none), or a wave behind publications."""

    message: Publication | Flush | Flushed | Mark | Passed
    duty: Duty | None
    is_parked: bool = False
    """It came out of the park, which keeps it until it is acknowledged."""


class Departures:
    """What was sent to one neighbour in our present conversation."""

    def __init__(self) -> None:
        self.sequence = 1
        """Of the next frame; the first frame, a greeting, is said until it is answered."""
        self._frames: deque[bytes] = deque()  # those that have not come
        self._come = 1
        self._entries: dict[int, Entry] = {}  # by place: publications that are not taken care of
        self._places = 0
        self._done = 0
        self._over: list[Entry] = []
        self._again_at: float | None = None
        self._again_s = RESEND_S
        self._waiting_since = 0.0
        self._heard_at = 0.0
        self._cadence = Cadence(FRAME_EVERY_S, FRAMES_AT_ONCE)
        self._is_filling = False  # publications wait for others, to leave with them

    @property
    def held(self) -> int:
        """How many publications are not taken care of."""
        return len(self._entries)

    @property
    def come(self) -> int:
        """How many frames have come, as far as we have heard."""
        return self._come

    @property
    def room(self) -> int:
        """How many more publications may be sent."""
        return max(0, LINK_WINDOW - len(self._entries))

    def may_leave(self, waiting: int, now: float) -> bool:
        """Whether so many publications that wait leave now; else at `deadline`."""
        self._is_filling = 0 < waiting < FRAME_FULL and now < self._cadence.due_at
        return not self._is_filling

    def sent(self, data: bytes, count: int, entries: Sequence[Entry], now: float) -> None:
        """A frame of so many messages goes out, with these publications of QoS 1 in it."""
        self._frames.append(data)
        self.sequence += 1
        self._cadence.went(now, FRAME_LARGE_EVERY_S if count >= FRAME_LARGE else FRAME_EVERY_S)
        for entry in entries:
            self._entries[self._places] = entry
            self._places += 1
        if len(self._frames) == 1:
            self._wait(now)

    def acknowledged(self, ack: Ack, now: float) -> list[Entry]:
        """The neighbour says what it has got, and taken care of; returns what it has taken care of since."""
        if ack.received > self.sequence or ack.done > self._places:  # no neighbour says that of its own
            return []
        self._heard_at = now
        if ack.received > self._come:
            for _ in range(ack.received - self._come):
                self._frames.popleft()
            self._come = ack.received
            self._wait(now)
        places = (*range(self._done, ack.done), *ack.ahead)
        self._done = max(self._done, ack.done)
        entries = (self._entries.pop(place, None) for place in places)
        return [entry for entry in entries if entry is not None]

    def again(self, now: float) -> list[bytes]:
        """Return what is to be sent again now."""
        if self._again_at is None or now < self._again_at:
            return []
        self._again_s = min(2 * self._again_s, 8 * RESEND_S)
        self._again_at = now + self._again_s
        return list(islice(self._frames, RESEND_FRAMES_MAX))

    def are_quiet(self, now: float) -> bool:
        """Whether all has come, but for long nothing was said of what is not taken care of: that may have been lost."""
        return self._again_at is None and bool(self._entries) and now >= self._heard_at + ASK_S

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
        """When `again`, `are_stalled`, `are_quiet` and `may_leave` must be asked."""
        if self._is_filling:
            return self._cadence.due_at
        if self._again_at is None:
            return self._heard_at + ASK_S if self._entries else None
        return min(self._again_at, self._waiting_since + SILENCE_S)

    def end(self) -> None:
        """The conversation is over; another begins."""
        self._over += self._entries.values()
        self._entries = {}
        self._frames.clear()
        self.sequence = self._come = 1
        self._places = self._done = 0
        self._again_at = None
        self._again_s = RESEND_S
        self._is_filling = False

    def take_back(self) -> list[Entry]:
        """Return, in order, what was not taken care of in conversations that are over."""
        over, self._over = self._over, []
        return over

    def check(self) -> None:
        """State the invariants."""
        assert self._come + len(self._frames) == self.sequence
        assert all(self._done <= place < self._places for place in self._entries)
        assert (self._again_at is None) == (not self._frames)

    def _wait(self, now: float) -> None:
        """There is progress: begin to wait anew, if there is anything to wait for."""
        self._waiting_since = now
        self._again_s = RESEND_S
        self._again_at = now + RESEND_S if self._frames else None
