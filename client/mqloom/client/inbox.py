"""What comes to a subscriber, read: envelopes, answers and statuses. What cannot be read is counted and ignored."""

from collections import Counter
from typing import Final, NamedTuple

from mqloom.client.vocabulary import Deliver, MessageReceived
from mqloom.client.wishes import Wishes
from mqloom.core import layout
from mqloom.core.errors import RecordError, TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.records import Answer, Status, decode_answer, decode_envelope, decode_status
from mqloom.core.seen import Seen

COUNTS: Final = {
    "duplicates": "publications that had come before, dropped",
    "gaps": "times when publications may have passed us by: our session, or a subscription, had ended without our word",
    "unwanted": "publications for subscriptions of an earlier record of our name, dropped",
    "envelopes_malformed": "messages on our out topic that are no envelope, ignored",
    "answers_malformed": "messages on our ctl topic that are no answer, ignored",
    "answers_unexpected": "answers about subscriptions that we do not have, ignored",
    "statuses_malformed": "messages on a status topic that are no status of that gateway, ignored",
    "references": "times when the broker named another place, although we are never moved; ignored",
    "messages_unexpected": "messages on topics of no meaning to us, ignored",
}
"""What a subscriber counts, each with its meaning."""


class Heard(NamedTuple):
    """What a gateway said of itself; `status` is None when it is not alive."""

    gateway: GatewayId
    status: Status | None


class Inbox:
    """Reads what comes for these wishes, and gives every publication out once."""

    def __init__(self, wishes: Wishes, seen: Seen | None = None) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._wishes = wishes
        self._seen = Seen() if seen is None else seen

    def envelope(self, payload: bytes) -> list[Deliver]:
        """Return what is new and wanted in an envelope."""
        try:
            envelope = decode_envelope(payload)
        except RecordError:
            self.counts["envelopes_malformed"] += 1
            return []
        deliveries: list[Deliver] = []
        for delivered in envelope:
            publication = delivered.publication
            names = tuple(name for name in delivered.names if self._wishes.wants(name))
            if not names:
                self.counts["unwanted"] += 1
            elif self._seen.earlier(publication) is None:
                deliveries.append(Deliver(publication=publication, names=names))
            else:
                self.counts["duplicates"] += 1
        return deliveries

    def answer(self, payload: bytes) -> Answer | None:
        """Return an answer about our wishes, or None."""
        try:
            answer = decode_answer(payload)
        except RecordError:
            self.counts["answers_malformed"] += 1
            return None
        if not self._wishes.knows(answer):
            self.counts["answers_unexpected"] += 1
            return None
        return answer

    def here(self, payload: bytes) -> GatewayId | None:
        """Return whose broker this is, or None."""
        try:
            return decode_status(payload).gateway
        except RecordError:
            self.counts["statuses_malformed"] += 1
            return None

    def status(self, message: MessageReceived) -> Heard | None:
        """Return what a gateway said of itself, or None. A status that was deleted is one not alive."""
        try:
            gateway = layout.status_gateway(message.topic)
        except TopicError:
            self.counts["messages_unexpected"] += 1
            return None
        if not message.payload:
            return Heard(gateway, None)
        try:
            status = decode_status(message.payload)
            if status.gateway != gateway:
                raise RecordError(f"it is the status of {status.gateway!r}")
        except RecordError:
            self.counts["statuses_malformed"] += 1
            return None
        return Heard(gateway, status if status.alive else None)
