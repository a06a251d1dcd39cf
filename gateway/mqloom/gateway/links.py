"""Conversations with neighbours: how a link begins, is kept in order, breaks, and begins anew.

Theory of operation. Each side numbers the frames of its conversation; a frame that is missing ends it, a repeated one
is dropped. A conversation begins with Hello, which says which conversation of the other side it follows. A side that
reads its own current conversation in a Hello knows that it is heard: the link is up, and it sends everything it knows.
A side that is up and sees a new conversation knows that the other has begun anew: it does so too, so that both always
tell each other everything again.

A side that is not up says nothing but Hello, and asks for an answer. Only such a Hello begins a conversation, and of
such a conversation nothing can be missing. A side that is up answers it, but asks for none: greetings come to an end.

    state       event                        new state    and
    CONNECTING  Hello that follows us        UP           greet, open
    CONNECTING  Hello that does not          CONNECTING   greet
    CONNECTING  frame missing                CONNECTING   new conversation, greet
    CONNECTING  grace over                   DOWN         give up
    UP          Hello that follows us        UP           greet, if it asks: it may have missed our greeting
    UP          Hello that does not          CONNECTING   close, new conversation, greet
    UP          new conversation             CONNECTING   close, new conversation, greet
    UP          frame missing                CONNECTING   close, new conversation, greet
    UP          connected again              UP           greet: what was lost meanwhile is then noticed
    UP          connection lost, grace over  DOWN         close, new conversation, give up
    DOWN        Hello that follows us        UP           greet, open
    DOWN        Hello that does not          CONNECTING   greet
    DOWN        frame missing                CONNECTING   new conversation, greet

A greeting is repeated every HELLO_EVERY_S while the link is not up and the neighbour's broker can be written to.
While it is up, one greeting follows HELLO_EVERY_S behind what was said, so that a lost last frame is noticed too.
"""

from collections.abc import Sequence
from enum import Enum, auto

