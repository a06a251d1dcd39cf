"""Gateways that are broken on purpose, each in one way: whatever is to find faults must find these.

`spoil` breaks a node that was just built; `seen` is what its clients tell repetitions by. `BROKEN` has them by name,
and `everywhere` breaks every node and client that is built while it is entered.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import msgspec

from mqloom.agents.balancer import Balancer
from mqloom.agents.edge import Edge
from mqloom.agents.head import Head
from mqloom.agents.mediator import Mediator, _Session
from mqloom.agents.peer import Peer
from mqloom.agents.sessions import News
from mqloom.core.effects import PublishLocally
from mqloom.core.ids import GatewayId, PublicationId, SubscriptionKey
from mqloom.core.publication import Publication
from mqloom.core.records import PlaceLink
from mqloom.core.seen import Seen
from mqloom.core.subscription import Subscription
from mqloom.gateway.custody import Custody, Duty, FromPark, Source
from mqloom.gateway.flows import Flow
from mqloom.gateway.marks import Marks
from mqloom.gateway.moves import Move, Moves, Step
from mqloom.gateway.neighbours import Neighbours
from mqloom.gateway.node import Node
from mqloom.gateway.routes import Routes
from mqloom.lab.poor_hearing import PoorHearing


@dataclass(frozen=True, slots=True)
class Broken:
    """One way to be broken."""

    name: str
    what: str
    spoil: Callable[[Node], None]
    seen: type[Seen] = Seen


class NeverSeen(Seen):
    """Takes everything for new."""

    def earlier(self, publication: Publication) -> PublicationId | None:
        """Say that it never came before."""
        return None


class NeverForgets(Seen):
    """Does not heed low-water marks."""

    def earlier(self, publication: Publication) -> PublicationId | None:
        """Look for it among everything that ever came."""
        return super().earlier(msgspec.structs.replace(publication, low_water=0))

    def forget_below(self, origin: GatewayId, epoch: int, low_water: int) -> None:
        """Pass over it."""


class OnReceipt(Custody):
    """Tells a source at once that its publication is taken care of; but parks are kept as they should be."""

    def begin(self, source: Source, id_: PublicationId | None = None) -> Duty:
        """Take over a publication, and say so too early."""
        if not isinstance(source, FromPark):
            self._met.append(source)
        return super().begin(source, id_)

    def again(self, source: Source, id_: PublicationId, known_as: PublicationId) -> None:
        """Tell this source too."""
        self._met.append(source)

    def meet(self, duty: Duty) -> None:
        """Only parks are still to be told."""
        if not isinstance(duty.sources[0], FromPark) and duty.claims == 1:
            duty.sources = []
        super().meet(duty)


class DroppingFlow(Flow):
    """Lets go of what it should park."""

    def _park(self) -> None:
        kept = [entry.duty for entry in self._queue if entry.duty is not None]
        self._queue.clear()
        for duty in kept:
            self._deliveries.met(duty)


class HastyFlow(Flow):
    """Has the broker forget what was parked as soon as it is given back."""

    def parked(self, data: bytes, receipt: int, now: float) -> Sequence[Publication]:
        """Take what the broker gives back, and acknowledge it."""
        publications = super().parked(data, receipt, now)
        self.settle(receipt)
        return publications


class HastyMarks(Marks):
    """Takes an acknowledgement that was sent for one that was read: needs no fence."""

    def acknowledge(self, sequences: Iterable[int]) -> None:
        """These will never come again, it thinks."""
        self._closed.update(sequence for sequence in sequences if sequence >= self.low_water)


class AnchorlessRoutes(Routes):
    """Withholds an announcement from a neighbour also if what that neighbour announced itself covers it."""

    def add(
        self,
        key: SubscriptionKey,
        subscription: Subscription,
        source: GatewayId | None,
        named: GatewayId | None = None,
        hops: int = 0,
    ) -> bool:
        """Take in a subscription, and look for such cover."""
        added = super().add(key, subscription, source, named, hops)
        for known, entry in self._entries.items():
            for target in self._overlay.spread(entry.source):
                others = (each for each in self._entries.values() if each.source == target)
                if any(each.subscription.covers(entry.subscription) for each in others):
                    self._tell(target, self._announcements[target].remove(known))
                    self._served(target, [known])
        return added

    def check(self) -> None:
        """Nothing to state: that announcements are missing is meant."""


class HastyMoves(Moves):
    """Does not wait for what goes along the path of a move: takes it for passed when it is sent."""

    def _enter(self, move: Move, step: Step) -> bool:
        move.is_passed = move.is_passed or step in (Step.SWEEPING, Step.HOLDING)
        return super()._enter(move, step)


class UnkeptMoves(Moves):
    """Takes for kept what its broker has not acknowledged: parts before it is sure of its new place."""

    def _keep_place(self, move: Move, record: PublishLocally) -> None:
        super()._keep_place(move, record)
        move.is_kept = True


class AliaslessNeighbours(Neighbours):
    """Uses the same keys over a link that is moved as over all others."""

    def add(self, link: PlaceLink, now: float, *, is_known: bool = True) -> None:
        """Begin a link, without aliases."""
        super().add(link, now, is_known=is_known)
        self.aliases.clear()


class WaitingMediator(Mediator):
    """Waits for the end of a session that it accepted until it is told so, however long nothing is heard."""

    def _look_after(self, session: _Session, now: float) -> list[News]:
        return super()._look_after(session, now) if self.is_offloading else []


class WaitingBalancer(Balancer):
    """A load agent that waits so."""

    def _become(self, peer: Peer, now: float) -> Edge | Head:
        part = super()._become(peer, now)
        part.mediator.__class__ = WaitingMediator
        return part


def _never_seen(node: Node) -> None:
    node._traffic._seen = NeverSeen()


def _never_forgets(node: Node) -> None:
    node._traffic._seen = NeverForgets()


def _on_receipt(node: Node) -> None:
    node._traffic._custody.__class__ = OnReceipt


def _dropping(node: Node) -> None:
    for flow in node._traffic._flows.values():
        flow.__class__ = DroppingFlow


def _hasty_parks(node: Node) -> None:
    for flow in node._traffic._flows.values():
        flow.__class__ = HastyFlow


def _hasty_marks(node: Node) -> None:
    node._traffic.intake._marks.__class__ = HastyMarks


def _anchorless(node: Node) -> None:
    node._routes.__class__ = AnchorlessRoutes


def _hasty_moves(node: Node) -> None:
    node._moves.__class__ = HastyMoves


def _unkept_moves(node: Node) -> None:
    node._moves.__class__ = UnkeptMoves


def _aliasless(node: Node) -> None:
    node._neighbours.__class__ = AliaslessNeighbours


def _waiting(node: Node) -> None:
    for agent in node._controls._agents.values():
        if isinstance(agent, PoorHearing):
            agent.agent.__class__ = WaitingBalancer


BROKEN: Final = {
    each.name: each
    for each in (
        Broken("no-duplicate-removal", "repetitions are not dropped, here or at clients", _never_seen, NeverSeen),
        Broken("acknowledging-on-receipt", "a publication is acknowledged before it is taken care of", _on_receipt),
        Broken("forgetting-parked", "what should be parked is dropped", _dropping),
        Broken("forgetting-given-back", "what is parked is acknowledged when it is given back", _hasty_parks),
        Broken("mark-without-fence", "the low-water mark runs ahead of what the broker has read", _hasty_marks),
        Broken("mark-unheeded", "low-water marks are not heeded: memory grows", _never_forgets, NeverForgets),
        Broken("covering-without-anchors", "a neighbour's own wish covers others' towards it", _anchorless),
        Broken("moving-unpassed", "a move does not wait for what was sent by the old way", _hasty_moves),
        Broken("moving-unkept", "a move does not wait until the new place is kept", _unkept_moves),
        Broken("moving-without-aliases", "a moved link has no names of its own for subscriptions", _aliasless),
        Broken("waiting-for-ever", "load agents wait for the other side of a session for ever", _waiting),
    )
}
"""All of them, by name."""


@contextmanager
def everywhere(broken: Broken) -> Iterator[None]:
    """Break every node and every client that is built meanwhile."""
    build = Node.__init__

    def build_and_spoil(self: Node, *arguments: Any) -> None:
        build(self, *arguments)
        broken.spoil(self)

    with mock.patch.object(Node, "__init__", build_and_spoil), mock.patch("mqloom.client.inbox.Seen", broken.seen):
        yield
