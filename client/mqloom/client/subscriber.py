"""A content subscriber as a core without IO: finds the gateway, writes its record, keeps it alive, drops duplicates.

Theory of operation. Beside the broker stands a gateway, which says so in its retained status. The subscriber first
listens on its `ctl` and `out` topics and only then writes its record, so that no answer passes unheard. The record is
the whole wish; writing it again is harmless and renews its lease, and the gateway answers again for what stands. So
the cure for every doubt (a gateway that restarted, a connection that was away, an `ended` that we did not ask for) is
to write it again. A killed subscriber is forgotten by the gateway when its lease runs out.

`states` has all states and the ways between them.

A *lasting* subscriber may have no subscription at all, and gets and loses them at run time. What would end the other,
that no gateway answers or that all is refused, is told to its user, and it goes on: a missing gateway is waited for,
and with nothing to ask for it is SERVED by nothing. A subscription that is removed delivers what was under way, until
the gateway has said `ended`, or for ENDED_S.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from mqloom.client.inbox import COUNTS, Heard
from mqloom.client.journal import NEVER, Journal, Travel
from mqloom.client.journey import Journey
from mqloom.client.limits import ANSWER_S, ASK_AGAIN_S, CHANGE_S, CLOSE_S, ENDED_S, FIND_S, LEASE_S
from mqloom.client.standing import Standing
from mqloom.client.states import State
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
    Subscribe,
    Tell,
    Unserved,
    WakeAt,
    WishAdded,
    WishRemoved,
    Woke,
)
from mqloom.client.wishes import WishState
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.records import Answer, Status, Wish
from mqloom.core.seen import Seen


class Subscriber(Standing):
    """One client with its subscriptions: fixed for its life, or `lasting`, when they may come and go.

    The gateway is found by its status, or, where the broker replays no retained message to a wildcard, named. `seen` is
    what has come to earlier lives, if that was kept. One that `adopts` wants what an earlier life has wanted, too, if
    the broker has kept its session: as with any MQTT client, which need not subscribe again then.
    """

    def __init__(  # noqa: PLR0913 - all but two have a default that is right for most
        self,
        client: ClientId,
        wishes: Mapping[str, Wish],
        *,
        qos: int = 1,
        lease_s: float = LEASE_S,
        gateway: GatewayId | None = None,
        token: str = "",
        lasting: bool = False,
        travel: Travel | None = None,
        seen: Seen | None = None,
        adopts: bool = False,
    ) -> None:
        assert wishes or lasting
        super().__init__(wishes, gateway=gateway, lasting=lasting, seen=seen if travel is None else travel.seen)
        self._client = client
        self._record = Journal(client, self._wishes, qos=qos, lease_s=lease_s, token=token)
        self._adopts = adopts
        self._record.reads = adopts or travel is not None
        if travel is None:
            self._record.tries_max = 1
        else:
            self._record.journey, self._record.waits = travel.journey, True
            self._record.may_stand, self._record.is_patient = not travel.is_home, travel.is_home
        self._give_up_at: float | None = None
        self._wake_at: float | None = None
        self._effects: list[Effect] = []

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; return what is to be done, in order."""
        if self.state is State.CLOSED:
            return []
        match event:
            case WishAdded():
                self._add(event, now)
            case WishRemoved():
                self._remove(event.name, now)
            case CloseRequested():
                self._close(now)
            case Proceed():
                self._proceed(event.journey, now)
            case LeaveRequested():
                self._leave(event.to, now)
            case Woke():
                self._wake_at = None
                self._wake(now)
            case Connected() | ConnectionLost() | MessageReceived():
                self._hear(event, now)
        return self._finish()

    def _hear(self, event: Connected | ConnectionLost | MessageReceived, now: float) -> None:
        """Take an event of the connection."""
        match self.state, event:
            case State.OFFLINE, Connected() as connected:
                self._connect(connected, now)
            case State.CLOSING, ConnectionLost():
                self._end(Finished())
            case (State.OFFLINE, _) | (_, Connected()):
                raise AssertionError(f"{event!r} while {self.state}")
            case _, MessageReceived() as message:
                self._receive(message, now)
            case _, ConnectionLost() as lost:
                self.state = State.OFFLINE
                self._give_up_at = self._record.read_by = None
                self._note(f"the connection to the broker is lost ({lost.problem or 'closed'}); connecting again")

    def check(self) -> None:
        """State the invariants; for tests."""
        if self.state in (State.READING, State.LEAVING):
            assert self.gateway is not None
        if self.state in (State.ASKING, State.SERVED, State.CLOSING):
            assert self.gateway is not None
            assert self._lasting or not self._wishes.are_refused()
        if self.state in (State.ASKING, State.SERVED):
            assert self._wishes.are_answered() == (self.state is State.SERVED)
        if self.state is State.IDLE:
            assert self._lasting
            assert not self._wishes
            assert not self._record.may_stand
        assert self.counts.keys() == COUNTS.keys()

    # ---- what is wanted ------------------------------------------------------------------------------------------

    def _connect(self, connected: Connected, now: float) -> None:
        self._record.is_behind = False
        if not connected.resumed and self._wishes.named(WishState.ESTABLISHED):
            self.counts["gaps"] += 1
        if not connected.resumed:  # what the session had is over
            self._adopts = False
            self._record.reads = self._record.reads and self._record.waits
        if self._wishes or self._record.may_stand or (self._adopts and self._record.reads):
            self._find(now)
        else:
            self.state = State.IDLE

    def _add(self, added: WishAdded, now: float) -> None:
        assert self._lasting
        if self.state is State.CLOSING:
            return
        self._wishes.add(added.name, added.wish)
        if self.state is State.IDLE:
            self._find(now)
        elif self.state is State.FINDING and self.gateway is None and self._give_up_at is None:
            self._give_up_at = now + FIND_S
        elif self.state is State.READING and self._record.is_late:  # the others were told before
            self._miss(added.name, problem=self._lookout.nothing_read())
        elif self.state in (State.ASKING, State.SERVED):
            self._change(now)

    def _remove(self, name: str, now: float) -> None:
        assert self._lasting
        if not self._wishes.remove(name, now + ENDED_S) or self.gateway is None:
            self._forget(name)
        elif self.state in (State.ASKING, State.SERVED):
            self._change(now)

    def _forget(self, name: str) -> None:
        """One has ended: the user is told."""
        self._wishes.forget(name)
        self._effects.append(Tell(answer=Answer(answer="ended", name=name)))

    def _change(self, now: float) -> None:
        """Let the record say what is wanted now: at once, or together with the changes that come within CHANGE_S."""
        self._settle(now)
        self._record.hurry(now, CHANGE_S)
        if now >= self._record.write_at:
            self._write(now)

    # ---- the gateway ---------------------------------------------------------------------------------------------

    def _find(self, now: float) -> None:
        self.state = State.FINDING
        self._give_up_at = now + FIND_S if self.gateway is None else None
        self._effects.append(self._lookout.begin(now))

    def _receive(self, message: MessageReceived, now: float) -> None:
        gateway = self.gateway
        if layout.is_out(self._client, message.topic):  # a kept session brings it before we know of a gateway
            self._record.is_behind = True
            self._effects += self._inbox.envelope(message.payload)
        elif gateway is not None and message.topic == layout.record(gateway, self._client):
            self._receive_record(message.payload, now)
        elif gateway is not None and message.topic == layout.control(gateway, self._client):
            answer = self._inbox.answer(message.payload)
            if answer is not None:
                self._receive_answer(answer, now)
        else:
            self._receive_word(message, now)

    def _receive_word(self, message: MessageReceived, now: float) -> None:
        """Heed what some gateway says of itself."""
        heard = self._lookout.hear(message)
        if isinstance(heard, Heard):
            self._receive_status(heard, now)
        elif heard is not None and self.state is State.FINDING:
            self._effects.append(heard)

    def _receive_status(self, heard: Heard, now: float) -> None:
        if self.state is State.FINDING:
            if heard.status is not None:
                self._take(heard.status, now)
        elif self.state is State.READING:
            if heard.status is not None and heard.gateway == self.gateway:
                self._lookout.take(heard.status)
        elif self.state in (State.ASKING, State.SERVED, State.LEAVING) and heard.gateway == self.gateway:
            self._watch(heard.status, now)

    def _take(self, status: Status, now: float) -> None:
        """Turn to a gateway that is alive: listen first, then ask."""
        self._lookout.take(status)
        self._effects += [
            Subscribe(topic=layout.control(status.gateway, self._client), qos=1),
            Subscribe(topic=layout.out(status.gateway, self._client), qos=self._record.qos),
        ]
        if not self._record.waits and not self._record.reads:
            self._ask(now)
            return
        self.state = State.READING
        self._give_up_at = None
        if self._record.reads:
            self._effects += self._record.begin_reading(status.gateway, now)

    def _watch(self, alive: Status | None, now: float) -> None:
        """Heed what our gateway says of itself."""
        if alive is None:
            self.state = State.FINDING
            self._give_up_at = None
            self._note(f"the gateway {self.gateway} is gone; waiting for it")
        elif self._lookout.found is None or alive.epoch != self._lookout.found.epoch:
            self._lookout.take(alive)
            self._ask(now)

    # ---- moves ---------------------------------------------------------------------------------------------------

    def _receive_record(self, payload: bytes, now: float) -> None:
        """Heed what we have written ourselves, in this life or an earlier one."""
        if self._record.hear(payload) and self.state is State.READING:
            self._end_reading(now)

    def _read_on(self, now: float) -> None:
        """It has not come: ask once more, or go on without."""
        if self.gateway is None or not self._record.may_probe(now):
            self._end_reading(now, is_certain=False)
            return
        was_late = self._record.is_late
        self._effects.append(self._record.probe(self.gateway, now))
        if self._record.is_late and not was_late:
            self._fail(self._lookout.nothing_read())

    def _end_reading(self, now: float, *, is_certain: bool = True) -> None:
        if not self._record.reads:
            return
        journey, wishes = self._record.end_reading(is_certain=is_certain)
        adopted = self._wishes.adopt(wishes) if self._adopts else {}
        if adopted:
            self._effects.append(Adopted(wishes=adopted))
        if self._record.waits:
            self._effects.append(JournalRead(journey=journey, is_certain=is_certain))
        else:
            self._begin(now)

    def _begin(self, now: float) -> None:
        """What was there has been read: ask for what is wanted, if anything is; what is not wanted must not stand."""
        if self._wishes or self._record.may_stand:
            self._ask(now)
        else:  # and what could not be read stays as it is
            self.state = State.IDLE

    def _proceed(self, journey: Journey, now: float) -> None:
        self._record.journey, self._record.waits = journey, False
        if self.state is State.READING:
            self._begin(now)
        elif self.state in (State.ASKING, State.SERVED) or self._can_write_ahead:
            self._write(now)

    @property
    def _can_write_ahead(self) -> bool:
        """Whether the gateway is gone, but not its broker: a later life of ours reads what we write."""
        return self.state is State.FINDING and self.gateway is not None and not self._record.waits

    def _leave(self, to: str, now: float) -> None:
        self._record.leave(to)
        if not (self._wishes or self._record.may_stand):
            self._end(Finished())
        elif self.state in (State.READING, State.ASKING, State.SERVED):
            self._ask(now)
        elif self._can_write_ahead:
            self._write(now)

    def _receive_farewell(self, answer: Answer, now: float) -> None:
        """Heed what the gateway says while we leave."""
        if answer.answer == "refused":  # it came too soon after another
            self._record.hurry(now, ASK_AGAIN_S)
        elif answer.answer == "ended":
            for name in [answer.name] if answer.name else self._wishes.named(WishState.ENDING):
                if self._wishes.is_ending(name):
                    self._forget(name)
            if not answer.name:
                assert self.gateway is not None
                self._effects.append(self._record.point(self.gateway))
                self._end(Finished())

    # ---- the record ----------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        """Write the record, and wait for all answers anew."""
        if self._record.journey.leaving_to:
            self.state = State.LEAVING
            self._give_up_at = None
            self._write(now)
            return
        self.state = State.ASKING
        self._give_up_at = None if self._answered else now + ANSWER_S
        self._wishes.reopen()
        self._write(now)
        if self._lasting:
            self._settle(now)

    def _write(self, now: float) -> None:
        assert self.gateway is not None
        self._effects.append(self._record.write(self.gateway, now))

    def _delete_record(self) -> None:
        assert self.gateway is not None
        self._effects.append(self._record.delete(self.gateway))

    def _receive_answer(self, answer: Answer, now: float) -> None:
        self._answered = True
        if self.state is State.CLOSING:
            self._count_ended(answer)
        elif self.state is State.LEAVING:
            self._receive_farewell(answer, now)
        elif answer.answer == "ended" and not answer.name:
            self.counts["answers_unexpected"] += 1  # it is about an earlier life, which had left
        elif self.state is State.READING:
            pass  # as below
        elif self.state is not State.FINDING:  # there all answers are to an earlier record: we ask again
            self._give_up_at = None
            self._obey(answer, now)
            self._settle(now)

    def _obey(self, answer: Answer, now: float) -> None:
        if answer.answer == "ended":
            if self._wishes.is_ending(answer.name):
                self._forget(answer.name)
                self._record.may_stand = bool(self._wishes)
                return
            # Its lease ran out, or it is about an earlier subscription of this name: asking again is right for both.
            if self._wishes.obey(answer, WishState.OPEN):
                self.counts["gaps"] += 1
                self._record.hurry(now, ASK_AGAIN_S)
                self._note(f"the gateway has ended {answer.name!r}; asking again")
            return
        granted = answer.answer == "established"
        names = self._wishes.obey(answer, WishState.ESTABLISHED if granted else WishState.REFUSED)
        self._effects += [Tell(answer=replace(answer, name=name)) for name in names]
        if names and not answer.name and self._lasting:  # the one before stands, until the gateway restarts
            self._record.hurry(now, ASK_AGAIN_S)

    def _settle(self, now: float) -> None:
        """See whether all answers are there."""
        if self._wishes.are_refused() and not self._lasting:
            assert self.gateway is not None
            self._delete_record()
            self._end(Failed(problem=f"the gateway {self.gateway} refused every subscription"))
            return
        if self._wishes.are_refused() and self._record.write_at < NEVER:
            self._record.hurry(now, CHANGE_S)
        self.state = State.SERVED if self._wishes.are_answered() else State.ASKING

    # ---- time and the end ----------------------------------------------------------------------------------------

    def _wake(self, now: float) -> None:
        if self._give_up_at is not None and now >= self._give_up_at:
            self._give_up()
        elif self.state is State.FINDING and self._lookout.look_at is not None and now >= self._lookout.look_at:
            self._effects.append(self._lookout.look())
        elif self._record.read_by is not None and now >= self._record.read_by:
            self._read_on(now)
        elif self.state in (State.ASKING, State.SERVED, State.LEAVING) and now >= self._record.write_at:
            self._write(now)
        for name in self._wishes.overdue(now):
            self._forget(name)

    def _give_up(self) -> None:
        self._give_up_at = None
        if self.state is State.CLOSING:
            self._end(Finished())
        elif self.state is State.FINDING:
            self._fail(self._lookout.nobody_here())
        else:
            self._fail(self._lookout.nobody_answers(self._client))

    def _fail(self, problem: str) -> None:
        """Nobody answers: that is the end, or for one that lasts a piece of news."""
        if self._lasting:
            self._miss(*self._wishes.named(WishState.OPEN), problem=problem)
            return
        if self.gateway is not None:
            self._delete_record()
        self._end(Failed(problem=problem))

    def _miss(self, *names: str, problem: str) -> None:
        """Let the user know that nobody answers for these."""
        if names:
            self._effects.append(Unserved(names=names, problem=problem))

    def _close(self, now: float) -> None:
        if self.state not in (State.OFFLINE, State.IDLE, State.CLOSING) and self.gateway is not None:
            self._delete_record()
        self._wishes.remove_all(by=NEVER)  # all of them by `_give_up_at`
        if self.state in (State.ASKING, State.SERVED) and self._wishes:
            self.state = State.CLOSING
            self._give_up_at = now + CLOSE_S
        else:
            self._end(Finished())

    def _count_ended(self, answer: Answer) -> None:
        if answer.answer == "ended":
            self._forget(answer.name)
        if self._wishes.are_ended():
            self._end(Finished())

    def _end(self, effect: Failed | Finished) -> None:
        self.state = State.CLOSED
        self._give_up_at = None
        self._effects.append(effect)

    def _note(self, text: str) -> None:
        self._effects.append(Note(text=text))

    def _finish(self) -> list[Effect]:
        deadlines = [] if self._give_up_at is None else [self._give_up_at]
        if self._record.read_by is not None:
            deadlines.append(self._record.read_by)
        if self.state in (State.ASKING, State.SERVED, State.LEAVING):
            deadlines.append(self._record.write_at)
        if self.state is State.FINDING and self._lookout.look_at is not None:
            deadlines.append(self._lookout.look_at)
        if self.state is not State.CLOSED and self._wishes.end_by is not None:
            deadlines.append(self._wishes.end_by)
        first = min(deadlines, default=NEVER)
        if first < NEVER and first != self._wake_at:
            self._wake_at = first
            self._effects.append(WakeAt(at=first))
        effects, self._effects = self._effects, []
        return effects