from mqloom.core.effects import SendFrame
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import HELLO_EVERY_S, LINK_GRACE_S
from mqloom.core.messages import Hello, Message
from mqloom.core.publication import Publication
from mqloom.core.wire import Frame, batches, encode
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

    def __init__(self, gateway: GatewayId, neighbour: GatewayId, epoch: int, now: float, journal: Journal) -> None:
        self._gateway = gateway
        self._neighbour = neighbour
        self._journal = journal
        self.state = LinkState.CONNECTING
        self._connected = False
        self._conversation = Conversation(epoch, 0)
        self._sequence = 0
        self._urgent_sequence = 0
        self._heard: Conversation | None = None
        self._heard_sequence = 0
        self._over: Conversation | None = None  # the neighbour's conversation that broke, until it begins another
        self._give_up_at: float | None = now + LINK_GRACE_S
        self._greet_at: float | None = None
        self._greeting: Hello | None = None  # to be sent with the event at hand; a later one replaces an earlier

    def connected(self, now: float) -> None:
        """We can write to the neighbour's broker (again)."""
        self._connected = True
        if self.state is LinkState.UP:
            self._give_up_at = None
        self._greet(now)

    def lost(self, now: float) -> None:
        """We cannot write there, or its gateway is gone."""
        self._connected = False
        self._greet_at = None
        if self.state is LinkState.UP and self._give_up_at is None:
            self._give_up_at = now + LINK_GRACE_S

    def wake(self, now: float) -> list[LinkChange]:
        """Do what the time has come for."""
        if self._give_up_at is not None and now >= self._give_up_at:
            changes = self._restart(now) if self.state is LinkState.UP else []
            self._give_up_at = None
            self.state = LinkState.DOWN
            self._journal.tell(
                "warning",
                f"neighbour {self._neighbour} does not answer: going on without it. Is its gateway running?",
            )
            return [*changes, LinkChange.GIVE_UP]
        if self._greet_at is not None and now >= self._greet_at:
            self._greet(now)
        return []

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return min((at for at in (self._give_up_at, self._greet_at) if at is not None), default=None)

    def receive(self, frame: Frame, now: float) -> tuple[list[LinkChange], Sequence[Message]]:
        """Take a frame of the ordinary stream: return what to do first, and the messages to obey then."""
        first = frame.messages[0] if frame.messages else None
        begins = isinstance(first, Hello) and first.asks
        changes: list[LinkChange] = []
        if self._is_stale(frame, begins=begins):
            if begins and self._heard is not None and frame.conversation.epoch < self._heard.epoch:
                text = f"{self._neighbour} greets from the past: has its clock gone back?"
                self._journal.refuse("frames_stale", "past", text)
            else:
                self._journal.counters.add("frames_stale")
            return [], ()
        if frame.conversation != self._heard:
            changes = self._follow(frame.conversation, now)
        elif frame.sequence > self._heard_sequence + 1 and not begins:
            return self._break_off(frame, now), ()
        self._heard_sequence = frame.sequence
        self._journal.counters.add("frames_received")
        for message in frame.messages:
            if isinstance(message, Hello):
                changes += self._greeted(message, now)
        return changes, frame.messages

    def receive_urgent(self, frame: Frame) -> Sequence[Message]:
        """Take a frame of the urgent stream, where order does not matter: return the messages to obey."""
        if frame.conversation != self._heard:
            self._journal.counters.add("frames_stale")
            return ()
        self._journal.counters.add("frames_received")
        return frame.messages

    def pack(self, messages: Sequence[Message], now: float) -> list[SendFrame]:
        """Return the frames to send: greetings first. Without an open link other messages are dropped, and counted."""
        if self.state is not LinkState.UP:
            lost = sum(isinstance(message, Publication) for message in messages)
            text = f"for {self._neighbour}, which is out of reach"
            self._journal.refuse("publications_dropped", "link down", text, lost)
            messages = ()
        greetings = () if self._greeting is None else (self._greeting,)
        self._greeting = None
        frames = []
        for batch in batches([*greetings, *messages]):
            frames.append(self._frame(batch, self._sequence, urgent=False))
            self._sequence += 1
        if messages and self._connected and self._greet_at is None:
            self._greet_at = now + HELLO_EVERY_S
        return frames

    def pack_urgent(self, messages: Sequence[Message]) -> list[SendFrame]:
        """Return the frames to send on the urgent stream; none while the link is not up."""
        frames = []
        for batch in batches(messages) if self.state is LinkState.UP else ():
            frames.append(self._frame(batch, self._urgent_sequence, urgent=True))
            self._urgent_sequence += 1
        return frames

    def check(self) -> None:
        """State the invariants: only a link that is up and connected may wait for nothing."""
        if self.state is LinkState.UP:
            assert self._heard is not None
            assert self._connected or self._give_up_at is not None
        elif self.state is LinkState.CONNECTING:
            assert self._give_up_at is not None

    def _is_stale(self, frame: Frame, *, begins: bool) -> bool:
        """Whether a frame is repeated, of a conversation that is over, or of one whose beginning we have missed."""
        if frame.conversation in (self._heard, self._over) and frame.sequence <= self._heard_sequence:
            return True
        if frame.conversation == self._heard:
            return False
        newest = self._heard or self._over
        return not begins or (newest is not None and frame.conversation < newest)

    def _follow(self, conversation: Conversation, now: float) -> list[LinkChange]:
        """The neighbour begins a conversation."""
        self._heard, self._over = conversation, None
        if self.state is not LinkState.UP:
            return [LinkChange.DOUBT]
        self._journal.refuse("link_resets", "restarted", f"neighbour {self._neighbour} begins anew")
        return [LinkChange.DOUBT, *self._restart(now)]

    def _break_off(self, frame: Frame, now: float) -> list[LinkChange]:
        """Frames are missing: follow the neighbour's conversation no longer, and begin anew ourselves."""
        missing = frame.sequence - self._heard_sequence - 1
        self._journal.refuse("link_resets", "missing", f"{missing} frames from {self._neighbour} are missing")
        self._heard, self._over, self._heard_sequence = None, self._heard, frame.sequence
        changes = self._restart(now)
        self._greet(now)
        return changes

    def _frame(self, messages: tuple[Message, ...], sequence: int, *, urgent: bool) -> SendFrame:
        self._journal.counters.add("frames_sent")
        frame = Frame(self._gateway, self._conversation, sequence, messages)
        return SendFrame(neighbour=self._neighbour, frame=encode(frame), urgent=urgent)

    def _greeted(self, hello: Hello, now: float) -> list[LinkChange]:
        if hello.heard == self._conversation:
            if self.state is LinkState.UP:
                if hello.asks:
                    self._greet(now)
                return []
            self.state = LinkState.UP
            self._give_up_at = None if self._connected else now + LINK_GRACE_S
            self._greet(now)
            self._journal.tell("info", f"link to {self._neighbour} is up")
            return [LinkChange.OPEN]
        changes: list[LinkChange] = []
        if self.state is LinkState.UP:
            self._journal.refuse("link_resets", "restarted", f"neighbour {self._neighbour} lost the thread")
            changes = self._restart(now)
        elif self.state is LinkState.DOWN:
            self.state = LinkState.CONNECTING
            self._give_up_at = now + LINK_GRACE_S
        self._greet(now)
        return changes

    def _restart(self, now: float) -> list[LinkChange]:
        """Begin a new conversation of ours; the other side must follow it before anything else is said."""
        was_up = self.state is LinkState.UP
        if self.state is not LinkState.CONNECTING:  # a wait that has begun is not prolonged
            self._give_up_at = now + LINK_GRACE_S
        self.state = LinkState.CONNECTING
        self._conversation = Conversation(self._conversation.epoch, self._conversation.number + 1)
        self._sequence = self._urgent_sequence = 0
        self._greeting = None
        return [LinkChange.CLOSE] if was_up else []

    def _greet(self, now: float) -> None:
        is_up = self.state is LinkState.UP
        self._greeting = Hello(self._heard, not is_up)
        self._greet_at = now + HELLO_EVERY_S if self._connected and not is_up else None
