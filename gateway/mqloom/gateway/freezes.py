"""Leave to move a primary link, and soft links that keep off its path (paper 001, section 6: the first two phases).

Theory of operation. While a gateway moves, the primary network has a cycle: the path from it over its old neighbour to
its new one, and the new link. Publications go both ways around it, and whoever gets one twice must not wait for itself.
So no soft link may touch the path, and no other move may be near. The gateway that moves asks everybody from where a
soft link could reach the path; the question goes out over primary links and the answers come back, as those of a flush
do. Whoever agrees closes its soft links that touch the path, opens no others, and agrees to no other move until this
one is over. So everybody near is a coordinator, and none is needed whose crash would matter: two moves that are near
each other meet somebody who agrees to one of them only.

A crash must not let a soft link touch the path: the map of its gateway is not that of others, as long as the move is
under way, and what it sends may be left out by both ways. So whoever begins anew is told of the move by its neighbours
before it has a map. For the same reason the one from whom the gateway parts says that the move is over, when it has
heard that itself: its word goes behind the news of it, which changes the maps.

    event                                  then
    asked, and we have agreed to another   refuse; but if both are of one gateway, the first is over
    asked to take on one of whom we have   refuse
    no address
    asked, and somebody is out of reach    refuse: we cannot ask there
    asked                                  keep off, ask further
    told again, after a restart            keep off, tell others again
    told again, and it is over             say so
    all have agreed, soft links are gone   agree
    one refuses, or is lost                refuse
    thawed, or FREEZE_S later              over
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from mqloom.core.ids import GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, FREEZE_S
from mqloom.core.messages import Freeze, Frozen, Thaw
from mqloom.core.records import PlaceLink
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import MoveNear, MoveOver, OverlayEvent
from mqloom.gateway.outbox import Outbox
from mqloom.gateway.soft_links import SoftLinks

MOVERS_MAX: Final = 1_024
"""Gateways of whose last move we remember that it is over; past that the first is forgotten."""


@dataclass(slots=True)
class _Agreement:
    """The move that we have agreed to, or may still."""

    freeze: Freeze
    asked_by: GatewayId | None
    waiting: set[GatewayId]
    until: float
    answer: str | None = None
    """The problem, or nothing; None as long as somebody is waited for."""

    @property
    def name(self) -> tuple[GatewayId, int]:
        return self.freeze.mover, self.freeze.number


class Freezes:
    """What one gateway has agreed to."""

    def __init__(
        self,
        gateway: GatewayId,
        overlay: GuardedOverlay,
        soft_links: SoftLinks,
        outbox: Outbox,
        tell_overlay: Callable[[OverlayEvent, float], None],
        peers: Collection[GatewayId],
    ) -> None:
        self._gateway = gateway
        self._peers = peers
        self._overlay = overlay
        self._soft_links = soft_links
        self._outbox = outbox
        self._tell_overlay = tell_overlay
        self._reachable: set[GatewayId] = set()
        self._agreed: _Agreement | None = None
        self._over_to: dict[GatewayId, int] = {}
        """Up to which number the moves of a gateway are over, as far as we have heard."""

    @property
    def is_free(self) -> bool:
        """Whether no move is under way near us."""
        return self._agreed is None

    def ask(self, freeze: Freeze, now: float) -> None:
        """Ask for a move of our own; `answer` is what has become of it."""
        assert self._agreed is None
        self._begin(freeze, None, now)

    def asked(self, sender: GatewayId, freeze: Freeze, now: float) -> None:
        """A neighbour asks for somebody's move."""
        agreed = self._agreed
        if freeze.is_again:
            self._told_again(sender, freeze, now)
        elif agreed is not None and agreed.name == (freeze.mover, freeze.number):
            self._reply(sender, freeze, "it came by twice: is there a cycle in the primary network?")
        elif self._is_outdated(freeze):  # its gateway crashed meanwhile, or we did not hear the end of that
            self._agreed = None
            self._tell_overlay(MoveOver(), now)
            self._begin(freeze, sender, now)
        elif agreed is not None or freeze.mover == self._gateway:
            who = self._gateway if agreed is None else agreed.freeze.mover
            self._reply(sender, freeze, f"{self._gateway} has agreed to a move of {who}: try again when it is over")
        else:
            self._begin(freeze, sender, now)

    def _told_again(self, sender: GatewayId, freeze: Freeze, now: float) -> None:
        """Keep off, if we have forgotten to; but the sender may not have heard that it is over."""
        if self._over_to.get(freeze.mover, 0) >= freeze.number:
            self._outbox.post(sender, [Thaw(freeze.mover, freeze.number, CONTROL_HOPS_MAX)])
        elif self._agreed is None:
            self._agree(_Agreement(freeze, sender, set(), now + FREEZE_S, ""), now)
            self._tell_again(each for each in self._overlay.spread(sender) if each in self._reachable)

    def _tell_again(self, neighbours: Iterable[GatewayId]) -> None:
        assert self._agreed is not None
        freeze = self._agreed.freeze
        if freeze.hops_left:
            again = replace(freeze, hops_left=freeze.hops_left - 1, is_again=True)
            for neighbour in neighbours:
                self._outbox.post(neighbour, [again])

    def answered(self, sender: GatewayId, frozen: Frozen) -> None:
        """A neighbour answers for everybody behind it."""
        agreed = self._agreed
        if agreed is not None and agreed.name == (frozen.mover, frozen.number) and sender in agreed.waiting:
            agreed.waiting.discard(sender)
            if frozen.problem:
                self._conclude(agreed, frozen.problem)

    @property
    def answer(self) -> str | None:
        """What has become of our own question: a problem, or nothing; None as long as it is open."""
        assert self._agreed is not None
        assert self._agreed.asked_by is None
        return self._agreed.answer

    def may_join(self, gateway: GatewayId) -> PlaceLink | None:
        """Return the link by which a gateway is to be our neighbour; None if by no move that we have agreed to."""
        agreed = self._agreed
        if agreed is None or agreed.answer != "" or agreed.freeze.mover != gateway:
            return None
        freeze = agreed.freeze
        return PlaceLink(gateway, freeze.number, False, freeze.instead_of) if freeze.path[-1] == self._gateway else None

    def settle(self) -> None:
        """Answer, when everybody has and the soft links that touch the path are gone."""
        agreed = self._agreed
        if agreed is not None and agreed.answer is None and not agreed.waiting and not self._soft_links.are_closing:
            self._conclude(agreed, "")

    def end(self, now: float) -> None:
        """Our own move is over, and nobody has another map because of it."""
        agreed = self._agreed
        if agreed is not None and agreed.asked_by is None:
            self._over(Thaw(*agreed.name, CONTROL_HOPS_MAX), None, now)

    def parted(self, mover: GatewayId, now: float) -> None:
        """A gateway has moved, or tried to, and is no neighbour of ours: our map is as it will be, so it is over."""
        agreed = self._agreed
        if agreed is not None and agreed.freeze.mover == mover:
            self._over(Thaw(*agreed.name, CONTROL_HOPS_MAX), None, now)

    def thawed(self, sender: GatewayId, thaw: Thaw, now: float) -> None:
        """Somebody's move is over; nobody says that of ours while we ask."""
        agreed = self._agreed
        is_asking = agreed is not None and agreed.asked_by is None and agreed.answer is None
        if not (is_asking and thaw.mover == self._gateway) and self._over_to.get(thaw.mover, 0) < thaw.number:
            self._over(thaw, sender, now)

    def reach(self, neighbour: GatewayId) -> None:
        """A neighbour can be asked from now on; it may have forgotten what it had agreed to."""
        self._reachable.add(neighbour)
        if self._agreed is not None:
            self._tell_again([neighbour])

    def lose(self, neighbour: GatewayId) -> None:
        """A neighbour is out of reach."""
        self._reachable.discard(neighbour)
        agreed = self._agreed
        if agreed is not None and agreed.answer is None and neighbour in (agreed.asked_by, *agreed.waiting):
            self._conclude(agreed, f"{self._gateway} has lost {neighbour} meanwhile")

    def wake(self, now: float) -> None:
        """Agree to others when nothing more is heard of a move."""
        if self._agreed is not None and now >= self._agreed.until:
            self._agreed = None
            self._tell_overlay(MoveOver(), now)

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return None if self._agreed is None else self._agreed.until

    def _begin(self, freeze: Freeze, asked_by: GatewayId | None, now: float) -> None:
        targets = self._overlay.spread(asked_by) if freeze.hops_left else ()
        is_ours = freeze.path[-1] == self._gateway
        if is_ours:  # it may be our neighbour from a move of before, of whose end we have not heard
            targets = [each for each in targets if each != freeze.mover]
        missing = [each for each in targets if each not in self._reachable]
        problem = f"{self._gateway} does not reach {missing[0]}" if missing else ""
        if is_ours and freeze.mover not in self._peers:
            problem = f"{freeze.mover} is not in the configuration of {self._gateway}: its address is not known there"
        if problem:
            if asked_by is not None:
                self._reply(asked_by, freeze, problem)
                return
            targets = ()
        self._agree(_Agreement(freeze, asked_by, set(targets), now + FREEZE_S, problem or None), now)
        further = replace(freeze, hops_left=max(freeze.hops_left - 1, 0))
        for target in targets:
            self._outbox.post(target, [further])

    def _is_outdated(self, later: Freeze) -> bool:
        """Whether we have agreed to an earlier move of the same gateway, which is over: it makes one at a time."""
        agreed = self._agreed
        if agreed is None or agreed.asked_by is None:
            return False
        return agreed.freeze.mover == later.mover and agreed.freeze.number < later.number

    def _agree(self, agreement: _Agreement, now: float) -> None:
        self._agreed = agreement
        self._tell_overlay(MoveNear(agreement.freeze.path), now)

    def _conclude(self, agreed: _Agreement, problem: str) -> None:
        agreed.answer = problem
        if agreed.asked_by is not None:
            self._reply(agreed.asked_by, agreed.freeze, problem)

    def _reply(self, target: GatewayId, freeze: Freeze, problem: str) -> None:
        self._outbox.post(target, [Frozen(freeze.mover, freeze.number, problem)])

    def _over(self, thaw: Thaw, sender: GatewayId | None, now: float) -> None:
        """Take note, and pass it on, even if we have not agreed: somebody further on may have, before we crashed."""
        self._over_to.pop(thaw.mover, None)
        if len(self._over_to) >= MOVERS_MAX:
            del self._over_to[next(iter(self._over_to))]
        self._over_to[thaw.mover] = thaw.number
        further = Thaw(thaw.mover, thaw.number, max(thaw.hops_left - 1, 0))
        for target in self._overlay.spread(sender) if thaw.hops_left else ():
            if target in self._reachable:
                self._outbox.post(target, [further])
        if self._agreed is not None and self._agreed.name == (thaw.mover, thaw.number):
            self._agreed = None
            self._tell_overlay(MoveOver(), now)

    def check(self) -> None:
        """State the invariants."""
        agreed = self._agreed
        assert len(self._over_to) <= MOVERS_MAX
        if agreed is not None:
            assert self._gateway not in agreed.waiting
            assert agreed.asked_by not in agreed.waiting
            assert agreed.answer != "" or not agreed.waiting
            # The other way round it need not be: after a crash we are told of our own move.
            assert agreed.asked_by is not None or agreed.freeze.mover == self._gateway
