"""Conversations with neighbours: how a link begins, is kept in order, breaks, and begins anew.

Theory of operation. Each side numbers the frames of its conversation. The receiver takes them in their order, drops
repeated ones and those behind a gap, and acknowledges how many have come and how many are taken care of; the sender
keeps frames until they have come, sends them again after a while, and keeps publications until they are taken care of.

A conversation begins with Hello, which says which conversation of the other side it follows. A side that reads its own
current conversation in a Hello knows that it is heard: the link is up, and it sends everything it knows. A side that is
up and sees a new conversation knows that the other has begun anew: it does so too, so that both always tell each other
everything again, and what was not taken care of.

A side that is not up says nothing but Hello, numbered 0 each time, and asks for an answer. A side that is up answers,
but asks for none: greetings come to an end.

    state       event                        new state    and
    CONNECTING  Hello that follows us        UP           greet, open
    CONNECTING  Hello that does not          CONNECTING   greet
    CONNECTING  grace over                   DOWN         give up
    UP          Hello that follows us        UP           greet, if it asks: it may have missed our greeting
    UP          Hello that does not          UP           nothing: it was said before the one that did
    UP          new conversation             CONNECTING   close, new conversation, greet
    UP          connected again              UP           greet, send again what has not come
    UP          connection lost, grace over  DOWN         close, new conversation, give up
    UP          frames not come, SILENCE     DOWN         close, new conversation, give up
    UP          come, not done, ASK          UP           greet: that they are done may have been said, and lost
    DOWN        Hello that follows us        UP           greet, open
    DOWN        Hello that does not          CONNECTING   greet

A greeting is repeated every HELLO_EVERY_S while the link is not up and the neighbour's broker can be written to.
"""

from collections.abc import Sequence
from enum import Enum, auto

from mqloom.core.effects import SendAck, SendFrame
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import HELLO_EVERY_S, LINK_GRACE_S
from mqloom.core.messages import Hello, Message
from mqloom.core.wire import Ack, Frame, batches, encode, encode_ack
from mqloom.gateway.arrivals import Arrivals
from mqloom.gateway.departures import Departures, Entry
from mqloom.gateway.journal import Journal


class LinkState(Enum):
    """How a link stands: CONNECTING is waited for, DOWN is not."""

    CONNECTING = auto()
    UP = auto()
    DOWN = auto()


class LinkChange(Enum):
    """What the node must do because of a link."""

    OPEN = auto()
    """We are heard: tell the neighbour everything."""
    CLOSE = auto()
    """We are heard no longer: it must be told again some day."""
    DOUBT = auto()
    """The neighbour begins anew: what it does not say again is gone."""
    GIVE_UP = auto()
    """The neighbour stays away: wait for it no longer."""


