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
        if arrivals is not None and conversation == arrivals.conversation:
            arrivals.taken_care_of(place)

    def drain(self, now: float) -> list[SendAck]:
        """Return the acknowledgements that are due."""
        unknown, self._unknown = self._unknown, {}
        effects = [
            SendAck(neighbour=guest, ack=encode_ack(Ack(self._gateway, conversation, 0, 0)))
            for guest, conversation in unknown.items()
        ]
        for guest, arrivals in self._arrivals.items():
            ack = arrivals.ack(self._gateway, now)
            if ack is not None:
                effects.append(SendAck(neighbour=guest, ack=ack))
        return effects

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        times = (arrivals.deadline for arrivals in self._arrivals.values())
        return min((at for at in times if at is not None), default=None)

    def check(self) -> None:
        """State the invariants."""
        for arrivals in self._arrivals.values():
            arrivals.check()

    def _of(self, guest: GatewayId) -> Arrivals:
        arrivals = self._arrivals.pop(guest, None)
        if arrivals is None:
            arrivals = Arrivals()
            if len(self._arrivals) >= GUESTS_MAX:
                del self._arrivals[next(iter(self._arrivals))]
        self._arrivals[guest] = arrivals  # at the end: the first is the one unheard of for longest
        return arrivals
