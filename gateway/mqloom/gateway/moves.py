"""The move of a primary link: a gateway leaves a neighbour for another one (paper 001, section 6, the delta-move).

Theory of operation. A is to leave N for B. The path N, ..., B is the primary way between them. Until the last moment
the old network is complete, from then on the new one is; whatever is lost or crashes meanwhile, nobody misses anything.

    step       phase of the paper  what happens                                          it ends when
    ASKING     preparation         keep, on our broker, that B is none of ours           our broker has it
    FREEZING   initialisation      ask everybody near (`freezes`)                        all have agreed
    LINKING    update              greet B, which takes us on, and keeps that; wishes    both have said everything
                                   go both ways, by aliases
    SWEEPING   update              send Passed by B along the path                       it comes back from N
    SETTLING   update              finish what N gave us before that, and all flushes    all is done
    HOLDING    update              hold what is for N; send Passed by N along the path   it comes back from B, and N
                                                                                         has taken care of everything
    KEEPING    wrap-up             keep, on our broker, that B is our neighbour, not N   our broker has it
    LEAVING    wrap-up             what was held goes to B; tell N                       N has heard it, or is lost,
                                                                                         or LEAVE_S later

If it cannot be, LEAVING is from B.

What comes to us. In LINKING everybody on the path learns a second way to our side, and keeps the first. Passed goes
behind the news, and behind publications: when it has come by, everything that was sent by the old way alone has come.
From then on all that N has for us comes by B as well. So N may drop it when we part; if N's copy came first, both wait
for us (`custody`).

What we send. It goes to N until we keep the new place, and to B after that; never, in part, to both. Before that, what
went to N has been taken care of, and Passed has come behind it over the whole path, so that nothing is parked there:
what is newer, and comes by B, overtakes nothing. If a flush comes by, holding ends, and begins again behind it; one
that comes in KEEPING waits for the new network.

Anything that goes wrong up to HOLDING ends the move where it began: so does a crash of ours, for what is kept still
says N. After KEEPING the new place is kept, and so is that we have parted from N, which hears it when it asks.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Literal

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import CONTROL_HOPS_MAX, HOLD_S, ID_LENGTH_MAX, MOVE_S, PATH_MAX
from mqloom.core.messages import Freeze, Frozen, Parting, Passed, Thaw
from mqloom.core.records import MoveAnswer, Order, PlaceLink, decode_order, encode_move
from mqloom.gateway.custody import Duty
from mqloom.gateway.interfaces import NeighbourTold
from mqloom.gateway.journal import Journal
from mqloom.gateway.links import LinkState
from mqloom.gateway.moves_of_others import MovesOfOthers
from mqloom.gateway.neighbours import Neighbours
from mqloom.gateway.pace import Pace

MoveMessage = Freeze | Frozen | Thaw | Passed | Parting

LEAVE_S: Final = 15.0
"""How long the old neighbour may take to hear that we have parted; then it hears it when it asks."""

BODIES_MAX: Final = 16
"""What the overlay of a neighbour to be has told, kept for ours; past that the first is forgotten."""


class Step(Enum):
    """How far a move has come; the table on top of the file has what happens."""

    ASKING = auto()
    FREEZING = auto()
    LINKING = auto()
    SWEEPING = auto()
    SETTLING = auto()
    HOLDING = auto()
    KEEPING = auto()
    LEAVING = auto()


@dataclass(slots=True)
class Move:
    """One move of ours."""

    client: ClientId
    order: Order
    path: tuple[GatewayId, ...]
    """Ourselves, the old neighbour, ..., the new one."""
    link: PlaceLink
    until: float
    step: Step = Step.ASKING
    is_kept: bool = False
    """Whether our broker has what we asked it to keep last."""
    round: int = 0
    is_passed: bool = False
    waves: int = 0
    """How many waves had come by when holding began."""
    before: list[Duty] = field(default_factory=list)
    problem: str = ""
    """For which we stay where we are."""
    said: int = 0
    """How many frames the one from whom we part must have got to know it."""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def old(self) -> GatewayId:
        """The neighbour that we leave."""
        return self.path[1]

    @property
    def new(self) -> GatewayId:
        """The neighbour to which we go."""
        return self.path[-1]

    @property
    def leaving(self) -> GatewayId:
        """The one from which we part in the end."""
        return self.new if self.problem else self.old


class Moves:
    """The moves of one gateway, one at a time; and what others' moves ask of it."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbours: Neighbours,
        journal: Journal,
        pace: Pace | None = None,
    ) -> None:
        self._gateway = gateway
        self._pace = pace
        self._neighbours = neighbours
        self._keep = neighbours.traffic.keep
        self._journal = journal
        self._move: Move | None = None
        self._others = MovesOfOthers(neighbours, journal)
        self._answers: list[PublishLocally] = []
        self._hold_until = 0.0
        self._steps = {
            Step.ASKING: self._ask,
            Step.FREEZING: self._link,
            Step.LINKING: self._sweep,
            Step.SWEEPING: self._settle,
            Step.SETTLING: self._hold,
            Step.HOLDING: self._keep_new,
            Step.KEEPING: self._switch_if_kept,
            Step.LEAVING: self._leave,
        }
        """What ends each step, and begins the next."""

    # ---- our own move --------------------------------------------------------------------------------------------

    def ordered(self, client: ClientId, data: bytes, now: float) -> None:
        """An operator orders us to move: begin, or say why not."""
        if len(client) > ID_LENGTH_MAX:
            self._journal.refuse("moves_refused", "client", f"by a name of over {ID_LENGTH_MAX} characters")
            return
        try:
            order = decode_order(data)
        except RecordError as error:
            self._journal.refuse("moves_refused", "malformed", f"an order of {client!r}: {error}")
            self._say_no(client, MoveAnswer(answer="stayed", problem=str(error)), now)
            return
        self._begin(client, order, now)

    def _begin(self, client: ClientId, order: Order, now: float) -> None:
        path = (self._gateway, *self._neighbours.overlay.way_to(order.move_to))
        problem = self._problem(order, path)
        if problem:
            self._journal.refuse("moves_refused", "order", problem)
            self._say_no(client, MoveAnswer(answer="stayed", number=order.number, problem=problem), now)
            return
        places = self._neighbours.places
        number = places.number + 1
        link = PlaceLink(order.move_to, number, True, places.stands_for(path[1]))
        self._move = Move(client, order, path, link, now + MOVE_S)
        places.part(order.move_to, number)
        self._keep_place(self._move, places.record())
        self._enter(self._move, Step.ASKING)

    def _problem(self, order: Order, path: tuple[GatewayId, ...]) -> str:
        parts = self._neighbours
        new = order.move_to
        if self._move is not None or not parts.freezes.is_free:
            return "a move is under way here or near: try again when it is over"
        if not parts.overlay.reach:
            return "the overlay of this gateway keeps no map: choose strategy S1, S2 or SH"
        if new == self._gateway:
            return f"{new} cannot be a neighbour of itself"
        if new in parts.links:
            return f"{new} is a neighbour of {self._gateway} already"
        if new not in parts.peers:
            return f"{new} is not in the configuration of {self._gateway}: its address is not known"
        if not 3 <= len(path) <= PATH_MAX:
            return f"{new} is not on the map of {self._gateway}: a move goes {parts.overlay.reach} hops at most"
        if parts.links[path[1]].state is not LinkState.UP:
            return f"the link to {path[1]} is down: what waits for it must arrive first"
        return ""

    def tend(self, now: float) -> None:
        """Go on as far as possible, after whatever has happened."""
        self._neighbours.freezes.settle()
        self._others.renew()
        while self._move is not None and self._go_on(self._move, now):
            pass

    def _go_on(self, move: Move, now: float) -> bool:
        """Do the next step, if it is time; whether it was."""
        problem = self._trouble(move, now)
        if problem:
            self._stay(move, problem, now)
            return True
        return self._steps[move.step](move, now)

    def _ask(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        if not move.is_kept:
            return False
        if not parts.freezes.is_free:
            self._stay(move, "another gateway near moves: try again when that is over", now)
            return True
        hops = min(2 * parts.overlay.reach, CONTROL_HOPS_MAX)
        freeze = Freeze(self._gateway, move.link.number, move.path, hops, instead_of=move.link.instead_of)
        parts.freezes.ask(freeze, now)
        return self._enter(move, Step.FREEZING)

    def _link(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        if parts.freezes.answer is None:
            return False
        parts.overlay.stand_in, parts.overlay.joining = {move.new: move.old}, move.new
        parts.traffic.part((move.old, move.new))
        parts.add(move.link, now, is_known=False)
        return self._enter(move, Step.LINKING)

    def _sweep(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        if not (parts.traffic.has_heard(move.new) and move.new in parts.told_synced):
            return False
        if not parts.traffic.pass_on(move.new, self._passed(move, is_back=True)):
            return False  # it is not clear yet
        return self._enter(move, Step.SWEEPING)

    def _settle(self, move: Move, now: float) -> bool:
        if not move.is_passed:
            return False
        move.before = self._neighbours.traffic.open_from(move.old)
        return self._enter(move, Step.SETTLING)

    def _hold(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        if any(duty.claims for duty in move.before) or not parts.flushes.is_calm:
            return False
        move.round += 1
        move.is_passed = False
        if not parts.traffic.pass_on(move.old, self._passed(move, is_back=False)):
            return False
        parts.traffic.hold(move.old)
        move.waves = parts.flushes.came
        self._hold_until = now + HOLD_S
        return self._enter(move, Step.HOLDING)

    def _keep_new(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        is_calm = parts.flushes.came == move.waves and parts.traffic.is_clear(move.old)
        if not is_calm or now >= self._hold_until:
            parts.traffic.release(move.old)
            return self._enter(move, Step.SETTLING)
        if not move.is_passed or parts.links[move.old].held:
            return False
        parts.traffic.pin(move.old)
        parts.flushes.hold()
        self._keep_place(move, parts.places.record_after(move.old, move.link))
        return self._enter(move, Step.KEEPING)

    def _switch_if_kept(self, move: Move, now: float) -> bool:
        if move.is_kept:
            self._switch(move, now)
        return move.is_kept

    def _leave(self, move: Move, now: float) -> bool:
        parts = self._neighbours
        link = parts.links[move.leaving]
        has_heard = link.state is LinkState.UP and link.has_heard(move.said)
        if link.state is LinkState.UP and not has_heard and now < move.until:
            return False
        if not has_heard:
            parts.soft_links.orders += link.say_parted(move.link.number)
        parts.drop(move.leaving, now)
        parts.overlay.stand_in = {}
        parts.traffic.part(())
        self._end(move, now)
        return True

    def _trouble(self, move: Move, now: float) -> str:
        """Return for what reason a move cannot go on; nothing from KEEPING on."""
        parts = self._neighbours
        if move.step in (Step.KEEPING, Step.LEAVING):
            return ""
        if now >= move.until:
            return f"it took longer than {MOVE_S:g} s: it was {move.step.name.lower()}"
        if parts.links[move.old].state is not LinkState.UP:
            return f"the link to {move.old} was lost"
        if move.step is Step.FREEZING and parts.freezes.answer:
            return parts.freezes.answer
        if move.step.value > Step.LINKING.value and parts.links[move.new].state is not LinkState.UP:
            return f"the link to {move.new} was lost"
        return ""

    def _switch(self, move: Move, now: float) -> None:
        """The new place is kept: from here on the new network counts."""
        parts = self._neighbours
        parts.places.swap(move.old, move.link)
        parts.overlay.stand_in, parts.overlay.joining = {move.old: move.new}, None
        parts.change_overlay(now)
        parts.stand(move.new, now)
        for body in move.bodies:
            parts.tell_overlay(NeighbourTold(move.new, body), now)
        parts.traffic.divert(move.old, move.new)
        self._part(move, now)
        parts.routes.anchor_again()
        parts.flushes.release(now)

    def _stay(self, move: Move, problem: str, now: float) -> None:
        """Give up: the old network was complete all the time."""
        parts = self._neighbours
        self._journal.refuse("moves_refused", move.step.name.lower(), problem)
        if move.step is Step.HOLDING:
            parts.traffic.release(move.old)
        move.problem = problem
        if move.new not in parts.links:
            self._end(move, now)
            return
        parts.overlay.joining = None
        self._part(move, now)

    def _part(self, move: Move, now: float) -> None:
        """Say farewell to one of the two; if it does not hear that, it hears it when it asks."""
        self._neighbours.forget_wishes(move.leaving, now)
        link = self._neighbours.links[move.leaving]
        self._neighbours.soft_links.orders += link.pack([Parting(move.link.number)], (), now)
        move.said = link.said
        move.until = now + LEAVE_S
        self._enter(move, Step.LEAVING)

    def _end(self, move: Move, now: float) -> None:
        self._move = None
        if move.step in (Step.ASKING, Step.FREEZING):
            self._neighbours.freezes.end(now)  # else the one from whom we parted says so
        self._journal.counters.add("moves_made", amount=not move.problem)
        word: Literal["moved", "stayed"] = "stayed" if move.problem else "moved"
        self._say(move.client, MoveAnswer(answer=word, number=move.order.number, problem=move.problem))

    def _pass_on(self, passed: Passed, sender: GatewayId) -> None:
        """Send on what goes along a path; ours has come back if it is the one that we wait for."""
        place = passed.place
        path = passed.path
        if place >= len(path) or path[place] != self._gateway or (place and path[place - 1] != sender):
            self._journal.refuse("moves_refused", "path", f"{sender} sent on what is not for us")
            return
        move = self._move
        if place + 1 < len(path):
            further = Passed(passed.mover, passed.number, passed.round, path, place + 1)
            self._neighbours.traffic.pass_on(path[place + 1], further)  # if not, its gateway waits in vain, and stays
        elif move is not None and (passed.number, passed.round) == (move.link.number, move.round):
            move.is_passed = True

    def told(self, neighbour: GatewayId, body: bytes) -> bool:
        """Keep what a neighbour to be tells our overlay; whether it is one."""
        move = self._move
        if move is None or self._neighbours.overlay.joining != neighbour:
            return False
        move.bodies = [*move.bodies, body][-BODIES_MAX:]
        return True

    def is_going_to(self, gateway: GatewayId) -> bool:
        """Whether somebody may become our neighbour soon: it may know that before we do."""
        return self._move is not None and self._move.new == gateway

    def is_leaving(self, neighbour: GatewayId) -> bool:
        """Whether we have left a neighbour, and only say our last words there."""
        if neighbour in self._neighbours.leaving:
            return True
        return self._move is not None and self._move.step is Step.LEAVING and self._move.leaving == neighbour

    def is_new(self, neighbour: GatewayId) -> bool:
        """Whether a neighbour is one to be, of which the overlay does not know yet."""
        return self._neighbours.overlay.joining == neighbour

    @property
    def is_under_way(self) -> bool:
        """Whether a move of ours is under way."""
        return self._move is not None

    @property
    def deadline(self) -> float | None:
        """When `tend` must be called."""
        move = self._move
        if move is None or move.step is Step.KEEPING:
            return None
        return min(move.until, self._hold_until) if move.step is Step.HOLDING else move.until

    def obey(self, message: MoveMessage, sender: GatewayId, now: float) -> None:
        """A neighbour says something about a move, its own or another's."""
        freezes = self._neighbours.freezes
        match message:
            case Passed():
                self._pass_on(message, sender)
            case Parting():
                self.parted(sender, message.number)
            case Freeze():
                if not self._neighbours.places.heard_of(message.number):
                    self._journal.refuse("moves_refused", "number", f"{sender} speaks of a move {message.number}")
                    return
                freezes.asked(sender, message, now)
            case Frozen():
                freezes.answered(sender, message)
            case Thaw():
                freezes.thawed(sender, message, now)

    # ---- the moves of others -------------------------------------------------------------------------------------

    def adopt(self, mover: GatewayId, now: float) -> bool:
        """Take on a gateway that greets us because it moves to us; whether it does, and all have agreed to that."""
        return self._others.adopt(mover, now)

    def parted(self, neighbour: GatewayId, number: int) -> None:
        """A neighbour is none any more, by its move of this number."""
        if not self.is_leaving(neighbour):
            self._others.parted(neighbour, number)

    def drop_parted(self, now: float) -> None:
        """End the links of those who have parted; of one on our own path when our move is over."""
        self._others.drop_parted(() if self._move is None else self._move.path[1:], now)

    def check(self) -> None:
        """State the invariants of our own move, and of those of others."""
        parts, move = self._neighbours, self._move
        self._others.check()
        if move is None:
            assert parts.overlay.joining is None
            assert not parts.overlay.stand_in
            return
        assert move.old in parts.links
        has_begun = move.step.value > Step.FREEZING.value
        assert (move.new in parts.links) == has_begun, move.step
        assert (parts.overlay.joining == move.new) == (has_begun and move.step is not Step.LEAVING), move.step

    # ---- small parts ---------------------------------------------------------------------------------------------

    def _passed(self, move: Move, *, is_back: bool) -> Passed:
        way = move.path[1:]
        path = (*reversed(way), self._gateway) if is_back else (*way, self._gateway)
        return Passed(self._gateway, move.link.number, move.round, path, 0)

    def _keep_place(self, move: Move, record: PublishLocally) -> None:
        move.is_kept = False

        def kept() -> None:
            move.is_kept = True

        self._keep(record, kept)

    def _enter(self, move: Move, step: Step) -> bool:
        move.step = step
        text = step.name.lower()
        self._journal.tell("info", f"moving from {move.old} to {move.new}: {text}")
        self._say(move.client, MoveAnswer(answer="moving", number=move.order.number, step=text))
        return True

    def _say_no(self, client: ClientId, answer: MoveAnswer, now: float) -> None:
        """Refuse an order, at the pace of all refusals: past that it is counted only."""
        if self._pace is None or self._pace.answer(now):
            self._say(client, answer, qos=0)

    def _say(self, client: ClientId, answer: MoveAnswer, qos: int = 1) -> None:
        topic = layout.control(self._gateway, client)
        self._answers.append(PublishLocally(topic=topic, payload=encode_move(answer), qos=qos))

    def drain(self) -> list[PublishLocally]:
        """Return the answers to be published on our broker."""
        answers, self._answers = self._answers, []
        return answers
