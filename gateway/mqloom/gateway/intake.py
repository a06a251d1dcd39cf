"""What clients publish on our own broker: refused or given its identity, and held until we know who may want it.

Theory of operation. When a gateway starts, its broker hands over what was published while it was away, and only then
the retained records of its clients; the neighbours' wishes come later still. Routed at once, all that would match
nobody. So the intake holds it until the records are read and every link has said its wishes, or is given up, and at
most for LINK_GRACE_S; past HELD_MAX publications or HELD_BYTES_MAX it lets go at once.
"""

from collections.abc import Sequence

from mqloom.core.errors import TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import (
    HELD_BYTES_MAX,
    HELD_MAX,
    PAYLOAD_BYTES_MAX,
    PROPERTY_LENGTH_MAX,
    SEEN_WINDOW,
    TOPIC_LENGTH_MAX,
    USER_PROPERTIES_MAX,
)
from mqloom.core.publication import Incoming, Publication
from mqloom.core.topics import check_topic
from mqloom.gateway.journal import Journal


class Intake:
    """The way in of one gateway. It holds until it is told to let go, and never again after."""

    def __init__(self, gateway: GatewayId, epoch: int, journal: Journal) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._journal = journal
        self._sequence = 0
        self._held: list[Publication] = []
        self._held_bytes = 0
        self.is_holding = True

    def take(self, incoming: Sequence[Incoming]) -> list[Publication]:
        """Return the publications to be routed now: none while holding, unless there are too many."""
        publications = [self._number(each) for each in incoming if self._admits(each)]
        self._journal.counters.add("publications_in", amount=len(publications))
        if not self.is_holding:
            return publications
        self._held += publications
        self._held_bytes += sum(len(each.payload) for each in publications)
        if len(self._held) > HELD_MAX or self._held_bytes > HELD_BYTES_MAX:
            self._journal.tell("warning", f"{len(self._held)} publications are too many to hold: routing them now")
            return self.let_go()
        return []

    def let_go(self) -> list[Publication]:
        """Hold no longer; return what was held."""
        self.is_holding = False
        held, self._held = self._held, []
        return held

    def _number(self, incoming: Incoming) -> Publication:
        sequence = self._sequence
        self._sequence += 1
        return Publication(
            self._gateway,
            self._epoch,
            sequence,
            max(0, sequence - SEEN_WINDOW),
            0,
            incoming.topic,
            incoming.payload,
            incoming.qos,
            incoming.retain,
            incoming.content_type,
            incoming.user_properties,
        )

    def _admits(self, incoming: Incoming) -> bool:
        problem = _problem(incoming)
        if problem is not None:
            text = f"a publication on {incoming.topic[:100]!r} stays on its broker"
            self._journal.refuse("publications_refused", problem, text)
        return problem is None


def _problem(incoming: Incoming) -> str | None:
    """Return why a publication is not taken in, or None."""
    if incoming.retain:
        return "retained replay"  # the broker's memory, not somebody publishing now
    if len(incoming.payload) > PAYLOAD_BYTES_MAX:
        return "payload too large"
    if len(incoming.topic) > TOPIC_LENGTH_MAX:
        return "topic too long"
    try:
        check_topic(incoming.topic)  # some brokers pass what MQTT forbids, and no neighbour would read it
    except TopicError:
        return "topic invalid"
    if len(incoming.user_properties) > USER_PROPERTIES_MAX or any(
        len(text) > PROPERTY_LENGTH_MAX for pair in incoming.user_properties for text in pair
    ):
        return "too many properties"
    return "too many properties" if len(incoming.content_type) > PROPERTY_LENGTH_MAX else None
