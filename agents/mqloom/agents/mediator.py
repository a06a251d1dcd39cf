"""Sessions between two brokers, or two clusters: one at a time, and none for ever (paper 000, section 3.4.1).

Theory of operation. Whoever has load to give asks those of its list one after the other. A partner that says yes has a
session from then on, and whoever asked from when it has heard all of that. Both refuse everybody else meanwhile, so
pairs can be in session at once, and nobody waits for a second while it holds a first: there is no deadlock.

Messages are lost, doubled, late and in any order, and brokers die in any state. So:

- A request, and a farewell (Done, Cancel), is sent again until it is answered, and at most TRIES_MAX times.
- Each partner is asked under another session's id. Who is given up is sent a Cancel: if that overtakes the request,
  the partner knows of the end before the beginning, and refuses it.
- While a session lasts the offloading broker says so every KEEP_S seconds, and is answered. Who hears nothing for
  LEASE_S seconds frees itself. An offloading broker whose clients are under way waits for these first: their move
  ends by itself, in bounded time.
- An accepted session of which the offloading broker knows nothing (any more) is sent its farewell again, or a Cancel.
- Who moves clients, and has accepted a session of one that only says what it would do, is not taken up by it: it ends
  that for any other request, and before it asks for itself.
- Whatever is in session has a deadline besides, given by the offloading broker to itself; the accepting one has
  SESSION_S_MAX.

The same for clusters, where there is no covering set, and a session lasts until the edges of both are balanced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.agents.mediation import (
    CAME_MAX,
    REASON_MAX,
    UNKNOWN,
    Cancel,
    Done,
    Ended,
    Farewell,
    Keep,
    Kept,
    Mediation,
    Reply,
    Request,
    SessionId,
    parts_of,
)
from mqloom.agents.session_farewells import RETRY_S, TRIES_MAX, Farewells, Past
from mqloom.agents.sessions import (
    TRANSITIONS,
    Accepted,
    Agreed,
    CameLate,
    Candidate,
    How,
    News,
    NobodyFound,
    Occurrence,
    Offer,
    Refused,
    Send,
    SessionOver,
    Stage,
)
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.load import BalanceState

KEEP_S: Final = 5.0
"""How often a session is kept."""

LEASE_S: Final = 20.0
"""For how long nothing need be heard of the other side of a session."""

SESSION_S_MAX: Final = 3_600.0
"""The longest session that an accepting broker knows, whatever it hears."""

ASKING_S_MAX: Final = 40.0
"""For how long one list is gone through: five that say nothing, or as long as it is to the next detection. Whoever asks
refuses everybody else meanwhile; the rest of the list is for that detection."""

OVERDUE: Final = "it took too long"


@dataclass(slots=True)
class _Asking:
    candidates: list[Candidate]
    session: SessionId
    until: float
    """When nobody further of the list is asked any more."""
    tries: int
    again_at: float
    parts: dict[int, Reply] = field(default_factory=dict)

    @property
    def candidate(self) -> Candidate:
        return self.candidates[0]


@dataclass(slots=True)
class _Session:
    session: SessionId
    partner: GatewayId
    heard_at: float
    keep_at: float
    deadline: float
    replies: list[Reply] = field(default_factory=list)
    is_lent: bool = False


class Mediator:
    """The sessions of one broker, or of one cluster at its head.

    Everything returns what is new and what is to be sent. `deadline` says when `wake` must be called.
    """

    def __init__(self, gateway: GatewayId, *, is_advice: bool = False, cluster: str = "") -> None:
        self._gateway = gateway
        self._cluster = cluster
        self._is_advice = is_advice
        self.stage = Stage.FREE
        self._asking: _Asking | None = None
        self._session: _Session | None = None
        self._farewells = Farewells()
        self._number = 0
        self.messages_stale = 0
        """Messages about sessions that are over, or with somebody else: dropped, or answered by what became of it."""

    @property
    def is_free(self) -> bool:
        """Whether nobody is asked, and there is no session."""
        return self.stage is Stage.FREE

    @property
    def is_lent(self) -> bool:
        """Whether our session is one that nobody will be moved in, though we would: whatever else comes goes before."""
        return self._session is not None and self._session.is_lent

    @property
    def session(self) -> SessionId | None:
        """The session that lasts."""
        return self._session.session if self._session else None

    @property
    def partner(self) -> GatewayId | None:
        """The other side of it."""
        return self._session.partner if self._session else None

    @property
    def is_offloading(self) -> bool:
        """Whether we are the offloading side of a session."""
        return self.stage in {Stage.GIVING, Stage.MOVING}

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        times = [] if self._farewells.next_at is None else [self._farewells.next_at]
        if self._asking is not None:
            times.append(self._asking.again_at)
        if self._session is not None:
            times.append(self._session.deadline)
            if self.stage is not Stage.MOVING:
                times.append(self._session.heard_at + LEASE_S)
            if self.is_offloading:
                times.append(self._session.keep_at)
        return min(times, default=None)

    def ask(self, candidates: Sequence[Candidate], now: float) -> list[News]:
        """Ask them one after the other, until one says yes (3.4.1: sequentially, in the order of the list).

        No longer than ASKING_S_MAX: who says nothing takes the longest to be passed over.
        """
        assert candidates
        self._step("asked")
        return self._ask_next(list(candidates), now + ASKING_S_MAX - TRIES_MAX * RETRY_S, now)

    def take_back(self, now: float) -> list[News]:
        """End a session in which nobody will be moved, for one in which somebody will; the other hears by its Keep."""
        return self.abandon("another session comes first, which moves clients", now) if self.is_lent else []

    def moving(self, deadline: float, now: float) -> list[News]:
        """Clients are under way now; by the deadline the session is over."""
        self._step("moving")
        assert self._session is not None
        self._session.deadline = deadline
        return [self._keep(self._session, now)]

    def extend(self, deadline: float) -> None:
        """Give the session this deadline."""
        assert self._session is not None
        self._session.deadline = deadline

    def done(
        self, moved: Sequence[ClientId], stayed: int, now: float, under_way: Sequence[ClientId] = ()
    ) -> list[News]:
        """End our session: these have moved, and others may still arrive, whom the other side is told of, too."""
        assert self._session is not None
        assert self.is_offloading
        session = self._session.session
        # If all who go are under way it is not true that nobody has moved: both brokers have to stabilise.
        number = UNKNOWN if under_way and not moved else len(moved)
        named = (*moved, *under_way)[:CAME_MAX]
        farewell = Done(session=session, moved=number, stayed=stayed, clients=named)
        return self._end("done", farewell, now, moved=number, clients=moved)

    def cancel(self, reason: str, now: float, how: How = "cancelled") -> list[News]:
        """End our session: nobody has moved."""
        assert self._session is not None
        assert self.is_offloading
        return self._end(how, Cancel(session=self._session.session, reason=reason[:REASON_MAX]), now, reason=reason)

    def abandon(self, reason: str, now: float) -> list[News]:
        """End whatever session there is, also as the accepting side; the other hears so when it next keeps it."""
        if self._asking is not None:
            return [*self._give_up(self._asking, reason, now), *self._exhaust(self._asking)]
        if self._session is None:
            return []
        if self.stage is Stage.MOVING:
            return self._end_unknown("cancelled", reason, now)
        if self.is_offloading:
            return self.cancel(reason, now)
        moved = UNKNOWN if self.stage is Stage.RECEIVING else 0
        return self._end("cancelled", None, now, moved=moved, reason=reason)

    def receive(self, message: Mediation, sender: GatewayId, now: float, offer: Callable[[bool], Offer]) -> list[News]:
        """Take a message; `offer` is asked what we say to a request, and told whether it is only for advice."""
        match message:
            case Request():
                return self._receive_request(message, sender, now, offer)
            case Reply():
                return self._receive_reply(message, sender, now)
            case Keep():
                return self._receive_keep(message, sender, now)
            case Kept():
                return self._receive_kept(message, sender, now)
            case Done() | Cancel():
                return self._receive_farewell(message, sender, now)
            case Ended():
                self._farewells.heard(message.session, sender)
                return []

    def wake(self, now: float) -> list[News]:
        """Do what is due."""
        news: list[News] = [*self._farewells.wake(now)]
        if self._asking is not None and now >= self._asking.again_at:
            news += self._ask_again(self._asking, now)
        session_now = self._session
        if session_now is not None:
            news += self._look_after(session_now, now)
        return news

    def check(self) -> None:
        """State the invariants: at most one session, and whatever lasts has a time at which it ends."""
        assert (self._asking is not None) == (self.stage is Stage.ASKING)
        assert (self._session is not None) == (self.stage not in {Stage.FREE, Stage.ASKING})
        assert self.is_free or self.deadline is not None
        self._farewells.check()

    # Asking.

    def _ask_next(self, candidates: list[Candidate], until: float, now: float) -> list[News]:
        self._number += 1
        # The time makes it another id after a restart; nothing is read out of it.
        session = SessionId(f"{self._gateway}-{int(now * 1_000):x}-{self._number}")
        self._asking = _Asking(candidates, session, until, 1, now + RETRY_S)
        return [self._request(self._asking)]

    def _request(self, asking: _Asking) -> Send:
        candidate = asking.candidate
        request = Request(
            session=asking.session,
            metric=candidate.metric,
            is_overload=candidate.is_overload,
            is_advice=self._is_advice,
            cluster=self._cluster,
        )
        return Send(candidate.partner, request)

    def _ask_again(self, asking: _Asking, now: float) -> list[News]:
        if asking.tries < TRIES_MAX:
            asking.tries += 1
            asking.again_at = now + RETRY_S
            return [self._request(asking)]
        why = f"no answer in {TRIES_MAX * RETRY_S:g} s"
        return [*self._give_up(asking, why, now), *self._refuse(asking, Refused(asking.candidate, why, True), now)]

    def _give_up(self, asking: _Asking, why: str, now: float) -> list[News]:
        return [self._farewells.say(asking.candidate.partner, Cancel(session=asking.session, reason=why), now)]

    def _refuse(self, asking: _Asking, refused: Refused, now: float) -> list[News]:
        rest = asking.candidates[1:]
        if rest and now <= asking.until:
            self._step("refused")
            return [refused, *self._ask_next(rest, asking.until, now)]
        return [refused, *self._exhaust(asking, len(rest))]

    def _exhaust(self, asking: _Asking, not_asked: int = 0) -> list[News]:
        self._asking = None
        self._step("exhausted")
        return [NobodyFound(asking.session, not_asked)]

    def _receive_reply(self, reply: Reply, sender: GatewayId, now: float) -> list[News]:
        asking = self._asking
        if asking is None or asking.session != reply.session or asking.candidate.partner != sender:
            return self._receive_stale_reply(reply, sender)
        if not reply.is_accepted:
            self._farewells.remember(reply.session, Past(None, is_ours=True))
            why = reply.refusal or f"is {reply.state.value}"
            return self._refuse(asking, Refused(asking.candidate, why, is_lasting=bool(reply.refusal)), now)
        if asking.parts and next(iter(asking.parts.values())).parts != reply.parts:
            asking.parts.clear()  # it was born again in between, and has another covering set
        asking.parts[reply.part] = reply
        if len(asking.parts) < reply.parts:
            return []
        self._step("agreed")
        self._asking = None
        self._session = _Session(asking.session, sender, now, now + KEEP_S, now + LEASE_S)
        covering = [text for part in sorted(asking.parts) for text in asking.parts[part].covering]
        cluster = reply.cluster, reply.edges
        return [Agreed(asking.session, asking.candidate, reply.estimate, covering, reply.left_out, *cluster)]

    def _receive_stale_reply(self, reply: Reply, sender: GatewayId) -> list[News]:
        """Let go of a partner that believes to be in session with us, and is not."""
        if self._session is not None and self._session.session == reply.session:
            return []  # a copy
        self.messages_stale += 1
        if not reply.is_accepted:
            return []
        past = self._farewells.past(reply.session)
        farewell = past.farewell if past is not None and past.is_ours else None
        return [Send(sender, farewell or Cancel(session=reply.session, reason="this session is over"))]

    # Accepting.

    def _receive_request(
        self, request: Request, sender: GatewayId, now: float, offer: Callable[[bool], Offer]
    ) -> list[News]:
        session = self._session
        if session is not None and session.session == request.session and session.partner == sender:
            session.heard_at = now
            return [Send(sender, reply) for reply in session.replies]
        if self._farewells.past(request.session) is not None:
            self.messages_stale += 1
            return [self._say_no(request, sender, BalanceState.OK, "this session is over")]
        if not self.is_free and (request.is_advice or not self.is_lent):
            return [self._say_no(request, sender, BalanceState.BUSY, "")]
        offered = offer(request.is_advice)
        if offered.refusal or offered.state is not BalanceState.OK:
            return [self._say_no(request, sender, offered.state, offered.refusal)]
        before = self.take_back(now)
        self._step("accepted")
        parts, left_out = parts_of(offered.covering)
        replies = [
            Reply(
                session=request.session,
                state=BalanceState.OK,
                estimate=offered.estimate,
                covering=part,
                part=number,
                parts=len(parts),
                left_out=left_out,
                cluster=self._cluster,
                edges=offered.edges,
            )
            for number, part in enumerate(parts)
        ]
        is_lent = request.is_advice and not self._is_advice
        self._session = _Session(request.session, sender, now, now, now + SESSION_S_MAX, replies, is_lent)
        kind = request.cluster, request.is_advice, request.is_overload
        return [
            *before,
            Accepted(request.session, sender, request.metric, *kind),
            *(Send(sender, reply) for reply in replies),
        ]

    def _say_no(self, request: Request, sender: GatewayId, state: BalanceState, refusal: str) -> Send:
        return Send(sender, Reply(session=request.session, state=state, refusal=refusal[:REASON_MAX]))

    def _receive_keep(self, keep: Keep, sender: GatewayId, now: float) -> list[News]:
        session = self._session
        if session is None or session.session != keep.session or session.partner != sender or self.is_offloading:
            self.messages_stale += 1
            return [Send(sender, Kept(session=keep.session, is_known=False))]
        session.heard_at = now
        session.replies.clear()  # it has them
        if keep.is_moving and self.stage is Stage.TAKING:
            self._step("moving")
        return [Send(sender, Kept(session=keep.session, is_known=True))]

    def _receive_farewell(self, farewell: Farewell, sender: GatewayId, now: float) -> list[News]:
        heard = Send(sender, Ended(session=farewell.session))
        moved, clients = (farewell.moved, farewell.clients) if isinstance(farewell, Done) else (0, ())
        session = self._session
        if session is not None and session.session == farewell.session and session.partner == sender:
            if self.is_offloading:  # only the offloading side says farewell: not of our making
                self.messages_stale += 1
                return []
            reason = farewell.reason if isinstance(farewell, Cancel) else ""
            how: How = "done" if isinstance(farewell, Done) else "cancelled"
            self._farewells.remember(farewell.session, Past(farewell, is_ours=False))
            return [heard, *self._end(how, None, now, moved=moved, clients=clients, reason=reason)]
        past = self._farewells.past(farewell.session)
        if past is not None and past.is_ours:
            self.messages_stale += 1
            return []
        # Before its request, or once more, or after we had freed ourselves.
        self._farewells.remember(farewell.session, Past(farewell, is_ours=False))
        if past is not None and past.farewell is None:
            return [heard, CameLate(farewell.session, moved, clients)]
        return [heard]

    # Both sides of a session.

    def _receive_kept(self, kept: Kept, sender: GatewayId, now: float) -> list[News]:
        session = self._session
        if session is None or session.session != kept.session or session.partner != sender or not self.is_offloading:
            self.messages_stale += 1
            return []
        if kept.is_known:
            session.heard_at = now
            return []
        if self.stage is Stage.MOVING:
            return []  # the clients that are under way decide, not the broker that forgot them
        why = "it was started anew, or the session took too long"
        return self.cancel(f"{sender} knows nothing of the session any more: {why}", now, "gone")

    def _look_after(self, session: _Session, now: float) -> list[News]:
        is_silent = now >= session.heard_at + LEASE_S
        if self.stage in {Stage.TAKING, Stage.RECEIVING}:
            if is_silent or now >= session.deadline:
                how: How = "silent" if is_silent else "overdue"
                moved = UNKNOWN if self.stage is Stage.RECEIVING else 0
                reason = f"{session.partner} has said nothing for {LEASE_S:g} s" if is_silent else OVERDUE
                return self._end(how, None, now, moved=moved, reason=reason)
            return []
        if self.stage is Stage.GIVING and is_silent:
            return self.cancel(f"{session.partner} has said nothing for {LEASE_S:g} s", now, "silent")
        if now >= session.deadline:
            if self.stage is Stage.GIVING:
                return self.cancel(OVERDUE, now, "overdue")
            return self._end_unknown("overdue", OVERDUE, now)
        return [self._keep(session, now)] if now >= session.keep_at else []

    def _end_unknown(self, how: How, reason: str, now: float) -> list[News]:
        """End our session while clients are under way: nobody knows yet who will have moved."""
        assert self._session is not None
        farewell = Done(session=self._session.session, moved=UNKNOWN)
        return self._end(how, farewell, now, moved=UNKNOWN, reason=reason)

    def _keep(self, session: _Session, now: float) -> Send:
        session.keep_at = now + KEEP_S
        return Send(session.partner, Keep(session=session.session, is_moving=self.stage is Stage.MOVING))

    def _end(
        self,
        how: How,
        farewell: Farewell | None,
        now: float,
        *,
        moved: int = 0,
        clients: Sequence[ClientId] = (),
        reason: str = "",
    ) -> list[News]:
        session, is_offloading = self._session, self.is_offloading
        assert session is not None
        self._step("over")
        self._session = None
        if self._farewells.past(session.session) is None:
            self._farewells.remember(session.session, Past(farewell, is_ours=is_offloading))
        over = SessionOver(session.session, session.partner, is_offloading, how, moved, tuple(clients), reason)
        return [over] if farewell is None else [over, self._farewells.say(session.partner, farewell, now)]

    def _step(self, occurrence: Occurrence) -> None:
        self.stage = TRANSITIONS[self.stage, occurrence]
