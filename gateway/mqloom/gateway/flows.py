"""What waits for one neighbour: in memory for a short while, on our own broker for as long as it takes.

Theory of operation. While the link is up, publications go out as far as its window allows; what is too much for the
moment waits in a queue. When the link has been down for a while, or the queue is too long, publications of QoS 1 are
parked: published on our own broker on a topic that only we read, in a session of its own. The broker's acknowledgement
then counts as the neighbour's, so that whoever waits for us waits no longer.

What is parked comes back, and goes out, before anything newer: receivers rely on the order. So publications go on into
the park until it is empty. To see that we write a marker behind what is parked. When it comes back and nothing was
parked behind it, the park is empty. If little was, newer ones are held in the queue, and another marker is written.

    mode    publications           until
    HOLD    wait in the queue      the marker is back and nothing is behind it: DIRECT; the queue is too long: PARK
    DIRECT  go out                 the queue is too long, or the link is given up: PARK
    PARK    go into the park       the link is up, the marker is back, and little is behind it: HOLD

A gateway begins with HOLD, because a former life of it may have parked something. Everything in the park is given back
by the broker in order, and again after a break; what was sent twice is dropped by its receiver. What somebody writes
into the park once more, having read it there, is refused (`taken_frames`).
Publications of QoS 0 are never parked, but dropped and counted; so are waves, which count as lost with the link.

While a primary link is moved, what is for the old neighbour is held in the queue. From when it is decided that another
neighbour gets it (`pin`), none of it is parked: the park of the old one is about to go. The windows of those from whom
publications of QoS 1 come are its bound, and those of QoS 0 are dropped past FLOW_QUEUE_MAX.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from mqloom.core import layout
from mqloom.core.effects import AcknowledgeParked, ClosePark, Effect, OpenPark, PublishLocally
from mqloom.core.errors import FrameError
from mqloom.core.ids import Conversation, GatewayId
from mqloom.core.limits import FLOW_QUEUE_MAX, MARKER_S
from mqloom.core.publication import Publication
from mqloom.core.wire import Frame, batches, decode, encode
from mqloom.gateway.deliveries import Deliveries
from mqloom.gateway.departures import Entry
from mqloom.gateway.holdings import Parking
from mqloom.gateway.journal import Journal
from mqloom.gateway.receipts import Receipts
from mqloom.gateway.taken_frames import TakenFrames

LITTLE: Final = FLOW_QUEUE_MAX // 2
"""So many publications behind the marker are little."""


class Mode(Enum):
    """Where publications for a neighbour go; the table on top of the file has the ways between them."""

    HOLD = auto()
    DIRECT = auto()
    PARK = auto()


class Flow:
    """What waits for one neighbour."""

    def __init__(
        self,
        gateway: GatewayId,
        neighbour: GatewayId,
        epoch: int,
        deliveries: Deliveries,
        journal: Journal,
        numbered: int = 0,
    ) -> None:
        self._gateway = gateway
        self._neighbour = neighbour
        self._epoch = epoch
        self._deliveries = deliveries
        self._journal = journal
        self.mode = Mode.HOLD
        self._queue: deque[Entry] = deque()
        self._from_park: deque[Entry] = deque()
        self._receipts = Receipts()
        self._taken = TakenFrames(epoch, numbered)
        self.comes_in_order = True
        """Whether our broker hands what it sends again over at once, and in order."""
        self._is_open = False
        self._marker = 0
        self._behind_marker = 0
        self._marker_until: float | None = None
        self._effects: list[Effect] = []
        self._before_hold: int | None = None
        self._is_pinned = False

    @property
    def is_clear(self) -> bool:
        """Whether nothing is parked, as far as we know, and all goes out directly."""
        return self.mode is Mode.DIRECT and not self._from_park

    def post(self, entry: Entry) -> None:
        """Something is to go to the neighbour, behind all before it."""
        self._queue.append(entry)

    def post_again(self, entries: Sequence[Entry]) -> None:
        """What was sent in vain goes first; but what is in the park still comes from there."""
        self._queue.extendleft(entry for entry in reversed(entries) if not entry.is_parked)

    def hold(self) -> None:
        """Let out what is here, and nothing that comes later, until `release`."""
        self._before_hold = len(self._queue)

    def pin(self) -> None:
        """Park nothing of what is held, whatever becomes of the link: somebody else gets it."""
        self._is_pinned = True

    def release(self) -> None:
        """Let everything out again."""
        self._before_hold = None

    def take_all(self) -> list[Entry]:
        """Give away everything that waits in memory."""
        entries = [*self._from_park, *self._queue]
        self._from_park.clear()
        self._queue.clear()
        self._before_hold = None
        self._is_pinned = False
        return entries

    def link_up(self, now: float) -> None:
        """The neighbour listens: see what is in the park."""
        self._is_open = True
        self._effects.append(OpenPark(neighbour=self._neighbour))
        self._mark(now)
        if self.mode is Mode.DIRECT:
            self.mode = Mode.HOLD

    def link_lost(self) -> None:
        """The neighbour does not listen: the park keeps what it has."""
        if self._is_open:
            self._is_open = False
            self._effects.append(ClosePark(neighbour=self._neighbour))
        self._from_park.clear()
        self._receipts.void()
        self._taken.void()
        self._marker_until = None

    def give_up(self) -> None:
        """The neighbour stays away: park everything, unless somebody else gets it."""
        if not self._is_pinned:
            self.mode = Mode.PARK

    def parked(self, data: bytes, receipt: int, now: float) -> Sequence[Publication]:
        """Take what the broker gives back: return its publications, none of a marker."""
        if not self._is_open:
            return ()  # it comes again when it is asked for
        self._receipts.came(receipt)
        if self._marker_until is not None:
            self._marker_until = now + MARKER_S
        try:
            frame = decode(data)
        except FrameError as error:
            self._journal.refuse("frames_refused", "park", f"parked for {self._neighbour}: {error.problem}")
            self._receipts.settle(receipt)
            return ()
        how = self._taken.take(frame.conversation.epoch, frame.sequence, data, receipt, now)
        if how != "new":
            if how == "done" or self.comes_in_order:  # else the broker may send again what it has sent
                text = f"parked for {self._neighbour}: it has come out of the park before"
                self._journal.refuse("frames_refused", "replayed", text)
            if how == "done":
                self._receipts.settle(receipt)
            return ()
        publications = [message for message in frame.messages if isinstance(message, Publication) and message.qos]
        if not publications:
            self.settle(receipt)
        if not frame.messages and frame.conversation == (self._epoch, self._marker):
            self._marker_came(now)
        return publications

    def post_parked(self, entries: Iterable[Entry]) -> None:
        """What came out of the park goes out before all else."""
        self._from_park.extend(entries)

    def settle(self, receipt: int) -> None:
        """A message of the park is taken care of."""
        for each in self._taken.settle(receipt):
            self._receipts.settle(each)

    def wake(self, now: float) -> None:
        """Write the marker again, if it does not come back."""
        if self._marker_until is not None and now >= self._marker_until:
            self._mark(now)

    @property
    def deadline(self) -> float | None:
        """When `wake` must be called."""
        return self._marker_until

    @property
    def waiting(self) -> int:
        """How much waits in memory, whether it may go out or not."""
        return len(self._queue) + len(self._from_park)

    def take(self, room: int) -> list[Entry]:
        """Return what goes out now, if the link has so much room; QoS 0 and waves take none."""
        taken: list[Entry] = []
        for queue in (self._from_park, self._queue):
            if queue is self._queue and (self.mode is not Mode.DIRECT or self._from_park):
                break
            while queue and (room > 0 or queue[0].duty is None):
                if queue is self._queue and self._before_hold is not None:
                    if not self._before_hold:
                        break
                    self._before_hold -= 1
                entry = queue.popleft()
                room -= entry.duty is not None
                taken.append(entry)
        return taken

    def drain(self, now: float) -> list[Effect]:
        """Park what must be, and return what is to be done."""
        if self._is_pinned and len(self._queue) > FLOW_QUEUE_MAX:
            self._drop_unkept()
        elif self.mode is not Mode.PARK and len(self._queue) > FLOW_QUEUE_MAX:
            self.mode = Mode.PARK
            text = f"over {FLOW_QUEUE_MAX} publications wait for {self._neighbour}: parking them on our broker"
            self._journal.refuse("flows_parked", "queue", text)
        if self.mode is Mode.PARK and self._queue:
            self._park()
        if self.mode is Mode.PARK and self._is_open and self._marker_until is None:
            self._mark(now)
        receipts = self._receipts.drain()
        if receipts:
            self._effects.append(AcknowledgeParked(neighbour=self._neighbour, receipts=receipts))
        effects, self._effects = self._effects, []
        return effects

    @property
    def held(self) -> int:
        """How many publications of QoS 1 wait here."""
        return sum(entry.duty is not None for queue in (self._queue, self._from_park) for entry in queue)

    @property
    def numbered(self) -> int:
        """The highest number that anything in the park has had in this epoch."""
        return self._taken.numbered

    @property
    def parking(self) -> Parking:
        """What is known of the park."""
        return Parking(not self.is_clear, self._behind_marker)

    def check(self) -> None:
        """State the invariants: nothing comes out of a closed park, nothing waits where all is parked."""
        self._taken.check()
        assert self._is_open or not (self._from_park or len(self._receipts))
        assert self.mode is not Mode.PARK or not self._queue
        assert self._is_pinned or len(self._queue) <= FLOW_QUEUE_MAX

    def _drop_unkept(self) -> list[Entry]:
        """Drop what is of QoS 0, and waves; return the others."""
        kept = [entry for entry in self._queue if entry.duty is not None]
        lost = sum(entry.duty is None and isinstance(entry.message, Publication) for entry in self._queue)
        self._queue = deque(kept)
        text = f"of QoS 0 for {self._neighbour}, which is out of reach"
        self._journal.refuse("publications_dropped", "link down", text, lost)
        return kept

    def _park(self) -> None:
        kept = self._drop_unkept()
        self._queue.clear()
        self._journal.counters.add("publications_parked", amount=len(kept))
        self._behind_marker += len(kept)
        start = 0
        for batch in batches([entry.message for entry in kept]):
            part = kept[start : start + len(batch)]
            start += len(batch)
            frame = Frame(self._gateway, Conversation(self._epoch, 0), self._taken.next_number(), batch)
            duties = [entry.duty for entry in part if entry.duty is not None]
            self._deliveries.publish(self._message(frame), duties, is_vital=True)
            for duty in duties:  # the claim of the neighbour is now one of our broker
                self._deliveries.met(duty)

    def _mark(self, now: float) -> None:
        self._marker += 1
        self._behind_marker = 0
        self._marker_until = now + MARKER_S
        marker = Frame(self._gateway, Conversation(self._epoch, self._marker), self._taken.next_number(), ())
        self._deliveries.publish(self._message(marker), (), is_vital=True)

    def _marker_came(self, now: float) -> None:
        self._taken.marked(now, comes_in_order=self.comes_in_order)
        self._marker_until = None
        if not self._behind_marker:
            self.mode = Mode.DIRECT
            return
        if self._behind_marker <= LITTLE:
            self.mode = Mode.HOLD
        self._mark(now)

    def _message(self, frame: Frame) -> PublishLocally:
        return PublishLocally(topic=layout.park(self._gateway, self._neighbour), payload=encode(frame), qos=1)
