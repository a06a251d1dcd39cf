"""Soft links: one-way conversations with gateways that are no neighbours, for publications alone (paper 001).

Theory of operation. We write frames to the other gateway's broker, and read its acknowledgements there; it needs no
connection to ours. Frames, acknowledgements and custody are those of a primary link. But behind a soft link there is
always the primary network: what it cannot take, or has not taken care of when it breaks, is given back and goes
another way, so that nothing is ever parked for a soft link. What then comes twice is dropped where it does.

    state      event                               new state   and
    OPENING    connected                           GREETING    greet, again every HELLO_EVERY_S
    GREETING   acknowledged                        UP          it stands: the overlay may use it
    UP         connection lost                     OPENING     it does not stand; give back, new conversation
    UP         frames not come for SILENCE_S,      GREETING    the same
               or the receiver does not know us
    UP         too much waits                      UP          it does not stand until a quarter is left; give back that
    any        to be closed                        CLOSING     it does not stand; what waits is given back
    CLOSING    all taken care of, or lost,         gone        give back
               or after CLOSE_S
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from mqloom.core.effects import CloseLink, Effect, OpenLink, SendFrame
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import FLOW_QUEUE_MAX, HELLO_EVERY_S, SOFT_LINKS_MAX
from mqloom.core.messages import Hello
from mqloom.core.wire import Ack, Frame, batches, encode
from mqloom.gateway.departures import Departures, Entry
from mqloom.gateway.interfaces import LinkStood
from mqloom.gateway.journal import Journal

CLOSE_S: Final = 10.0
"""How long a link that is to be closed may take to finish."""


class SoftState(Enum):
    """How a soft link stands; the table on top of the file has the ways between them."""

    OPENING = auto()
    GREETING = auto()
    UP = auto()
    CLOSING = auto()


class SoftLink:
    """Our side of a conversation with one gateway that is no neighbour."""

    def __init__(
        self, gateway: GatewayId, peer: GatewayId, conversation: Conversation, posted: int, journal: Journal
    ) -> None:
        self._gateway = gateway
        self._peer = peer
        self._conversation = conversation
        self._journal = journal
        self.state = SoftState.OPENING
        self.stands = False
        """Whether the overlay may use it."""
        self.returned: list[Entry] = []
        """What must go another way."""
        self._connected = False
        self._departures = Departures()
        self._queue: deque[Entry] = deque()
        self._posted = posted
        self._open: dict[int, int] = {}  # numbers of entries that are not taken care of, by the entry's id
        self._greet_at: float | None = None
        self._asks = False
        self._close_at: float | None = None

    # ---- what happens --------------------------------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """We can write to the other's broker (again)."""
        self._connected = True
        if self.state is SoftState.OPENING:
            self.state = SoftState.GREETING
            self._greet_at = now
        elif self.state is SoftState.UP:
            self._departures.connected(now)

    def met(self, now: float) -> None:
        """The other is in a new life, and hears us: of what was said before it knows nothing."""
        if self.state is SoftState.GREETING:
            self._greet_at = now
        elif self.state is SoftState.UP:
            self._not_known(now)

    def lost(self) -> None:
        """We cannot write there, or its gateway is gone."""
        self._connected = False
        self._greet_at = None
        if self.state is not SoftState.CLOSING:
            self.state = SoftState.OPENING
        self._begin_anew()

    def acknowledged(self, ack: Ack, now: float) -> Sequence[Entry]:
        """Take an acknowledgement: return what the other has taken care of."""
        if ack.conversation != self._conversation:
            self._journal.counters.add("frames_stale")
            return ()
        if not ack.received:
            self._not_known(now)
            return ()
        if self.state is SoftState.GREETING:
            self.state = SoftState.UP
            self.stands = True
            self._greet_at = None
        taken = self._departures.acknowledged(ack, now)
        for entry in taken:
            del self._open[id(entry)]
        self._stand_again()
        return taken

    def post(self, entry: Entry) -> None:
        """A publication is to go there, behind all before it; if too many wait, they are given back."""
        self._queue.append(entry)
        if entry.duty is not None:
            self._open[id(entry)] = self._posted
            self._posted += 1
        if len(self._queue) > FLOW_QUEUE_MAX:
            self._journal.refuse("links_crowded", "soft", f"over {FLOW_QUEUE_MAX} publications wait for {self._peer}")
            self._give_back_queue()

    def wake(self, now: float) -> None:
        """Do what the time has come for."""
        if self._departures.are_stalled(now):
            self._not_known(now)
        elif self._departures.are_quiet(now):
            self._asks = True

    def close(self, now: float) -> None:
        """Finish, and take nothing new."""
        if self.state is not SoftState.CLOSING:
            self.state = SoftState.CLOSING
            self._greet_at = None
            self._close_at = now + CLOSE_S
            self._give_back_queue()

    def is_over(self, now: float) -> bool:
        """Whether a link that is to be closed has nothing to wait for any more."""
        if self.state is not SoftState.CLOSING:
            return False
        is_done = not self._departures.held or not self._connected
        return is_done or (self._close_at is not None and now >= self._close_at)

    def end(self) -> None:
        """Give back everything."""
        self._begin_anew()

    @property
    def deadline(self) -> float | None:
        """When `wake` and `pack` must be called."""
        departures = self._departures.deadline if self._connected and self.state is not SoftState.OPENING else None
        times = (self._greet_at, self._close_at, departures)
        return min((at for at in times if at is not None), default=None)

    # ---- what goes out -------------------------------------------------------------------------------------------

    def pack(self, now: float) -> list[SendFrame]:
        """Return the frames to send."""
        if not self._connected:
            return []
        if self.state is SoftState.GREETING:
            if self._greet_at is None or now < self._greet_at:
                return []
            self._greet_at = now + HELLO_EVERY_S
            return [self._send(Frame(self._gateway, self._conversation, 0, (Hello(None, True),)))]
        frames = []
        for data in self._departures.again(now):
            self._journal.counters.add("frames_resent")
            frames.append(SendFrame(neighbour=self._peer, frame=data))
        asking = [Hello(None, False)] if self._asks else []
        entries = self._take() if self._departures.may_leave(0 if asking else len(self._queue), now) else []
        self._asks = False
        duties = {id(entry.message): entry for entry in entries if entry.duty is not None}
        for batch in batches([*asking, *(entry.message for entry in entries)]):
            effect = self._send(Frame(self._gateway, self._conversation, self._departures.sequence, batch))
            self._departures.sent(
                effect.frame, len(batch), [duties[id(each)] for each in batch if id(each) in duties], now
            )
            frames.append(effect)
        self._stand_again()
        return frames

    def _take(self) -> list[Entry]:
        entries: list[Entry] = []
        room = self._departures.room
        while self._queue and (room > 0 or self._queue[0].duty is None):
            entry = self._queue.popleft()
            room -= entry.duty is not None
            entries.append(entry)
        self._journal.counters.add("publications_forwarded", amount=len(entries))
        self._journal.counters.add("publications_softly", amount=len(entries))
        return entries

    def _send(self, frame: Frame) -> SendFrame:
        self._journal.counters.add("frames_sent")
        return SendFrame(neighbour=self._peer, frame=encode(frame))

    # ---- what is held --------------------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The number of a conversation that a later link there may begin with; its marks go on from `mark`."""
        return self._conversation.number

    @property
    def held(self) -> int:
        """How many publications are not taken care of."""
        return len(self._open)

    @property
    def mark(self) -> int:
        """How many publications have been posted."""
        return self._posted

    def has_passed(self, mark: int) -> bool:
        """Whether all that were posted before a mark are taken care of, or given back."""
        return next(iter(self._open.values()), mark) >= mark

    def check(self) -> None:
        """State the invariants."""
        self._departures.check()
        waiting = sum(entry.duty is not None for entry in self._queue)
        assert len(self._open) == waiting + self._departures.held
        assert not self.stands or self.state is SoftState.UP
        assert list(self._open.values()) == sorted(self._open.values())

    def _not_known(self, now: float) -> None:
        """The other does not hear us: begin anew."""
        self._begin_anew()
        if self.state is SoftState.UP:
            self.state = SoftState.GREETING
            self._greet_at = now

    def _begin_anew(self) -> None:
        self.stands = False
        self._asks = False
        self._departures.end()
        for entry in self._departures.take_back():
            del self._open[id(entry)]
            self.returned.append(entry)
        self._give_back_queue()
        self._conversation = Conversation(self._conversation.epoch, self._conversation.number + 1)

    def _stand_again(self) -> None:
        """After too much has waited; what was given back may have been all there was, and nobody acknowledges that."""
        if self.state is SoftState.UP and self.held < FLOW_QUEUE_MAX // 4:
            self.stands = True

    def _give_back_queue(self) -> None:
        self.stands = False
        for entry in self._queue:
            self._open.pop(id(entry), None)
        self.returned += self._queue
        self._queue.clear()


