"""A travelling client's core with brokers that are as far away as one says: for scripts of events, without a driver."""

from typing import Any

from mqloom.client.journey import Journey, journey_in, record_of
from mqloom.client.legs import Forgotten, ForLeg, OnLeg, OpenLeg, Referred, TravelEffect, TurnedAway
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import Connected, ConnectionLost, MessageReceived, Publish, Woke
from mqloom.core import layout
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import (
    MoveOrder,
    OrderDesk,
    Roster,
    RosterBroker,
    decode_order_answer,
    sign_order,
    sign_roster,
)
from mqloom.core.publication import Publication
from mqloom.core.records import Answer, Delivered, Status, Wish, encode_answer, encode_envelope, encode_status
from mqloom.core.signatures import OrderKey

ANN = ClientId("ann")
A, B, C = GatewayId("A"), GatewayId("B"), GatewayId("C")
STRANGER = GatewayId("X")
"""Whose broker it is that is in no roster."""
KEY, OTHER_KEY = OrderKey(bytes(32)), OrderKey(bytes([1] * 32))
WISHES = {"w": Wish(topics="a/#")}
ROSTER = Roster(federation="f", serial=1, brokers={name: RosterBroker(host=name) for name in (A, B, C)})


def order(**changes: Any) -> bytes:
    """Return an order to move from A to B, but for these changes."""
    fields: dict[str, Any] = {
        "federation": "f",
        "client": ANN,
        "incarnation": "life 1",
        "session": "s",
        "source": A,
        "to": B,
        "issued_at": 1_000.0,
        "expires_at": 1_030.0,
    }
    key = changes.pop("key", KEY)
    return sign_order(MoveOrder(**{**fields, **changes}), key)


class Trip:
    """A traveller, and what it has asked its driver for; brokers are as far away as a test says."""

    def __init__(self, found: bytes = b"", at: GatewayId = A, **options: Any) -> None:
        self.begin(at, **options)
        self.arrive(0, found)

    def begin(self, at: GatewayId, **options: Any) -> None:
        """Have a life that has not begun to connect."""
        self.now = 0.0
        self.wall_offset_s = 1_000.0
        """The time of day of the client at time 0; a test sets its clock by this."""
        desk = OrderDesk(client=ANN, incarnation="life 1", keys=[KEY.public])
        wishes = options.pop("wishes", WISHES)
        self.core = Traveller(ANN, wishes, incarnation="life 1", desk=desk, **options)
        self.records: dict[GatewayId, list[bytes]] = {A: [], B: [], C: [], STRANGER: []}
        self.answers: list[tuple[str, str]] = []
        self.effects: list[TravelEffect] = []
        self.at = {0: at}

    def handle(self, event: Any) -> list[TravelEffect]:
        """Take an event, check the core, and note what it asks for."""
        effects = self.core.handle(event, self.now, self.now + self.wall_offset_s)
        self.core.check()
        for effect in effects:
            if isinstance(effect, OpenLeg):
                self.at[effect.leg] = effect.gateway or STRANGER
            if isinstance(effect, ForLeg) and isinstance(effect.effect, Publish):
                self._note(effect.effect)
        self.effects += effects
        return effects

    def _note(self, publish: Publish) -> None:
        for gateway, records in self.records.items():
            if publish.topic == layout.record(gateway, ANN) and publish.retain:
                records.append(publish.payload)
            elif publish.topic == layout.client_answer(gateway, ANN):
                answer = decode_order_answer(publish.payload)
                self.answers.append((answer.answer, answer.problem))

    def happen(
        self, leg: int, event: Connected | ConnectionLost | MessageReceived | Referred | TurnedAway | Forgotten
    ) -> list[TravelEffect]:
        """Let something happen to a leg."""
        return self.handle(OnLeg(leg=leg, event=event))

    def hear(self, leg: int, topic: str, payload: bytes) -> list[TravelEffect]:
        """Let a message come by a leg."""
        return self.happen(leg, MessageReceived(topic=topic, payload=payload, qos=1))

    def arrive(self, leg: int, found: bytes = b"") -> None:
        """Let a leg connect, find its gateway, and read what is there."""
        gateway = self.at[leg]
        self.happen(leg, Connected(resumed=True))
        self.hear(leg, layout.roster(), sign_roster(ROSTER, KEY))
        status = Status(alive=True, gateway=gateway, version="1", epoch=1)
        effects = self.hear(leg, layout.status(gateway), encode_status(status))
        if found:
            self.hear(leg, layout.record(gateway, ANN), found)
        for effect in effects:
            if isinstance(effect, ForLeg) and isinstance(effect.effect, Publish) and not effect.effect.retain:
                self.hear(leg, effect.effect.topic, effect.effect.payload)

    def say(self, leg: int, answer: Answer) -> list[TravelEffect]:
        """Let the gateway of a leg answer."""
        return self.hear(leg, layout.control(self.at[leg], ANN), encode_answer(answer))

    def establish(self, leg: int, *, partly: bool = False) -> list[TravelEffect]:
        """Let the gateway of a leg serve us."""
        return self.say(leg, Answer(answer="established", name="w", partly=partly))

    def order(self, data: bytes, leg: int = 0) -> list[TravelEffect]:
        """Let an order come."""
        return self.hear(leg, layout.control(self.at[leg], ANN), data)

    def wait(self, seconds: float) -> list[TravelEffect]:
        """Let time pass."""
        self.now += seconds
        return self.handle(Woke())

    def journey(self, gateway: GatewayId) -> Journey | None:
        """Return what the record at a broker says last."""
        return journey_in(self.records[gateway][-1])

    def roles(self) -> dict[str, str]:
        """Return what each leg is for."""
        return {self.at[number]: leg.role.name for number, leg in self.core.legs.items()}


def served(**options: Any) -> Trip:
    """Return one that is served at A."""
    trip = Trip(**options)
    trip.establish(0)
    return trip


def moving() -> Trip:
    """Return one that has been ordered to B."""
    trip = served()
    trip.order(order())
    return trip


def found(**said: Any) -> bytes:
    """Return what an earlier life has written."""
    journey = Journey(incarnation="life 0", **said)
    return record_of({} if journey.moved_to else WISHES, journey, qos=1, lease_s=60.0, token="")


def envelope(sequence: int) -> bytes:
    """Return what brings one publication."""
    publication = Publication(
        origin=C, epoch=1, sequence=sequence, low_water=sequence, topic="a/b", payload=b"", qos=1, hops=0
    )
    return encode_envelope([Delivered(publication, ("w",))])
