"""What clients publish on our own broker: refused, or given its identity, until it is acknowledged.

Theory of operation. A publication of QoS 1 is acknowledged to the broker when it is taken care of, in the order in
which publications came. Until then the broker keeps it: it hands it over again, under the same packet id and marked so,
when the connection was lost, and also when we were. In the first case we know it by its packet id:

    sent again, and here        then
    not taken care of yet       it is the same; its new receipt replaces the old one
    taken care of               acknowledge it once more
    below the low-water mark    it is another one of the same packet id: it is new
    unknown, first fence away   it may have gone out in an earlier life of ours: route it as a repeat (see `core.seen`)
    unknown, first fence back   it was lost on its way to us: it is new

A fence is what we publish by the same connection (see `marks`): the broker sends everything again before it answers
one, so that behind our first nothing of an earlier life can come. Of a broker that does not repeat at once (see
`core.traits`) it may always; and one that repeats while the connection stands replaces the receipt, too.

The intake is held at the start until records are read and every link has said its wishes, or is given up, and later
while over INTAKE_WINDOW publications are not taken care of.
"""

from collections.abc import Sequence
from typing import Final

from mqloom.core.effects import Acknowledge, Effect, HoldIntake, PublishFence, ReleaseIntake
from mqloom.core.errors import TopicError
from mqloom.core.ids import GatewayId
from mqloom.core.limits import (
    INTAKE_WINDOW,
    PROPERTY_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    USER_PROPERTIES_MAX,
)
from mqloom.core.publication import Incoming, Publication
from mqloom.core.topics import by_heart, check_topic
from mqloom.core.traits import USUAL, Traits
from mqloom.gateway.echoes import Echoes
from mqloom.gateway.holdings import Progress
from mqloom.gateway.journal import Journal
from mqloom.gateway.marks import Marks
from mqloom.gateway.packets import ByContent, ByPacketId, Packets
from mqloom.gateway.receipts import Receipts

FIRST_FENCE: Final = 0
"""The number of the fence at our start; `Marks` counts its own from 1."""