class SoftLinks:
    """All soft links of one gateway; an event that touches none costs nothing, for only those stirred are tended."""

    def __init__(self, gateway: GatewayId, epoch: int, journal: Journal) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._journal = journal
        self._links: dict[GatewayId, SoftLink] = {}
        self._stirred: dict[GatewayId, None] = {}  # something has happened to these since the last `drain`
        self._reopen: set[GatewayId] = set()  # while an earlier link there still finishes
        self._told: set[GatewayId] = set()
        self._returned: list[tuple[GatewayId, Entry]] = []
        self.orders: list[Effect] = []
        """Connections to be opened and closed, those of primary links among them: in the order of what happened."""
        self._numbers: dict[GatewayId, tuple[int, int]] = {}  # of an earlier link: its next conversation, its mark
        self._next_deadline: float | None = None

    def open(self, peer: GatewayId) -> None:
        """Open a link; one that is there stays, one that is being closed is opened again when it is."""
        link = self._links.get(peer)
        if link is not None:
            if link.state is SoftState.CLOSING:
                self._reopen.add(peer)
            return
        if len(self._links) >= SOFT_LINKS_MAX:
            self._journal.refuse("links_refused", "many", f"a soft link to {peer} past {SOFT_LINKS_MAX}")
            return
        number, posted = self._numbers.get(peer, (0, 0))
        self._links[peer] = SoftLink(self._gateway, peer, Conversation(self._epoch, number), posted, self._journal)
        self.orders.append(OpenLink(neighbour=peer))
        self._stirred[peer] = None

    def close(self, peer: GatewayId, now: float) -> None:
        """Let a link finish, and close it."""
        self._reopen.discard(peer)
        if peer in self._links:
            self._stir(peer).close(now)

    def connected(self, peer: GatewayId, now: float) -> None:
        """We can write to a gateway's broker."""
        if peer in self._links:
            self._stir(peer).connected(now)

    def met(self, peer: GatewayId, now: float) -> None:
        """A gateway is in a new life, and hears us."""
        if peer in self._links:
            self._stir(peer).met(now)

    def lost(self, peer: GatewayId) -> None:
        """We cannot write to a gateway's broker any more, or it is gone."""
        if peer in self._links:
            self._stir(peer).lost()

    def acknowledged(self, peer: GatewayId, ack: Ack, now: float) -> Sequence[Entry]:
        """Take an acknowledgement: return what has been taken care of."""
        return self._stir(peer).acknowledged(ack, now) if peer in self._links else ()

    def post(self, peer: GatewayId, entry: Entry) -> None:
        """A publication is to go there."""
        self._stir(peer).post(entry)

    def wake(self, now: float) -> None:
        """Do what the time has come for."""
        for peer, link in self._links.items():
            if link.deadline is not None and now >= link.deadline:
                self._stir(peer).wake(now)

    @property
    def deadline(self) -> float | None:
        """When `wake`, `sweep` and `drain` must be called."""
        return self._next_deadline

    @property
    def are_stirred(self) -> bool:
        """Whether anything has happened since the last `drain`: if not, there is nothing to tend."""
        return bool(self._stirred)

    def stood(self) -> list[LinkStood]:
        """Return which links have come to stand, or do not any more, since the last call."""
        changed = sorted(peer for peer in self._stirred if self._stands(peer) != (peer in self._told))
        self._told.symmetric_difference_update(changed)
        ups = [LinkStood(peer, up=True) for peer in changed if peer in self._told]
        return ups + [LinkStood(peer, up=False) for peer in changed if peer not in self._told]

    @property
    def have_returned(self) -> bool:
        """Whether anything must go another way: see `returned`."""
        return bool(self._returned) or any(peer in self._links and self._links[peer].returned for peer in self._stirred)

    def returned(self) -> list[tuple[GatewayId, Entry]]:
        """Return what must go another way, since the last call, and to whom it was to go."""
        for peer in self._stirred:
            if peer in self._links:
                self._take_returned(peer, self._links[peer])
        returned, self._returned = self._returned, []
        return returned

    def sweep(self, now: float) -> None:
        """End the links that have finished."""
        for peer in [peer for peer in self._stirred if peer in self._links and self._links[peer].is_over(now)]:
            link = self._links.pop(peer)
            link.end()
            self._take_returned(peer, link)
            self._numbers[peer] = link.next_number, link.mark
            self.orders.append(CloseLink(neighbour=peer))
            if peer in self._reopen:
                self._reopen.discard(peer)
                self.open(peer)

    def drain(self, now: float) -> list[Effect]:
        """Return what is to be done."""
        effects, self.orders = self.orders, []
        if not self._stirred:
            return effects
        stirred, self._stirred = self._stirred, {}
        for peer in stirred:
            if peer in self._links:
                effects += self._links[peer].pack(now)
            if self._stands(peer) != (peer in self._told):  # it stands again: to be told with the next event
                self._stirred[peer] = None
        times = (link.deadline for link in self._links.values())
        self._next_deadline = min((at for at in times if at is not None), default=None)
        return effects

    @property
    def are_closing(self) -> bool:
        """Whether a link that is to be closed still finishes, or has given back what has not gone another way."""
        return self.have_returned or any(link.state is SoftState.CLOSING for link in self._links.values())

    def next_number(self, peer: GatewayId) -> int:
        """Return the number of a conversation with a gateway that is larger than any before."""
        number = self._numbers.get(peer, (0, 0))[0]
        return max(number, self._links[peer].next_number + 1) if peer in self._links else number

    def begin_at(self, peer: GatewayId, number: int) -> None:
        """Let the next conversation with a gateway that was a neighbour have this number."""
        self._numbers[peer] = number, self._numbers.get(peer, (0, 0))[1]

    def marks(self) -> dict[GatewayId, int]:
        """Return where the links are that hold something: see `have_passed`."""
        return {peer: link.mark for peer, link in self._links.items() if link.held}

    def have_passed(self, marks: dict[GatewayId, int]) -> bool:
        """Whether all that was posted before these marks has been taken care of, or given back and gone another way."""
        if self.have_returned:
            return False
        return all(peer not in self._links or self._links[peer].has_passed(mark) for peer, mark in marks.items())

    def holdings(self) -> dict[GatewayId, int]:
        """Return how many publications each link holds."""
        return {peer: link.held for peer, link in self._links.items()}

    def states(self) -> dict[GatewayId, SoftState]:
        """Return how each link stands."""
        return {peer: link.state for peer, link in self._links.items()}

    def check(self) -> None:
        """State the invariants; of those not stirred, that nothing is left to do."""
        for peer, link in self._links.items():
            link.check()
            assert peer in self._stirred or not link.returned
            assert peer in self._stirred or link.stands == (peer in self._told)
        assert self._told <= {*self._links, *self._stirred}

    def _stir(self, peer: GatewayId) -> SoftLink:
        self._stirred[peer] = None
        return self._links[peer]

    def _stands(self, peer: GatewayId) -> bool:
        return peer in self._links and self._links[peer].stands

    def _take_returned(self, peer: GatewayId, link: SoftLink) -> None:
        self._returned += [(peer, entry) for entry in link.returned]
        link.returned = []
