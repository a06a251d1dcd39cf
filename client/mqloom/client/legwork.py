"""What a travelling client does by its legs, whatever the reason for it; `Traveller` knows the reasons."""

from collections import Counter
from collections.abc import Mapping

from mqloom.client.journal import NEVER
from mqloom.client.journey import Journey
from mqloom.client.legs import CloseLeg, ForLeg, Leg, OpenLeg, Place, TravelEffect
from mqloom.client.party import Party
from mqloom.client.roles import Role
from mqloom.client.vocabulary import Finished, Note, Publish, WakeAt
from mqloom.core import layout
from mqloom.core.ids import ClientId
from mqloom.core.orders import MoveOrder, OrderAnswer, OrderAnswerKind, encode_order_answer


class Legwork:
    """The legs of one client, and the effects that are due."""

    def __init__(self, client: ClientId, party: Party) -> None:
        self.counts: Counter[str] = Counter()
        """Orders, rosters and references that do not count, by reason; moves that came to an end, by which."""
        self._client = client
        self._party = party
        self._is_closing = False
        self._is_over = False
        self._wake_at: float | None = None
        self._effects: list[TravelEffect] = []

    @property
    def home(self) -> Leg:
        """The leg by which we are served, or about to be."""
        return self._party.home

    @property
    def legs(self) -> Mapping[int, Leg]:
        """All legs, by number."""
        return self._party.legs

    def _open(self, role: Role, place: Place, journey: Journey, end_by: float, *, is_first: bool = False) -> None:
        """Go to another broker, with all that is wanted."""
        leg = self._party.add(role, place.gateway, self.home.core.wishes, journey, end_by, is_first=is_first)
        self._effects.append(OpenLeg(leg=leg.number, gateway=place.gateway, broker=place.broker))

    def _drop(self, leg: Leg, *, forget: bool) -> None:
        """Have nothing to do any more with a broker."""
        self._party.drop(leg, forget=forget)
        self.counts.update(leg.core.counts)
        self._effects.append(CloseLeg(leg=leg.number, forget=forget))

    def _erase(self, leg: Leg) -> None:
        """Delete what we wrote at a broker that does not serve us."""
        if leg.gateway is not None:
            self._publish(leg, layout.record(leg.gateway, self._client), b"", retain=True)
        self._drop(leg, forget=True)

    def _answer(self, leg: Leg, order: MoveOrder, answer: OrderAnswerKind, problem: str = "") -> None:
        """Tell the gateway that has ordered a move how far that is."""
        if leg.is_up:
            told = OrderAnswer(session=order.session, answer=answer, problem=problem)
            self._publish(leg, layout.client_answer(order.source, self._client), encode_order_answer(told))

    def _publish(self, leg: Leg, topic: str, payload: bytes, *, retain: bool = False) -> None:
        effect = Publish(topic=topic, payload=payload, qos=1, retain=retain)
        self._effects.append(ForLeg(leg=leg.number, effect=effect))

    def _note(self, text: str) -> None:
        self._effects.append(Note(text=text))

    def _fails_over_at(self) -> float:
        """Return when another broker is to be tried."""
        return NEVER if self._is_closing or not self._party else self._party.fails_over_at()

    def _finish(self) -> list[TravelEffect]:
        """Return all effects that are due, and when to look again."""
        self._party.hold_floors()
        if self._is_closing and not self._party and not self._is_over:
            self._is_over = True
            self._effects.append(Finished())
        times = [each for leg in self._party for each in (leg.wake_at, leg.end_by) if each is not None]
        first = min([*times, self._fails_over_at()])
        if first < NEVER and first != self._wake_at:
            self._wake_at = first
            self._effects.append(WakeAt(at=first))
        effects, self._effects = self._effects, []
        return effects
