"""One flow with a broker played by hand, which keeps what is parked until it is acknowledged: for tests."""

from collections.abc import Sequence
from typing import Final

from mqloom.core import layout
from mqloom.core.counters import Counters
from mqloom.core.effects import AcknowledgeParked, ClosePark, Effect, OpenPark, PublishLocally
from mqloom.core.ids import GatewayId
from mqloom.core.messages import Flush
from mqloom.core.publication import Publication
from mqloom.gateway.custody import Custody, FromBroker, FromPark, Source
from mqloom.gateway.deliveries import Deliveries
from mqloom.gateway.departures import Entry
from mqloom.gateway.flows import Flow, Mode
from mqloom.gateway.journal import Journal

US, THEM = GatewayId("US"), GatewayId("THEM")
LARGE: Final = 1_000_000
"""Room for everything."""


class FlowGate:
    """One flow, a broker that answers at once unless `answers` is false, and a neighbour that is told what to do."""

    def __init__(self) -> None:
        self.now = 0.0
        self.counters = Counters()
        self.custody = Custody()
        journal = Journal(self.counters)
        self.deliveries = Deliveries(US, self.custody, journal)
        self.flow = Flow(US, THEM, 1, self.deliveries, journal)
        self.park: list[tuple[int, bytes]] = []  # a number of its own for each message
        self.given = 0  # how many of them have been given back since the park was opened
        self.is_open = False
        self.numbers = 0
        self.receipts: dict[int, int] = {}
        self.receipt = 0
        self.posted = 0
        self.told: list[Source] = []
        self.answers = True
        self.unanswered: list[int] = []

    def post(self, count: int = 1, qos: int = 1) -> list[int]:
        """Post publications; return their numbers."""
        numbers = []
        for _ in range(count):
            numbers.append(self.posted)
            publication = Publication(US, 1, self.posted, 0, 1, "t", b"", qos)
            duty = self.custody.begin(FromBroker(self.posted), publication.id) if qos else None
            self.flow.post(Entry(publication, duty))
            self.posted += 1
        self.drain()
        return numbers

    def post_wave(self) -> None:
        """Post a wave."""
        self.flow.post(Entry(Flush(US, 1, 0), None))
        self.drain()

    def drain(self) -> list[Effect]:
        """Carry out what the flow asks for; return that."""
        effects: list[Effect] = self.flow.drain(self.now)
        for source in self.custody.met():
            self.told.append(source)
            if isinstance(source, FromPark):
                self.flow.settle(source.receipt)
        effects += self.flow.drain(self.now)
        effects += self.deliveries.drain()
        for effect in effects:
            if isinstance(effect, PublishLocally):
                assert (effect.topic, effect.qos) == (layout.park(US, THEM), 1)
                self.numbers += 1
                self.park.append((self.numbers, effect.payload))
                self.unanswered.append(effect.number)
            elif isinstance(effect, OpenPark):
                assert not self.is_open
                self.is_open, self.given = True, 0
            elif isinstance(effect, ClosePark):
                assert self.is_open
                self.is_open = False
            else:
                assert isinstance(effect, AcknowledgeParked)
                gone = [self.receipts.pop(receipt) for receipt in effect.receipts if receipt in self.receipts]
                assert gone == [number for number, _ in self.park[: len(gone)]]  # in its order
                del self.park[: len(gone)]
                self.given -= len(gone)
        self.flow.check()
        if self.answers:
            self.answer()
        return effects

    def answer(self) -> None:
        """Let the broker acknowledge what was published."""
        numbers, self.unanswered = self.unanswered, []
        if numbers:
            self.deliveries.published(numbers)
            self.drain()

    def give_back(self, count: int = LARGE) -> list[int]:
        """Let the broker give back so many messages of the park; return the numbers of the publications in them."""
        numbers = []
        for number, data in self.park[self.given :][:count] if self.is_open else []:
            self.given += 1
            self.receipt += 1
            self.receipts[self.receipt] = number
            publications = self.flow.parked(data, self.receipt, self.now)
            if publications:
                duty = self.custody.begin(FromPark(THEM, self.receipt))
                duty.claims += len(publications)
                self.flow.post_parked([Entry(publication, duty, is_parked=True) for publication in publications])
                self.custody.meet(duty)
                numbers += [publication.sequence for publication in publications]
        self.drain()
        return numbers

    def up(self) -> "FlowGate":
        """Let the link come up."""
        self.flow.link_up(self.now)
        self.drain()
        return self

    def direct(self) -> "FlowGate":
        """Let the link come up, with nothing in the park."""
        self.up().give_back()
        assert self.flow.mode is Mode.DIRECT
        return self

    def lose(self) -> None:
        """Lose the link."""
        self.flow.link_lost()
        self.receipts.clear()
        self.drain()

    def give_up(self) -> None:
        """Give the link up."""
        self.flow.give_up()
        self.drain()

    def take(self, room: int = LARGE) -> list[Entry]:
        """Return what goes out now."""
        entries = self.flow.take(room)
        self.drain()
        return entries

    def finish(self, entries: Sequence[Entry]) -> None:
        """Let the neighbour take care of these."""
        for entry in entries:
            if entry.duty is not None:
                self.custody.meet(entry.duty)
        self.drain()

    def of_clients(self) -> list[int]:
        """Return which publications of clients are acknowledged, and forget them."""
        told, self.told = self.told, []
        return [source.sequence for source in told if isinstance(source, FromBroker)]


def sequences(entries: Sequence[Entry]) -> list[int]:
    """Return the numbers of the publications among these."""
    return [entry.message.sequence for entry in entries if isinstance(entry.message, Publication)]
