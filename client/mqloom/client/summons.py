"""Who may send a client to another broker: orders by their signature, the broker's own word only by the roster.

An order, and the roster, are signed for the federation. A broker that speaks MQTT 5 can also end a connection, or
refuse one, with a server reference: nobody has signed that, so it is only the name of a place, and that place must be
in the signed roster. With `follows_strangers` another place is tried, too, if none of those that are named is there.

One that `needs_tls` goes nowhere without it, whoever says so: its password would be read on the way.
"""

from collections.abc import Mapping

from mqloom.client.legs import Place, Referred
from mqloom.client.limits import REFER_S
from mqloom.client.vocabulary import MessageReceived
from mqloom.core import layout
from mqloom.core.errors import OrderError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import MoveOrder, OrderDesk, Roster, RosterBroker, is_order
from mqloom.core.references import Reference, references_in


class Summons:
    """What one life of a client has been told of other brokers."""

    def __init__(self, client: ClientId, desk: OrderDesk | None, *, follows_strangers: bool, needs_tls: bool) -> None:
        self.wall = 0.0
        """The time of day, as the driver's clock has it now: it may have been set right since the last event."""
        self._client = client
        self._desk = desk
        self._follows_strangers = follows_strangers
        self._needs_tls = needs_tls
        self._followed_at = -REFER_S

    @property
    def needs_roster(self) -> bool:
        """Whether the roster is to be read."""
        return self._desk is not None

    def brokers(self) -> Mapping[GatewayId, RosterBroker]:
        """Return where we may go: the brokers of the roster, if one has come and is not over."""
        roster = self._roster()
        if roster is None or not self._needs_tls:
            return {} if roster is None else roster.brokers
        return {gateway: broker for gateway, broker in roster.brokers.items() if broker.tls}

    def are_in(self, message: MessageReceived, at: GatewayId | None) -> bool:
        """Whether this claims to be a roster, or an order for us at the broker of that gateway."""
        if self._desk is None:
            return False
        if message.topic == layout.roster():
            return True
        return at is not None and message.topic == layout.control(at, self._client) and is_order(message.payload)

    def read(self, message: MessageReceived, at: GatewayId | None) -> MoveOrder | None:
        """Return the order that is to be obeyed; a roster is taken in. Raises OrderError for what does not count."""
        assert self._desk is not None
        if message.topic == layout.roster():
            if message.payload:
                self._desk.take_roster(message.payload, self.wall)
            return None
        assert at is not None
        return self._desk.take_order(message.payload, at, self.wall)

    def objection(self, to: GatewayId) -> OrderError | None:
        """Return why we do not go to the broker of this gateway, where an order leads; None if we do."""
        if to in self.brokers():
            return None
        roster = self._roster()
        if roster is not None and to in roster.brokers:
            return OrderError("tls", f"{to} has no TLS in the roster, and this client has; see moves_without_tls")
        return OrderError("target", f"{to} is not in the roster")

    def follow(self, referred: Referred, now: float) -> Place:
        """Return where the broker sends us, once in REFER_S; raises OrderError if we do not go there."""
        here = Reference(referred.host, referred.port)
        named = [each for each in references_in(referred.reference, tls=referred.tls) if each != here]
        if not named:
            raise OrderError("target", f"{here} refers to itself")
        place = self._place_of(named, referred.tls)
        if now < self._followed_at + REFER_S:
            raise OrderError("crowded", f"{here} refers to {named[0]} within {REFER_S:g} s of another reference")
        self._followed_at = now
        return place

    def _place_of(self, named: list[Reference], tls: bool) -> Place:
        roster = self._roster()
        found = [] if roster is None else [each for place in named if (each := roster.at(*place)) is not None]
        for gateway in found:
            if gateway in self.brokers():
                return Place(gateway, self.brokers()[gateway])
        objection = self.objection(found[0]) if found else None
        if objection is not None:
            raise objection
        if self._follows_strangers:
            return Place(None, RosterBroker(host=named[0].host, port=named[0].port, tls=tls or self._needs_tls))
        text = ", ".join(str(each) for each in named)
        if roster is None:
            raise OrderError("roster", f"the broker refers to {text}, and no valid roster has come that knows it")
        raise OrderError("stranger", f"the broker refers to {text}, which is not in the roster; see follows_strangers")

    def _roster(self) -> Roster | None:
        return None if self._desk is None else self._desk.valid_roster(self.wall)
