"""What the topics that come to a simulated gateway mean; each is looked into once."""

from typing import Literal

from mqloom.core import layout
from mqloom.core.errors import TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.topics import topic_matches

Kind = tuple[Literal["link", "record", "place", "status", "roster", "drain", "answer", "unasked"], str, bool]
"""What a message is, whose (a sender or a client), and whether it is urgent."""


class _Acks(dict[GatewayId, str]):
    """The topics of acknowledgements, by neighbour."""

    def __init__(self, gateway: GatewayId, *, ours: bool) -> None:
        self._gateway = gateway
        self._ours = ours

    def __missing__(self, neighbour: GatewayId) -> str:
        pair = (self._gateway, neighbour) if self._ours else (neighbour, self._gateway)
        self[neighbour] = layout.ack(*pair)
        return self[neighbour]


class Topics:
    """The topics of one gateway."""

    def __init__(self, gateway: GatewayId) -> None:
        self._gateway = gateway
        self._kinds: dict[str, Kind] = {}
        self._links: dict[tuple[GatewayId, bool], str] = {}
        self.acks = _Acks(gateway, ours=False)
        self.own_acks = _Acks(gateway, ours=True)
        self.place = layout.place(gateway)
        self.kept = (layout.roster(), layout.drain(gateway))

    def subscriptions(self, *, gives_orders: bool) -> tuple[tuple[str, int], ...]:
        """Return what a gateway reads by its control connection; some of it only if it gives orders to clients."""
        about_orders = (*self.kept, layout.client_answers(self._gateway)) if gives_orders else ()
        return (
            (layout.records(self._gateway), 1),
            (layout.place(self._gateway), 1),
            *((topics, 1) for topics in about_orders),
            *((topics, 0) for topics in layout.links(self._gateway)),
            (layout.status(self._gateway), 1),  # last: when our own comes back, all records before it have
        )

    def kind(self, topic: str) -> Kind:
        """Say what a message on this topic is."""
        kind = self._kinds.get(topic)
        if kind is None:
            kind = self._kinds[topic] = self._look(topic)
        return kind

    def link(self, neighbour: GatewayId, *, urgent: bool) -> str:
        """Return where to write frames for a neighbour."""
        key = (neighbour, urgent)
        if key not in self._links:
            self._links[key] = layout.link(neighbour, self._gateway, urgent=urgent)
        return self._links[key]

    def _look(self, topic: str) -> Kind:
        try:
            if topic_matches(layout.records(self._gateway), topic):
                return ("record", layout.record_client(self._gateway, topic), False)
            if any(topic_matches(links, topic) for links in layout.links(self._gateway)):
                sender, urgent = layout.link_sender(self._gateway, topic)
                return ("link", sender, urgent)
            if topic_matches(layout.client_answers(self._gateway), topic):
                return ("answer", layout.answering_client(self._gateway, topic), False)
        except TopicError:
            return ("unasked", topic, False)
        if topic == layout.place(self._gateway):
            return ("place", topic, False)
        if topic in self.kept:
            return ("roster" if topic == layout.roster() else "drain", topic, False)
        return ("status" if topic == layout.status(self._gateway) else "unasked", topic, False)
