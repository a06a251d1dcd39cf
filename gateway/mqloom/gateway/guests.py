"""The other end of soft links: gateways that are no neighbours, and send us publications.

They greet, we acknowledge, and that is all we say. A frame of a conversation that did not begin with a greeting, as
when we have restarted, is answered by an acknowledgement that nothing has come: then the sender begins anew.
"""

from collections.abc import Sequence

from mqloom.core.effects import SendAck
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import GUESTS_MAX
from mqloom.core.messages import Hello, Message
from mqloom.core.wire import Ack, Frame, encode_ack
from mqloom.gateway.arrivals import Arrivals
from mqloom.gateway.journal import Journal


class Guests:
    """All gateways with a soft link to us."""

    def __init__(self, gateway: GatewayId, journal: Journal) -> None:
        self._gateway = gateway
        self._journal = journal
        self._arrivals: dict[GatewayId, Arrivals] = {}
        self._stirred: dict[GatewayId, Arrivals] = {}  # those to whom something is to be said, now or later
        self._unknown: dict[GatewayId, Conversation] = {}

    def receive(self, frame: Frame, now: float) -> Sequence[Message]:
        """Take a frame: return the messages to obey."""
        arrivals = self._of(frame.sender)
        known = arrivals.conversation
        first = frame.messages[0] if frame.messages else None
        if isinstance(first, Hello) and first.asks:
            if known is None or frame.conversation > known:
                arrivals.begin(frame.conversation)
            elif frame.conversation == known and arrivals.came == 1:
                arrivals.asked()
            return ()
        if known is None or frame.conversation > known:
            self._unknown[frame.sender] = frame.conversation
            return ()
        if not arrivals.take(frame, now):
            self._journal.counters.add("frames_stale")
            return ()
        self._journal.counters.add("frames_received")
        if any(isinstance(message, Hello) for message in frame.messages):
            arrivals.asked()
        return frame.messages

    def places(self, guest: GatewayId) -> int:
        """Return how many publications of QoS 1 have come from a guest in its present conversation."""
        return self._arrivals[guest].places if guest in self._arrivals else 0

    def taken_care_of(self, guest: GatewayId, conversation: Conversation, place: int) -> None:
        """A publication is taken care of; of an earlier conversation nobody waits for it."""
        arrivals = self._arrivals.get(guest)
        if arrivals is None or conversation != arrivals.conversation or not arrivals.is_open(place):
            return  # not open: we had forgotten the guest, and a late greeting began the conversation once more
        arrivals.taken_care_of(place)
        self._stirred[guest] = arrivals

    def drain(self, now: float) -> list[SendAck]:
        """Return the acknowledgements that are due."""
        unknown, self._unknown = self._unknown, {}
        effects = [
            SendAck(neighbour=guest, ack=encode_ack(Ack(self._gateway, conversation, 0, 0)))
            for guest, conversation in unknown.items()
        ]
        for guest, arrivals in [*self._stirred.items()]:
            ack = arrivals.ack(self._gateway, now)
            if ack is not None:
                effects.append(SendAck(neighbour=guest, ack=ack))
            if arrivals.deadline is None:
                del self._stirred[guest]
        return effects

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        times = (arrivals.deadline for arrivals in self._stirred.values())
        return min((at for at in times if at is not None), default=None)

    def check(self) -> None:
        """State the invariants."""
        for guest, arrivals in self._arrivals.items():
            arrivals.check()
            assert guest in self._stirred or arrivals.deadline is None
        assert self._stirred.keys() <= self._arrivals.keys()

    def _of(self, guest: GatewayId) -> Arrivals:
        arrivals = self._arrivals.pop(guest, None)
        if arrivals is None:
            arrivals = Arrivals()
            if len(self._arrivals) >= GUESTS_MAX:
                oldest = next(iter(self._arrivals))
                del self._arrivals[oldest]
                self._stirred.pop(oldest, None)
        self._arrivals[guest] = arrivals  # at the end: the first is the one unheard of for longest
        self._stirred[guest] = arrivals
        return arrivals
