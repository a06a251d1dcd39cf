"""What of a park has been taken, so that nobody who writes it there once more has it delivered again.

What a gateway parks it numbers, inside the seal, in each of its epochs from 1 on. Of its own epoch it knows exactly
which numbers are done, as ranges: what the broker refused and was put in again comes behind higher ones, and still
counts. A copy of what is under way is acknowledged together with it, since the broker may have sent the same message
twice, and would forget it. What is not done when the link is lost comes again, and is taken again.

What former lives parked, whatever its number, was put in before our first marker, and a broker that hands over in order
does so before that. From then on only that part of it still counts that was handed over and is not done. Brokers that
send again late, or out of order, get EARLIER_PARKED_S more. What of former lives was done before, and is written again
while we are away, we cannot tell from what was parked; its receivers drop it, as long as they remember.
"""

from bisect import bisect_right
from hashlib import blake2b

from mqloom.core.limits import EARLIER_PARKED_S, PARKED_RANGES_MAX

Name = int | bytes
"""A number of our own epoch, or a digest of what an earlier one parked."""


class TakenFrames:
    """The frames of one park."""

    def __init__(self, epoch: int, numbered: int = 0) -> None:
        self.numbered = numbered
        """The highest number given; those up to the first value were of an earlier park for the same neighbour."""
        self._epoch = epoch
        self._starts = [0]
        self._ends = [numbered]
        self._under_way: dict[Name, list[int]] = {}
        self._names: dict[int, Name] = {}
        self._expected: set[bytes] = set()  # of earlier epochs: was handed over, is not done
        self._earlier_until: float | None = None

    def next_number(self) -> int:
        """Number what is parked next."""
        self.numbered += 1
        return self.numbered

    def take(self, epoch: int, number: int, data: bytes, receipt: int, now: float) -> str:
        """Take what the broker hands over: "new"; "copy", if it is to be acknowledged with another; "done", at once."""
        name: Name = number if epoch == self._epoch else blake2b(data, digest_size=16).digest()
        under_way = self._under_way.get(name)
        if under_way is not None:
            under_way.append(receipt)
            self._names[receipt] = name
            return "copy"
        if isinstance(name, int):
            if self._is_done(name):
                return "done"
        elif self._earlier_until is not None and now >= self._earlier_until and name not in self._expected:
            return "done"
        self._under_way[name] = [receipt]
        self._names[receipt] = name
        return "new"

    def settle(self, receipt: int) -> list[int]:
        """A message is taken care of: return all receipts by which it came."""
        name = self._names.get(receipt)
        if name is None:
            return [receipt]
        receipts = self._under_way.pop(name)
        for each in receipts:
            del self._names[each]
        if isinstance(name, int):
            self._finish(name)
        else:
            self._expected.discard(name)
        return receipts

    def void(self) -> None:
        """The link is lost: what is not done comes again."""
        self._expected.update(name for name in self._under_way if isinstance(name, bytes))
        self._under_way.clear()
        self._names.clear()

    def marked(self, now: float, *, comes_in_order: bool) -> None:
        """A marker of ours has come back: all of earlier epochs that was in the park has come before it."""
        if self._earlier_until is None:
            self._earlier_until = now + (0.0 if comes_in_order else EARLIER_PARKED_S)

    def check(self) -> None:
        """State the invariants."""
        assert len(self._starts) == len(self._ends) <= PARKED_RANGES_MAX
        assert all(start <= end for start, end in zip(self._starts, self._ends, strict=True))
        assert all(end + 1 < start for end, start in zip(self._ends, self._starts[1:], strict=False))
        assert self._names == {each: name for name, receipts in self._under_way.items() for each in receipts}

    def _is_done(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def _finish(self, number: int) -> None:
        at = bisect_right(self._starts, number)
        joins_left = at > 0 and self._ends[at - 1] == number - 1
        joins_right = at < len(self._starts) and self._starts[at] == number + 1
        if joins_left and joins_right:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_left:
            self._ends[at - 1] = number
        elif joins_right:
            self._starts[at] = number
        else:
            self._starts.insert(at, number)
            self._ends.insert(at, number)
            if len(self._starts) > PARKED_RANGES_MAX:  # better delivered twice than lost
                del self._starts[0], self._ends[0]
