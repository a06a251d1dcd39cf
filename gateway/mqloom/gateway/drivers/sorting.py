"""What comes by our control connection, and what it is, by its topic."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mqloom.core import layout
from mqloom.core.errors import TopicError
from mqloom.core.events import (
    Asked,
    DrainRead,
    Event,
    FramesReceived,
    OrderAnswered,
    Ordered,
    RecordReceived,
    RosterRead,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.topics import REMEMBERED_LENGTH_MAX, topic_matches
from mqloom.gateway.drivers.mqtt import Received, TopicSubscription

REMEMBERED_MAX: Final = 4_096
"""Link topics of which the answer is remembered, none of them long; past that all are forgotten, and found out anew."""


def control_subscriptions(gateway: GatewayId, *, gives_orders: bool) -> list[TopicSubscription]:
    """Return what a gateway reads besides publications of clients; some of it only if it gives orders to these."""
    topics = (layout.roster(), layout.drain(gateway), layout.client_answers(gateway))
    about_orders = [TopicSubscription(each, 1) for each in topics]
    return [
        TopicSubscription(layout.records(gateway), 1),
        TopicSubscription(layout.place(gateway), 1),
        *(TopicSubscription(topics, 0) for topics in layout.links(gateway)),
        TopicSubscription(layout.questions(gateway), 0),  # nobody waits for an answer while we are away
        TopicSubscription(layout.orders(gateway), 0),
        *(about_orders if gives_orders else ()),
        TopicSubscription(layout.status(gateway), 1),  # last: when our own comes back, all records before it have
    ]


def is_kept(gateway: GatewayId, topic: str) -> bool:
    """Whether what a gateway writes there is kept on its broker, and written again if that may have lost it."""
    kept = (layout.portrait(gateway), layout.place(gateway), layout.roster(), layout.drain(gateway))
    return topic in kept or topic_matches(layout.mirrors(gateway), topic)


class Kind(NamedTuple):
    """A record (each by itself), frames of one sender, and so on; `who` is whose it is, or what is wrong with it."""

    what: str
    who: str
    urgent: bool = False


def event_of(kind: Kind, messages: Sequence[Received]) -> Event | None:
    """Return what messages of one kind mean for the node; None if only the driver can tell."""
    last = messages[-1].payload
    match kind.what:
        case "record":  # only the last counts: a record is the whole wish
            return RecordReceived(client=ClientId(kind.who), data=last)
        case "question":  # likewise: who asks again waits for the last answer
            return Asked(client=ClientId(kind.who), data=last)
        case "order":
            return Ordered(client=ClientId(kind.who), data=last)
        case "answer":  # likewise: it says how far the client is
            return OrderAnswered(client=ClientId(kind.who), data=last)
        case "roster":
            return RosterRead(data=last)
        case "drain":
            return DrainRead(data=last)
        case "link":
            frames = tuple(each.payload for each in messages)
            return FramesReceived(sender=GatewayId(kind.who), frames=frames, urgent=kind.urgent)
        case _:
            return None


class Sorter:
    """Sorts the messages for one gateway."""

    def __init__(self, gateway: GatewayId) -> None:
        self._gateway = gateway
        self._links: dict[str, Kind] = {}

    def kind(self, topic: str) -> Kind:
        """Return what is said on a topic."""
        known = self._links.get(topic)
        if known is not None:
            return known
        try:
            kind = self._kind(topic)
        except TopicError as error:
            return Kind("malformed", str(error))
        # Frames come by the thousand, all else now and then.
        if kind.what == "link" and len(topic) <= REMEMBERED_LENGTH_MAX:
            if len(self._links) >= REMEMBERED_MAX:
                self._links.clear()
            self._links[topic] = kind
        return kind

    def _kind(self, topic: str) -> Kind:
        gateway = self._gateway
        if topic_matches(layout.records(gateway), topic):
            return Kind("record", layout.record_client(gateway, topic))
        if topic_matches(layout.questions(gateway), topic):
            return Kind("question", layout.question_client(gateway, topic))
        if topic_matches(layout.orders(gateway), topic):
            return Kind("order", layout.order_client(gateway, topic))
        if topic_matches(layout.client_answers(gateway), topic):
            return Kind("answer", layout.answering_client(gateway, topic))
        if any(topic_matches(links, topic) for links in layout.links(gateway)):
            return Kind("link", *layout.link_sender(gateway, topic))
        for what, alone in (
            ("status", layout.status(gateway)),
            ("place", layout.place(gateway)),
            ("roster", layout.roster()),
            ("drain", layout.drain(gateway)),
        ):
            if topic == alone:
                return Kind(what, "")
        return Kind("unasked", topic)  # some brokers replay retained messages that nobody asked for
