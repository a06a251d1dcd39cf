"""The receiving end of a conversation: frames in order, and what is acknowledged of them.

Acknowledged are the frames that have come without a gap, so that others are sent again, and the publications that are
taken care of, so that they can be forgotten. Publications have places, counted over the whole conversation. One need
not wait for those before it: in a network with cycles, links would wait for each other.

An acknowledgement leaves as soon as there is something new in it; but when they follow each other faster than
ACK_EVERY_S, the next waits so long, and says more.
"""

from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import ACK_DELAY_S, ACK_EVERY_S, ACK_PLACES_MAX, ACKS_AT_ONCE
from mqloom.core.publication import Publication
from mqloom.core.wire import Ack, Frame, encode_ack
from mqloom.gateway.cadence import Cadence


class Arrivals:
    """What has come from one neighbour in its present conversation."""

    def __init__(self) -> None:
        self.conversation: Conversation | None = None
        self.came = 0
        """How many frames have come; the first is a greeting."""
        self.places = 0
        """How many publications of QoS 1 have come."""
        self.done = 0
        """How many of them are taken care of, with all before them."""
        self._ahead: set[int] = set()
        self._news: list[int] = []
        self._tell_at: float | None = None
        self._tell_all = False
        self._cadence = Cadence(ACK_EVERY_S, ACKS_AT_ONCE)

    def begin(self, conversation: Conversation) -> None:
        """A conversation begins, by a greeting."""
        self.conversation = conversation
        self.came = 1
        self.places = self.done = 0
        self._ahead.clear()
        self._news.clear()
        self._tell_at = None
        self._tell_all = True

    def take(self, frame: Frame, now: float) -> bool:
        """Whether a frame is the next one; if not, the sender is told again where we are."""
        if frame.conversation != self.conversation:
            return False
        if frame.sequence != self.came:
            self._tell_all = True
            return False
        self.came += 1
        self.places += len([each for each in frame.messages if isinstance(each, Publication) and each.qos])
        if self._tell_at is None:
            self._tell_at = now + ACK_DELAY_S
        return True

    def asked(self) -> None:
        """The neighbour wants to know where we are."""
        self._tell_all = True

    def is_open(self, place: int) -> bool:
        """Whether a publication has come, and is not taken care of."""
        return self.done <= place < self.places and place not in self._ahead

    def taken_care_of(self, place: int) -> None:
        """One publication is taken care of."""
        assert self.is_open(place), place
        self._news.append(place)
        if place != self.done:
            self._ahead.add(place)
            return
        self.done += 1
        while self.done in self._ahead:
            self._ahead.discard(self.done)
            self.done += 1

    def ack(self, gateway: GatewayId, now: float) -> bytes | None:
        """Return the acknowledgement to send: at once if asked for; if more is done, by its cadence; else later."""
        if self.conversation is None or not (self._tell_all or self._is_time(now)):
            return None
        places = sorted(self._ahead) if self._tell_all else sorted(place for place in self._news if place > self.done)
        self._news.clear()
        self._tell_at = None
        self._tell_all = False
        self._cadence.went(now)
        # More would be refused. Of the earlier ones the sender has probably heard, and else hears when all is done.
        places = places[-ACK_PLACES_MAX:]
        return encode_ack(Ack(gateway, self.conversation, self.came, self.done, tuple(places)))

    @property
    def deadline(self) -> float | None:
        """When `ack` must be called."""
        if not self._news:
            return self._tell_at
        return self._cadence.due_at if self._tell_at is None else min(self._tell_at, self._cadence.due_at)

    def check(self) -> None:
        """State the invariants."""
        assert self.done <= self.places
        assert all(self.done < place < self.places for place in self._ahead)

    def _is_time(self, now: float) -> bool:
        if self._news and now >= self._cadence.due_at:
            return True
        return self._tell_at is not None and now >= self._tell_at