class Link:
    """One neighbour. Every method returns what the node must do, and `pack` the frames that are to go out."""

    def __init__(
        self, gateway: GatewayId, neighbour: GatewayId, first: Conversation, now: float, journal: Journal
    ) -> None:
        self._gateway = gateway
        self._neighbour = neighbour
        self._journal = journal
        self.state = LinkState.CONNECTING
        self._connected = False
        self._conversation = first
        self._departures = Departures()
        self._arrivals = Arrivals()
        self._urgent_sequence = 0
        self._give_up_at: float | None = now + LINK_GRACE_S
        self._greet_at: float | None = None
        self._greeting: Hello | None = None  # to be sent with the event at hand; a later one replaces an earlier

    # ---- what happens --------------------------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """We can write to the neighbour's broker (again)."""
        self._connected = True
        if self.state is LinkState.UP:
            self._give_up_at = None
            self._departures.connected(now)
        self._greet(now)

    def met(self, now: float) -> None:
        """The neighbour is in a new life and hears us: it has heard no greeting of ours. If we are up, it greets us."""
        if self._connected and self.state is not LinkState.UP:
            self._greet(now)

    def lost(self, now: float) -> None:
        """We cannot write there, or its gateway is gone."""
        self._connected = False
        self._greet_at = None
        if self.state is LinkState.UP and self._give_up_at is None:
            self._give_up_at = now + LINK_GRACE_S

    def wake(self, now: float) -> list[LinkChange]:
        """Do what the time has come for."""
        late = self.state is LinkState.UP and self._connected and self._departures.are_stalled(now)
        if late or (self._give_up_at is not None and now >= self._give_up_at):
            changes = self._restart(now) if self.state is LinkState.UP else []
            self._give_up_at = None
            self.state = LinkState.DOWN
            if self._connected:
                self._greet(now)
            self._journal.tell(
                "warning",
                f"neighbour {self._neighbour} does not answer: going on without it. Is its gateway running?",
            )
            return [*changes, LinkChange.GIVE_UP]
        is_quiet = self.state is LinkState.UP and self._connected and self._departures.are_quiet(now)
        if is_quiet or (self._greet_at is not None and now >= self._greet_at):
            self._greet(now)
        return []

    @property
    def deadline(self) -> float | None:
        """When `wake`, `pack` and `pack_ack` must be called."""
        departures = self._departures.deadline if self.state is LinkState.UP and self._connected else None
        times = (self._give_up_at, self._greet_at, self._arrivals.deadline, departures)
        return min((at for at in times if at is not None), default=None)

    def receive(self, frame: Frame, now: float) -> tuple[list[LinkChange], Sequence[Message]]:
        """Take a frame of the ordinary stream: return what to do first, and the messages to obey then."""
        first = frame.messages[0] if frame.messages else None
        if isinstance(first, Hello) and first.asks:
            return self._receive_greeting(frame.conversation, first, now), ()
        if not self._arrivals.take(frame, now):
            self._journal.counters.add("frames_stale")
            return [], ()
        self._journal.counters.add("frames_received")
        changes: list[LinkChange] = []
        for message in frame.messages:
            if isinstance(message, Hello):
                self._arrivals.asked()
                changes += self._greeted(message, now)
        return changes, frame.messages

    def receive_urgent(self, frame: Frame) -> Sequence[Message]:
        """Take a frame of the urgent stream, where order does not matter: return the messages to obey."""
        if frame.conversation != self._arrivals.conversation:
            self._journal.counters.add("frames_stale")
            return ()
        self._journal.counters.add("frames_received")
        return frame.messages

    def acknowledged(self, ack: Ack, now: float) -> Sequence[Entry]:
        """Take an acknowledgement: return what the neighbour has taken care of."""
        if ack.conversation != self._conversation:
            self._journal.counters.add("frames_stale")
            return ()
        return self._departures.acknowledged(ack, now)

    @property
    def places(self) -> int:
        """How many publications of QoS 1 have come in the present conversation."""
        return self._arrivals.places

    def taken_care_of(self, conversation: Conversation, place: int) -> None:
        """A publication is taken care of; of an earlier conversation nobody waits for it."""
        if conversation == self._arrivals.conversation:
            self._arrivals.taken_care_of(place)

    # ---- what goes out -------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many publications may be sent now."""
        return self._departures.room if self.state is LinkState.UP else 0

    def may_leave(self, waiting: int, messages: Sequence[Message], now: float) -> bool:
        """Whether so many publications leave now, with these messages if there are any; else they fill a frame."""
        return self._departures.may_leave(0 if messages or self._greeting is not None else waiting, now)

    def pack(self, messages: Sequence[Message], entries: Sequence[Entry], now: float) -> list[SendFrame]:
        """Return the frames to send: what is sent again, greetings, messages, then entries. Not up: greetings only."""
        greeting, self._greeting = self._greeting, None
        if self.state is not LinkState.UP:
            assert not entries
            return [] if greeting is None else [self._send(Frame(self._gateway, self._conversation, 0, (greeting,)))]
        frames = []
        if self._connected:
            for data in self._departures.again(now):
                self._journal.counters.add("frames_resent")
                frames.append(SendFrame(neighbour=self._neighbour, frame=data))
        duties = {id(entry.message): entry for entry in entries if entry.duty is not None}
        said = [*(() if greeting is None else (greeting,)), *messages, *(entry.message for entry in entries)]
        for batch in batches(said):
            sequence = self._departures.sequence
            effect = self._send(Frame(self._gateway, self._conversation, sequence, batch))
            kept = [duties[id(each)] for each in batch if id(each) in duties]
            self._departures.sent(effect.frame, len(batch), kept, now)
            frames.append(effect)
        return frames

    def pack_urgent(self, messages: Sequence[Message]) -> list[SendFrame]:
        """Return the frames to send on the urgent stream; none while the link is not up."""
        frames = []
        for batch in batches(messages) if self.state is LinkState.UP else ():
            frame = Frame(self._gateway, self._conversation, self._urgent_sequence, batch)
            frames.append(self._send(frame, urgent=True))
            self._urgent_sequence += 1
        return frames

    def pack_ack(self, now: float) -> SendAck | None:
        """Return the acknowledgement to send, if one is due."""
        ack = self._arrivals.ack(self._gateway, now)
        return None if ack is None else SendAck(neighbour=self._neighbour, ack=ack)

    def last_ack(self, now: float) -> list[SendAck]:
        """Return the acknowledgement of whatever has come, due or not."""
        self._arrivals.asked()
        ack = self.pack_ack(now)
        return [] if ack is None else [ack]

    def say_parted(self, number: int) -> list[SendAck]:
        """Return, for one that may not have heard our farewell, the answer that it would get if it spoke to us."""
        conversation = self._arrivals.conversation
        if conversation is None:
            return []
        ack = encode_ack(Ack(self._gateway, conversation, 0, 0, (), number))
        return [SendAck(neighbour=self._neighbour, ack=ack)]

    def take_back(self) -> list[Entry]:
        """Return, in order, what was sent in conversations that are over, and not taken care of."""
        return self._departures.take_back()

    def end(self) -> list[Entry]:
        """There is no link any more: return what was sent and not taken care of."""
        self._departures.end()
        return self._departures.take_back()

    @property
    def next_number(self) -> int:
        """The number of a conversation that a later link there may begin with."""
        return self._conversation.number + 1

    @property
    def said(self) -> int:
        """How many frames we have sent in our present conversation."""
        return self._departures.sequence

    def has_heard(self, said: int) -> bool:
        """Whether so many frames have come to the neighbour."""
        return self._departures.come >= said

    @property
    def held(self) -> int:
        """How many publications were sent and are not taken care of."""
        return self._departures.held

    def check(self) -> None:
        """State the invariants: only a link that is up and connected may wait for nothing."""
        if self.state is LinkState.UP:
            assert self._arrivals.conversation is not None
            assert self._connected or self._give_up_at is not None
        elif self.state is LinkState.CONNECTING:
            assert self._give_up_at is not None
        if self.state is not LinkState.UP:
            assert not self._departures.held
        self._departures.check()
        self._arrivals.check()

    # ---- greetings -----------------------------------------------------------------------------------------------

    def _receive_greeting(self, conversation: Conversation, hello: Hello, now: float) -> list[LinkChange]:
        known = self._arrivals.conversation
        if known is not None and conversation < known:
            text = f"{self._neighbour} greets from the past: has its clock gone back?"
            if conversation.epoch < known.epoch:
                self._journal.refuse("frames_stale", "past", text)
            else:
                self._journal.counters.add("frames_stale")
            return []
        if conversation == known and self._arrivals.came > 1:
            self._journal.counters.add("frames_stale")  # it was up since: this one is late, or doubled
            return []
        self._journal.counters.add("frames_received")
        changes = self._follow(conversation, now) if conversation != known else []
        return changes + self._greeted(hello, now)

    def _follow(self, conversation: Conversation, now: float) -> list[LinkChange]:
        """The neighbour begins a conversation."""
        self._arrivals.begin(conversation)
        if self.state is not LinkState.UP:
            return [LinkChange.DOUBT]
        self._journal.refuse("link_resets", "restarted", f"neighbour {self._neighbour} begins anew")
        return [LinkChange.DOUBT, *self._restart(now)]

    def _greeted(self, hello: Hello, now: float) -> list[LinkChange]:
        if self.state is LinkState.UP:
            if hello.heard == self._conversation and hello.asks:
                self._greet(now)
            return []
        if hello.heard == self._conversation:
            self.state = LinkState.UP
            self._give_up_at = None if self._connected else now + LINK_GRACE_S
            self._greet(now)
            self._journal.tell("info", f"link to {self._neighbour} is up")
            return [LinkChange.OPEN]
        if self.state is LinkState.DOWN:
            self.state = LinkState.CONNECTING
            self._give_up_at = now + LINK_GRACE_S
        self._greet(now)
        return []

    def _restart(self, now: float) -> list[LinkChange]:
        """Begin a new conversation of ours; the other side must follow it before anything else is said."""
        was_up = self.state is LinkState.UP
        if self.state is not LinkState.CONNECTING:  # a wait that has begun is not prolonged
            self._give_up_at = now + LINK_GRACE_S
        self.state = LinkState.CONNECTING
        self._conversation = Conversation(self._conversation.epoch, self._conversation.number + 1)
        self._departures.end()
        self._urgent_sequence = 0
        self._greeting = None
        return [LinkChange.CLOSE] if was_up else []

    def _greet(self, now: float) -> None:
        is_up = self.state is LinkState.UP
        self._greeting = Hello(self._arrivals.conversation, not is_up)
        self._greet_at = now + HELLO_EVERY_S if self._connected and not is_up else None

    def _send(self, frame: Frame, *, urgent: bool = False) -> SendFrame:
        self._journal.counters.add("frames_sent")
        return SendFrame(neighbour=self._neighbour, frame=encode(frame), urgent=urgent)
