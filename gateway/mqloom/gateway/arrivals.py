"""The receiving end of a conversation: frames in order, and what is acknowledged of them.

Two counts are acknowledged: of the frames that have come without a gap, and of those among them whose publications,
and those of all before, are taken care of. The first is for sending again, the second for forgetting.
"""

from collections import deque

from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, encode_ack


class Arrivals:
    """What has come from one neighbour in its present conversation."""

    def __init__(self) -> None:
        self.conversation: Conversation | None = None
        self.came = 0
        """How many frames have come; the first is a greeting."""
        self._open: deque[list[int]] = deque()  # of each frame not done: its sequence, and how many publications
        self._told = 0
        self._tell_at: float | None = None

    def begin(self, conversation: Conversation) -> None:
        """A conversation begins, by a greeting."""
        self.conversation = conversation
        self.came = 1
        self._open.clear()
        self._told = 0
        self._tell_at = None

    def take(self, frame: Frame, now: float) -> bool:
        """Whether a frame is the next one; if not, the sender is told again where we are."""
        if frame.conversation != self.conversation:
            return False
        if frame.sequence != self.came:
            self._tell_at = now
            return False
        self.came += 1
        count = sum(isinstance(message, Publication) and message.qos > 0 for message in frame.messages)
        if count or self._open:
            self._open.append([frame.sequence, count])
        if self._tell_at is None:
            self._tell_at = now + ACK_DELAY_S
        return True

    def taken_care_of(self, sequence: int) -> None:
        """One publication of a frame is taken care of."""
        index = sequence - self._open[0][0]
        assert self._open[index][0] == sequence
        self._open[index][1] -= 1
        assert self._open[index][1] >= 0
        while self._open and not self._open[0][1]:
            self._open.popleft()

    @property
    def done(self) -> int:
        """How many frames are taken care of, with all before them."""
        return self._open[0][0] if self._open else self.came

    def ack(self, gateway: GatewayId, now: float) -> bytes | None:
        """Return the acknowledgement to send: at once if more is done, or asked for; else after a while."""
        is_time = self._tell_at is not None and now >= self._tell_at
        if self.conversation is None or not (is_time or self.done != self._told):
            return None
        self._told = self.done
        self._tell_at = None
        return encode_ack(Ack(gateway, self.conversation, self.came, self.done))

    @property
    def deadline(self) -> float | None:
        """When `ack` must be called."""
        return self._tell_at

    def check(self) -> None:
        """State the invariants: frames that are open follow each other, and the first has something open."""
        assert not self._open or self._open[0][1] > 0
        assert [sequence for sequence, _ in self._open] == list(range(self.done, self.done + len(self._open)))
