"""What the messages in frames do, in their order: wishes, waves, marks, controls, moves, and publications."""

from collections.abc import Sequence

from mqloom.core.errors import FilterError, TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.messages import (
    Announce,
    Control,
    Established,
    Flush,
    Flushed,
    Freeze,
    Frozen,
    Mark,
    Message,
    Parting,
    Passed,
    Synced,
    Thaw,
    Told,
    Want,
    Withdraw,
)
from mqloom.core.publication import Publication
from mqloom.core.subscription import Subscription
from mqloom.gateway.aliases import has_given
from mqloom.gateway.controls import Controls
from mqloom.gateway.interfaces import NeighbourTold
from mqloom.gateway.moves import Moves
from mqloom.gateway.neighbours import Neighbours
from mqloom.gateway.traffic import FromGateway
from mqloom.gateway.weaver import Weaver


class Obedience:
    """Carries out what other gateways say."""

    def __init__(self, neighbours: Neighbours, moves: Moves, controls: Controls, weaver: Weaver) -> None:
        self._gateway = neighbours.gateway
        self._neighbours = neighbours
        self._routes = neighbours.routes
        self._traffic = neighbours.traffic
        self._flushes = neighbours.flushes
        self._journal = neighbours.journal
        self._moves = moves
        self._controls = controls
        self._weaver = weaver

    def __call__(
        self, messages: Sequence[Message], sender: GatewayId, now: float, source: FromGateway | None = None
    ) -> None:
        """Carry out a neighbour's messages in order; publications that stand together are one batch."""
        batch: list[Publication] = []
        aliases = self._neighbours.aliases.get(sender)
        for message in messages:
            if isinstance(message, Publication):
                batch.append(message)
                continue
            source = self._receive_publications(batch, source)
            batch = []
            self._obey_one(message if aliases is None else aliases.incoming(message), sender, now)
        self._receive_publications(batch, source)

    def _receive_publications(self, batch: Sequence[Publication], source: FromGateway | None) -> FromGateway | None:
        if source is not None:
            return self._traffic.receive(batch, source)
        if batch:
            text = "a publication on the urgent stream, where nothing is in order"
            self._journal.refuse("publications_dropped", "urgent", text, len(batch))
        return None

    def _obey_one(self, message: Message, sender: GatewayId, now: float) -> None:
        if self._moves.is_leaving(sender) and not isinstance(message, Flush):
            return  # what is wanted there we know from our new neighbour
        match message:
            case Announce() | Withdraw() | Established() | Synced():
                self._obey_about_wishes(message, sender)
            case Flush():
                self._flushes.passed(sender, message)
            case Flushed():
                self._flushes.answered(sender, message, now)
            case Control() | Want():
                self._controls.receive(message, sender, now)
            case Mark():
                self._traffic.marked(message, sender)
            case Told():
                if not self._moves.told(sender, message.body):
                    self._weaver.hand(NeighbourTold(sender, message.body), now)
            case Freeze() | Frozen() | Thaw() | Passed() | Parting():
                self._moves.obey(message, sender, now)

    def _obey_about_wishes(self, message: Announce | Withdraw | Established | Synced, sender: GatewayId) -> None:
        match message:
            case Announce():
                self._announced(message, sender)
            case Withdraw():
                self._routes.remove(message.key, sender)
            case Established():
                self._routes.establish(message.key, sender, complete=message.complete)
            case Synced():
                self._routes.sweep(sender)
                self._traffic.heard(sender)

    def _announced(self, message: Announce, sender: GatewayId) -> None:
        if has_given(self._gateway, message.key):  # else one that has ended would go round for ever, the end behind it
            text = f"{sender} announced {message.key}, which is ours: is there a cycle in the primary network?"
            self._journal.refuse("subscriptions_refused", "cycle", text)
            return
        try:
            subscription = Subscription.parse(message.topics, message.where)
        except (FilterError, TopicError) as error:
            self._journal.refuse("subscriptions_refused", "neighbour", f"announced by {sender}: {error}")
            return
        self._routes.add(message.key, subscription, sender, message.anchor, message.hops + 1)