class Intake:
    """The way in of one gateway."""

    def __init__(self, gateway: GatewayId, epoch: int, payload_bytes_max: int, journal: Journal) -> None:
        self._gateway = gateway
        self._epoch = epoch
        self._payload_bytes_max = payload_bytes_max
        self._journal = journal
        self.echoes = Echoes(journal)
        self._marks = Marks()
        self._receipts = Receipts()
        self._packets: Packets = ByPacketId()
        self._traits = USUAL
        self._receipt_of: dict[int, int] = {}  # by sequence, of those not taken care of
        self._sequence_of: dict[int, int] = {}  # by receipt, of those not acknowledged
        self._is_open = False
        self._has_session = False
        self._is_held = True
        self._repeats_come = True
        self._first_fence_is_away = False

    def know(self, traits: Traits) -> None:
        """Before anything comes: how our broker behaves."""
        self._traits = traits
        if not traits.keeps_packet_ids:
            self._packets = ByContent()
        self.echoes.know(traits)

    def open(self) -> None:
        """We know who may want what: take in."""
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether we know who may want what."""
        return self._is_open

    def take(self, incoming: Sequence[Incoming]) -> list[Publication]:
        """Return the publications that are new here."""
        publications = []
        low_water = self.low_water  # of what is kept: none of that is done with here
        for each in incoming:
            if each.receipt:
                self._receipts.came(each.receipt)
                if each.again and self._take_again(each):
                    continue
            if not each.is_data or (not each.replayed and self.echoes.take(each)):
                self._receipts.settle(each.receipt)
            elif self._admits(each):
                publications.append(self._number(each, low_water))
            else:
                self._receipts.settle(each.receipt)
        self._journal.counters.add("publications_in", amount=len(publications))
        return publications

    def met(self, sequence: int) -> None:
        """A publication is taken care of."""
        receipt = self._receipt_of.pop(sequence)
        if receipt in self._sequence_of:
            self._receipts.settle(receipt)
        else:  # of an earlier connection: it comes again, or the broker has forgotten it
            self._marks.acknowledge([sequence])

    def opened(self, now: float, *, echoes: bool, resumed: bool) -> None:
        """The connection stands; whether the broker hands back what we republish, and whether it kept our session."""
        if self._has_session and not resumed:
            text = (
                f"the broker {self._gateway} does not know our session any more: it has lost its store, or the session "
                "was deleted. What it alone held is lost: publications that we had not read, and with the store what "
                "was parked there, and what its clients had not got. Does it keep sessions on disk?"
            )
            self._journal.refuse("broker_sessions_lost", "intake", text)
        self._has_session = True
        self.echoes.opened(now, echoes=echoes, resumed=resumed)

    def lost(self) -> None:
        """The connection broke: what was not acknowledged comes again."""
        self._first_fence_is_away = False
        self.echoes.lost()
        self._packets.lost()
        self._receipts.void()
        self._sequence_of.clear()
        self._marks.void()

    def fenced(self, number: int) -> None:
        """A fence has passed."""
        if number == FIRST_FENCE:
            self._repeats_come = not self._traits.repeats_at_once
        else:
            self._marks.fenced(number)

    def expire(self, now: float) -> None:
        """Expect no longer what should have come back by now, unless nothing could."""
        if not self._is_held:
            self.echoes.expire(now)

    def drain(self, now: float) -> list[Effect]:
        """Return the acknowledgements whose turn has come, then what else is to be done."""
        effects: list[Effect] = []
        receipts = self._receipts.drain()
        if receipts:
            self._marks.acknowledge(self._sequence_of.pop(each) for each in receipts if each in self._sequence_of)
            effects.append(Acknowledge(receipts=receipts))
        if self._is_open and self._repeats_come and not self._first_fence_is_away:
            self._first_fence_is_away = True
            effects.append(PublishFence(number=FIRST_FENCE))
        fence = self._marks.fence(now)
        if fence is not None:
            effects.append(PublishFence(number=fence))
        if self._is_open and not self._is_held and len(self._receipts) > INTAKE_WINDOW:
            self._is_held = True
            effects.append(HoldIntake())
        elif self._is_open and self._is_held and len(self._receipts) <= INTAKE_WINDOW // 2:
            self._is_held = False
            self.echoes.refresh(now)
            effects.append(ReleaseIntake())
        return effects

    @property
    def deadline(self) -> float | None:
        """When `drain` must be called."""
        return self._marks.deadline

    @property
    def low_water(self) -> int:
        """The smallest sequence of ours that is not done with."""
        return self._marks.low_water

    @property
    def progress(self) -> Progress:
        """The oldest of our publications that is not taken care of, and the next one's number."""
        return Progress(next(iter(self._receipt_of), None), self._marks.upcoming)

    def __len__(self) -> int:
        """How many publications are not acknowledged."""
        return len(self._receipts)

    def check(self) -> None:
        """State the invariants."""
        self._marks.check()
        self.echoes.check()
        assert len(self._sequence_of) <= len(self._receipts)

    def _take_again(self, incoming: Incoming) -> bool:
        """Whether it was here in this life already."""
        sequence = self._packets.find(incoming, self._marks.low_water)
        if sequence is None:
            return False
        self._journal.counters.add("duplicates")
        self._marks.reopen(sequence)
        self._sequence_of[incoming.receipt] = sequence
        if sequence in self._receipt_of:
            self._receipts.withdraw(self._receipt_of[sequence])  # some brokers do not wait for the connection to break
            self._sequence_of.pop(self._receipt_of[sequence], None)
            self._receipt_of[sequence] = incoming.receipt
        else:
            self._receipts.settle(incoming.receipt)
        return True

    def _number(self, incoming: Incoming, low_water: int) -> Publication:
        is_kept = incoming.receipt != 0
        sequence = self._marks.next(is_kept=is_kept)
        packet = 0
        if is_kept:
            packet = self._packets.note(incoming, sequence, low_water)
            self._receipt_of[sequence] = incoming.receipt
            self._sequence_of[incoming.receipt] = sequence
        return Publication(
            self._gateway,
            self._epoch,
            sequence,
            low_water if is_kept else self._marks.low_water,  # of QoS 0: done with at once
            0,
            incoming.topic,
            incoming.payload,
            min(incoming.qos, 1) if is_kept else 0,
            incoming.retain,
            incoming.content_type,
            incoming.user_properties,
            packet,
            is_kept and incoming.again and self._repeats_come,
        )

    def _admits(self, incoming: Incoming) -> bool:
        problem = "payload too large" if len(incoming.payload) > self._payload_bytes_max else _problem(incoming)
        if problem is not None:
            text = f"a publication on {incoming.topic[:100]!r} stays on its broker"
            self._journal.refuse("publications_refused", problem, text)
        return problem is None


def _problem(incoming: Incoming) -> str | None:
    """Return why a publication is not taken in, or None."""
    if incoming.replayed:
        return "retained replay"  # the broker's memory, not somebody publishing now
    if len(incoming.topic) > TOPIC_LENGTH_MAX:
        return "topic too long"
    if not _is_topic(incoming.topic):  # some brokers pass what MQTT forbids, and no neighbour would read it
        return "topic invalid"
    if incoming.user_properties and (
        len(incoming.user_properties) > USER_PROPERTIES_MAX
        or any(len(text) > PROPERTY_LENGTH_MAX for pair in incoming.user_properties for text in pair)
    ):
        return "too many properties"
    return "too many properties" if len(incoming.content_type) > PROPERTY_LENGTH_MAX else None


@by_heart(4_096)  # most topics come again
def _is_topic(topic: str) -> bool:
    try:
        check_topic(topic)
    except TopicError:
        return False
    return True
