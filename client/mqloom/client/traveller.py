"""A subscriber that is moved between brokers, as a core without IO: a leg for each broker, one memory of what has come.

Theory of operation (paper 000, section 3.4.2, but that the client drives it; docs/migration.md says why). At each
broker the client has a record, which only it writes: that is its journal. Before it connects to the target it writes
down where it goes; at the target where it came from; and when it leaves, where it is. So whatever dies, a later life of
the client reads at either broker what was under way, and goes on with it.

`roles` has what legs are for, and the ways between.

"Completely" is with every gateway; but if the broker that we leave is away itself, with every one in reach.
What comes by any leg is given out once. As long as there are two, or it is not known yet what an earlier life has left,
no low-water mark counts (`Seen.holds_floors`): what is done by one way may still come by the other.
"""

from collections.abc import Iterable, Mapping

from mqloom.client.journey import Journey
from mqloom.client.legs import (
    Forgotten,
    ForLeg,
    Leg,
    Migrated,
    OnLeg,
    Place,
    Referred,
    Stayed,
    TravelEffect,
    TravelEvent,
    TurnedAway,
)
from mqloom.client.legwork import Legwork
from mqloom.client.limits import CLOSE_S, FAILOVER_S, LINGER_S, MOVE_S, REACH_S
from mqloom.client.party import Manner, Party
from mqloom.client.roles import Role
from mqloom.client.states import State
from mqloom.client.summons import Summons
from mqloom.client.tellings import Tellings
from mqloom.client.vocabulary import (
    Adopted,
    CloseRequested,
    Connected,
    ConnectionLost,
    Effect,
    Event,
    Failed,
    Finished,
    JournalRead,
    LeaveRequested,
    MessageReceived,
    Note,
    Proceed,
    Publish,
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.core import layout
from mqloom.core.errors import OrderError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import MoveOrder, OrderDesk
from mqloom.core.records import Wish
from mqloom.core.seen import Seen


class Traveller(Legwork):
    """One client at one broker or two.

    `seen` is what has come to earlier lives, if that was kept.
    """

    def __init__(
        self,
        client: ClientId,
        wishes: Mapping[str, Wish],
        *,
        incarnation: str,
        desk: OrderDesk | None = None,
        manner: Manner | None = None,
        seen: Seen | None = None,
        follows_strangers: bool = False,
        needs_tls: bool = False,
    ) -> None:
        manner = Manner() if manner is None else manner
        super().__init__(client, Party(client, manner, Seen() if seen is None else seen, incarnation))
        self._summons = Summons(client, desk, follows_strangers=follows_strangers, needs_tls=needs_tls)
        self._order: MoveOrder | None = None
        self._tellings = Tellings()
        self._party.add(Role.HOME, manner.gateway, wishes, self._party.plain_journey, None, is_first=True)

    def handle(self, event: TravelEvent, now: float, wall: float) -> list[TravelEffect]:
        """Take one event; return what is to be done, in order. `wall` is the time of day, in seconds since 1970."""
        self._summons.wall = wall
        self._party.brokers = self._summons.brokers()
        match event:
            case OnLeg(leg=number, event=happening):
                leg = self.legs.get(number)
                if isinstance(happening, Forgotten):
                    if self._party.forgotten(number):
                        self._write_down(now)
                elif leg is not None:  # else it was given up
                    self._happen(leg, happening, now)
            case WishAdded() | WishRemoved():
                self._tellings.forget(event.name)
                for leg in self._party:
                    if leg.role is not Role.ERASING:
                        self._give(leg, event, now)
            case CloseRequested():
                self._close(now)
            case Woke():
                self._wake_at = None
                self._wake(now)
        self._look(now)
        return self._finish()

    def check(self) -> None:
        """State the invariants; for tests."""
        roles = [leg.role for leg in self._party]
        if not self._is_closing:
            assert sum(role in (Role.HOME, Role.WAITING) for role in roles) == 1, roles
            assert roles.count(Role.TARGET) <= 1
        assert len(roles) > 1 or self._order is None
        self._party.check()

    # ---- what happens to a leg -----------------------------------------------------------------------------------

    def _happen(
        self, leg: Leg, event: Connected | ConnectionLost | MessageReceived | Referred | TurnedAway, now: float
    ) -> None:
        match event:
            case Referred():
                self._refer(leg, event, now)
                return
            case TurnedAway():
                if leg.role is Role.TARGET and self.home.role is Role.HOME:  # it would be no better later
                    account = "is our account the same at each broker?"
                    self._stay(f"the broker of {leg.gateway} does not let us in: {event.reason}; {account}", now)
                return
            case Connected():
                leg.is_up = leg.was_up = True
                if leg.role is Role.ERASING:
                    self._erase(leg)
                    return
                if self._summons.needs_roster and leg.role is Role.HOME:  # before the record: that may need it
                    self._effects.append(ForLeg(leg=leg.number, effect=Subscribe(topic=layout.roster(), qos=1)))
            case ConnectionLost():
                leg.is_up = False
            case MessageReceived() if self._is_for_us(leg, event, now):
                return
        self._give(leg, event, now)

    def _give(self, leg: Leg, event: Event, now: float) -> None:
        """Let the core of a leg handle an event, and see to what it wants."""
        for effect in leg.core.handle(event, now):
            self._take(leg, effect, now)

    def _proceed(self, leg: Leg, now: float, **journey: str) -> None:
        """Let a leg be served, and its record say this; one that has not read yet says nothing over what is there."""
        if leg.core.has_read:
            self._give(leg, Proceed(journey=self._party.journey(leg.gateway, **journey)), now)

    def _write_down(self, now: float) -> None:
        """Let the record at home say how it stands with other brokers."""
        if not self._is_closing and self.home.role is Role.HOME:
            self._proceed(self.home, now, **self._party.course())

    def _take(self, leg: Leg, effect: Effect, now: float) -> None:
        leg.gateway = leg.core.gateway or leg.core.nearest or leg.gateway
        match effect:
            case Subscribe() | Publish():
                self._effects.append(ForLeg(leg=leg.number, effect=effect))
            case WakeAt():
                leg.wake_at = effect.at
            case JournalRead():
                self._resume(leg, effect, now)
            case Finished() | Failed():
                self._finished(leg, now)
            case Unserved() if leg.role is Role.TARGET:
                self._stay(effect.problem, now)
            case Adopted():
                self._adopt(leg, effect, now)
            case Tell():
                others = [other for other in self._party if other.role is not Role.ERASING]
                if self._tellings.is_news(leg, effect.answer, others):
                    self._effects.append(effect)
            case _:
                if leg.role in (Role.HOME, Role.WAITING) or not isinstance(effect, Note | Unserved):
                    self._effects.append(effect)

    def _adopt(self, leg: Leg, adopted: Adopted, now: float) -> None:
        """What an earlier life wanted at one broker is wanted wherever we are."""
        self._effects.append(adopted)
        for other in self._party:
            if other is not leg and other.role is not Role.ERASING:
                for name, wish in adopted.wishes.items():
                    if not other.core.has(name):
                        self._give(other, WishAdded(name=name, wish=wish), now)

    def _is_for_us(self, leg: Leg, message: MessageReceived, now: float) -> bool:
        """Heed orders and rosters; what does not count is counted by its reason, told, and ignored."""
        if not self._summons.are_in(message, leg.gateway):
            return False
        try:
            order = self._summons.read(message, leg.gateway)
        except OrderError as error:
            self._refuse("order, or a roster,", error)
            return True
        self._party.brokers = self._summons.brokers()
        if order is None:
            self._run_errands(self._party.unknown, now)
        else:
            self._obey(order, leg, now)
        return True

    def _refuse(self, what: str, error: OrderError) -> None:
        self.counts[f"refused: {error.reason}"] += 1
        self._note(f"what claims to be an {what} does not count: {error}")

    # ---- a move --------------------------------------------------------------------------------------------------

    def _obey(self, order: MoveOrder, leg: Leg, now: float) -> None:
        if self._is_closing or leg.role is not Role.HOME or len(self._party) > 1:
            self._answer(leg, order, "stayed", "a move is under way already")
            return
        objection = self._summons.objection(order.to)
        if objection is not None:
            self.counts[f"refused: {objection.reason}"] += 1
            self._effects.append(Stayed(to=order.to, problem=objection.problem))
            self._answer(leg, order, "stayed", objection.problem)
            return
        self._order = order
        self._answer(leg, order, "moving")
        last_s = order.expires_at - order.issued_at  # by one clock: ours may be ahead by as much as it may last
        self._move(self._party.place(order.to), now, now + max(0.0, min(MOVE_S, last_s)))

    def _refer(self, leg: Leg, referred: Referred, now: float) -> None:
        """The broker itself has sent us away: go where it says, if an order could lead there."""
        if self._is_closing or leg.role is not Role.HOME or len(self._party) > 1:
            self.counts["refused: under way"] += 1  # we are on our way already, or are only fetching what is there
            return
        try:
            place = self._summons.follow(referred, now)
            if place.gateway is not None and not self._party.knows(place.gateway):
                raise OrderError("target", f"the broker of {place.gateway} refers to itself")
        except OrderError as error:
            self._refuse("order of the broker itself", error)
            return
        self._note(f"the broker of {leg.gateway} sends us to {place.broker.host}:{place.broker.port}")
        self._move(place, now, now + MOVE_S)

    def _move(self, place: Place, now: float, end_by: float) -> None:
        """Write down where we go, and go there."""
        home = self.home
        self._proceed(home, now, moving_to=place.gateway or "")
        self._open(Role.TARGET, place, self._party.journey(place.gateway, moved_from=home.gateway or ""), end_by)

    def _arrive(self, target: Leg, now: float) -> None:
        """The target serves us: leave the other."""
        old = self.home
        source = old.gateway or ""
        target.role, target.end_by = Role.HOME, None
        old.role, old.end_by = Role.OLD, now + LINGER_S
        self._party.visit(source)
        self.counts["moved"] += 1
        self._effects.append(Migrated(source=source, to=target.gateway or ""))
        if self._summons.needs_roster:
            self._effects.append(ForLeg(leg=target.number, effect=Subscribe(topic=layout.roster(), qos=1)))
        if self._order is not None:
            self._answer(old, self._order, "arrived")
        if old.was_up:
            self._leave(old, now)
        else:  # it has refused us from the first: nothing of this life is there
            self._drop(old, forget=False)

    def _leave(self, old: Leg, now: float) -> None:
        if not old.core.has_read:  # what is there may be of use: it is left when it has been read
            return
        old.is_leaving = True
        self._give(old, LeaveRequested(to=self.home.gateway or ""), now)

    def _stay(self, problem: str, now: float, *, is_here: bool = False) -> None:
        """The target does not serve us: delete what we wrote there, and be served as ever."""
        target, home = self._party.in_role(Role.TARGET), self.home
        assert target is not None
        self.counts["stayed"] += 1
        self._effects.append(Stayed(to=target.gateway or "another broker", problem=problem))
        if self._order is not None:
            self._answer(home, self._order, "stayed", problem)
            self._order = None
        was_waiting = home.role is Role.WAITING
        home.role, home.unserved_since = Role.HOME, None
        target.role, target.end_by = Role.ERASING, now + LINGER_S
        if was_waiting:  # an earlier life was served there: what waits for us there is to come
            target.role = Role.OLD
        elif is_here or not target.was_up:  # its session there is ours, or there is none
            self._drop(target, forget=False)
        elif target.is_up:
            self._erase(target)
        # A later life must know of what is there.
        self._proceed(home, now, moving_to=(target.gateway or "") if was_waiting else "")

    def _finished(self, leg: Leg, now: float) -> None:
        """A leg has come to its end as it should."""
        if leg.role is Role.OLD:
            self._part(leg, now)
        else:
            self._drop(leg, forget=True)

    def _part(self, old: Leg, now: float) -> None:
        """We are done with a broker; should we die before it has forgotten us, a later life sees to that."""
        if self._order is not None:
            self._answer(old, self._order, "moved")
            self._order = None
        self._drop(old, forget=True)
        self._write_down(now)

    # ---- a later life --------------------------------------------------------------------------------------------

    def _resume(self, leg: Leg, read: JournalRead, now: float) -> None:
        """Go on with what an earlier life of ours has left at a broker."""
        left = Journey() if read.journey is None else read.journey
        self._party.visit(*left.visited, left.moved_from)
        if leg.role is Role.OLD:
            self._run_errands([left.moving_to, left.leaving_to, left.moved_to, left.moved_from, left.left], now)
            if read.is_certain and (read.journey is None or left.moved_to):  # there is nothing to leave
                self._part(leg, now)
            return  # else it is left when we are served: `_look`
        if leg.role is Role.HOME or self.home.role is Role.WAITING:
            onward = left.leaving_to or left.moved_to
            if self._party.knows(onward) and onward not in self._party.errands:
                self._go_onward(leg, GatewayId(onward), is_done=bool(left.moved_to), now=now)
                return
            done = {"", *self._party.errands, self.home.gateway}
            first = onward or left.moving_to or left.moved_from
            errands = dict.fromkeys(each for each in (first, left.left) if each not in done)
            if errands:
                self._party.unknown.update(errands)
                self._run_errands(errands, now)
                self._proceed(leg, now, moving_to=first if first in errands else "")
                return
        sources = [other for other in self._party if other.role is Role.OLD] or [self.home]
        self._proceed(leg, now, moved_from="" if leg.role is Role.HOME else sources[0].gateway or "")

    def _run_errands(self, gateways: Iterable[str], now: float) -> None:
        """Leave brokers where an earlier life may have a session; in one life, once."""
        for gateway in gateways:
            if self._party.knows(gateway) and gateway not in self._party.errands:
                self._party.errands.add(gateway)
                self._open(Role.OLD, self._party.place(gateway), self._party.plain_journey, now + LINGER_S)

    def _go_onward(self, leg: Leg, to: GatewayId, *, is_done: bool, now: float) -> None:
        """An earlier life was served elsewhere: we are, too, if that is there."""
        self._party.errands.add(to)
        if leg.role is Role.HOME:
            leg.role = Role.WAITING
        elif is_done:
            self._drop(leg, forget=True)
        else:
            leg.role, leg.end_by = Role.OLD, now + LINGER_S
        journey = self._party.plain_journey
        self._open(Role.TARGET, self._party.place(to), journey, now + REACH_S, is_first=True)

    # ---- time and the end ----------------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """See how far legs have come."""
        if not self._is_closing:
            self._party.note_service(now)
        target = self._party.in_role(Role.TARGET)
        if target is not None:
            home = self.home
            refused = set(target.core.refused) - set(home.core.refused)
            is_away = home.role is Role.WAITING or home.core.state not in (State.SERVED, State.IDLE)
            if target.gateway is not None and target.gateway == home.gateway:  # a stranger's address, but no stranger
                self._stay(f"that is the broker of {home.gateway}, too", now, is_here=True)
            elif refused:
                self._stay(f"{target.gateway} refuses {', '.join(sorted(refused))}", now)
            elif target.core.is_served(partly=is_away) and target.is_up:
                self._arrive(target, now)
        elif not self._is_closing and self.home.core.is_served(partly=True):
            for leg in self._party:
                if leg.role is Role.OLD and not leg.is_leaving and leg.core.has_read:
                    self._leave(leg, now)

    def _wake(self, now: float) -> None:
        for leg in self._party:
            if leg.wake_at is not None and now >= leg.wake_at:
                leg.wake_at = None
                self._give(leg, Woke(), now)
        for leg in self._party:
            if leg.end_by is not None and now >= leg.end_by and leg.number in self.legs:
                self._end(leg, now)
        if self._fails_over_at() <= now:
            self._fail_over(now)

    def _end(self, leg: Leg, now: float) -> None:
        """The time of a leg is over."""
        leg.end_by = None
        if leg.role is Role.TARGET:
            self._stay(f"{leg.gateway} has not served us in time", now)
        elif leg.role is Role.OLD:
            self.counts["given up"] += 1
            self._note(f"{leg.gateway} has not given us all that was under way in {LINGER_S:g} s: given up")
            self._part(leg, now)
        elif leg.role is Role.ERASING:
            self._drop(leg, forget=True)

    def _fail_over(self, now: float) -> None:
        """Our broker is away for long: try the next one of the roster."""
        others = self._party.others()
        self.counts["failed over"] += 1
        to = others[self.counts["failed over"] % len(others)]
        self._note(f"nobody serves us at {self.home.gateway} for {FAILOVER_S:g} s: trying {to}")
        self.home.unserved_since = now
        self._move(self._party.place(to), now, now + MOVE_S)

    def _close(self, now: float) -> None:
        """The user has had enough: leave all brokers; one that is not there is waited for no longer than CLOSE_S."""
        is_again, self._is_closing = self._is_closing, True
        self._order = None
        are_there = all(leg.is_up for leg in self._party)
        for leg in self._party:
            is_needed = not leg.core.has_read or (leg.role is Role.WAITING and not are_there)
            if is_again:
                self._drop(leg, forget=leg.core.has_read)
            elif leg.role in (Role.HOME, Role.WAITING):
                if is_needed:  # what is written there, by a later life
                    self._drop(leg, forget=leg.core.has_read)
                else:
                    self._give(leg, CloseRequested(), now)
            elif leg.is_up:
                self._erase(leg)
            else:
                leg.role, leg.end_by = Role.ERASING, now + CLOSE_S
