"""The low-water mark of our own publications: below it, none will ever come again.

Theory of operation. A publication is taken care of, and we send its acknowledgement to our broker. But until the broker
has read that, a crash of ours makes it send the publication again. So receivers may forget it only then. The broker
does not answer acknowledgements; but it answers publications, in order. So after some acknowledgements we publish a
fence, an empty message to nobody: when the broker has acknowledged that, it has read what we sent before.
When the connection breaks, acknowledgements under way are lost, and fences of that connection prove nothing. What the
broker did not get it sends again before it answers anything on the new one, and it is then acknowledged once more.
What it does not send again it has forgotten, and the next fence shows that.

    sequence    open -> acknowledged -> fenced
    broken connection: all that are acknowledged need another fence
    sent again: open
"""

from collections import deque
from collections.abc import Iterable

from mqloom.core.limits import FENCE_EVERY_S


class Marks:
    """The sequences of one gateway's own publications that somebody may still see again."""

    def __init__(self) -> None:
        self._next = 0
        self._order: deque[int] = deque()
        self._closed: set[int] = set()
        self._acknowledged: set[int] = set()
        self._fencing: set[int] = set()
        self._fence: int | None = None
        self._fences = 0
        self._fence_at = 0.0

    def next(self, *, is_kept: bool) -> int:
        """Return the next sequence; one that is not kept is done with at once."""
        sequence = self._next
        self._next += 1
        if is_kept:
            self._order.append(sequence)
        return sequence

    @property
    def upcoming(self) -> int:
        """The sequence that `next` returns next."""
        return self._next

    @property
    def low_water(self) -> int:
        """The smallest sequence that is not done with."""
        while self._order and self._order[0] in self._closed:
            self._closed.discard(self._order.popleft())
        return self._order[0] if self._order else self._next

    def acknowledge(self, sequences: Iterable[int]) -> None:
        """These are being acknowledged, perhaps once more."""
        low_water = self.low_water
        for sequence in sequences:
            if sequence >= low_water and sequence not in self._closed:
                self._fencing.discard(sequence)
                self._acknowledged.add(sequence)

    def reopen(self, sequence: int) -> None:
        """The broker has sent it again: no acknowledgement before now counts."""
        self._acknowledged.discard(sequence)
        self._fencing.discard(sequence)
        self._closed.discard(sequence)

    def fence(self, now: float) -> int | None:
        """Return the number of a fence to be published now, if one is due."""
        if self._fence is not None or not self._acknowledged or now < self._fence_at:
            return None
        self._fence_at = now + FENCE_EVERY_S
        self._fences += 1
        self._fence = self._fences
        self._fencing, self._acknowledged = self._acknowledged, set()
        return self._fence

    def fenced(self, number: int) -> None:
        """The broker has acknowledged a fence; one of an earlier connection proves nothing."""
        if number == self._fence:
            self._closed |= self._fencing
            self._fencing, self._fence = set(), None

    def void(self) -> None:
        """The connection broke: a fence on its way proves nothing."""
        self._acknowledged |= self._fencing
        self._fencing, self._fence = set(), None

    @property
    def deadline(self) -> float | None:
        """When `fence` must be called."""
        return self._fence_at if self._acknowledged and self._fence is None else None

    def check(self) -> None:
        """State the invariants: whatever is acknowledged or fenced is in order, and nothing is both."""
        assert not self._acknowledged & self._fencing
        assert not (self._acknowledged | self._fencing) & self._closed
        assert self._closed | self._acknowledged | self._fencing <= set(self._order)
