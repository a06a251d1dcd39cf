"""A client that is moved between brokers, in virtual time, around the production core.

Each leg is an endpoint of its own, with its own order of events and effects: a subscription lets what follows on the
same leg wait until the broker has confirmed it. What is acknowledged is what the core has handled. When it is killed,
it loses everything but its memory of what has come, as one does that keeps that in a file.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from mqloom.client.legs import (
    HOME_LEG,
    CloseLeg,
    Forgotten,
    ForLeg,
    Migrated,
    OnLeg,
    OpenLeg,
    Stayed,
    TravelEffect,
    TravelEvent,
)
from mqloom.client.party import Manner as Asking
from mqloom.client.traveller import Traveller
from mqloom.client.vocabulary import (
    CloseRequested,
    Connected,
    ConnectionLost,
    Deliver,
    Finished,
    MessageReceived,
    Publish,
    Subscribe,
    WakeAt,
    WishRemoved,
    Woke,
)
from mqloom.core import layout
from mqloom.core.errors import RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.orders import OrderDesk, is_order
from mqloom.core.records import Wish, decode_answer
from mqloom.core.seen import Seen
from mqloom.core.signatures import OrderKey
from mqloom.lab import packets
from mqloom.lab.client_model import LEASE_S, Leaving, Life, Lookup
from mqloom.lab.clock import Timer
from mqloom.lab.endpoint import Endpoint, Manner, Place

ORDER_KEY = OrderKey(bytes(32))
"""Signs all orders and rosters in the lab; there is nobody from whom it would be kept."""


@dataclass(slots=True)
class _Line:
    """A leg's connection: what has come by it, and what is to go by it."""

    endpoint: Endpoint
    gateway: GatewayId
    events: deque[tuple[MessageReceived, int]] = field(default_factory=deque)
    effects: deque[Subscribe | Publish] = field(default_factory=deque)
    awaits: int | None = None
    is_closing: bool = False
    forgets: bool = False

    @property
    def is_quiet(self) -> bool:
        """Whether all that was to go by it has arrived, or cannot go."""
        return not self.endpoint.is_up or (not self.effects and self.awaits is None and not self.endpoint.pending)


class TravellerModel:
    """A subscriber that orders move from broker to broker; its user connects it to the same one at each start."""

    def __init__(
        self,
        name: str,
        gateway: GatewayId,
        wishes: Mapping[str, Wish],
        place_of: Callable[[str], Place],
        look: Lookup,
        tell: Callable[[str, str], None],
    ) -> None:
        self.name = name
        self.gateway = gateway
        self.life = Life(name, gateway, wishes)
        self.lives = [self.life]
        self.moved: list[tuple[float, str, str]] = []
        self.stayed: list[tuple[float, str]] = []
        self.incarnations = 0
        self._wishes = wishes
        self._place_of = place_of
        self._clock = place_of(gateway).clock
        self._look = look
        self._tell = tell
        self._seen = Seen()
        self._is_closing = False
        self._has_asked = False
        self._lines: dict[int, _Line] = {}
        self._leaving: list[Endpoint] = []
        self._opening: deque[OpenLeg] = deque()
        self._timer: Timer | None = None
        self._is_running = False
        self._was_killed = False
        self._begin()

    # ---- what the world asks -------------------------------------------------------------------------------------

    @property
    def mqtt_client_id(self) -> str:
        """The client id of its sessions."""
        return f"sub-{self.name}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come, as the user wanted it."""
        return self.life.over_at is not None

    @property
    def at(self) -> str:
        """At whose broker it is served."""
        return (self.core.home.gateway if self.core.legs else None) or self.gateway

    @property
    def incarnation(self) -> str:
        """The name of its present life."""
        return f"{self.name} {self.incarnations}"

    @property
    def pending(self) -> int:
        """How many messages have no PUBACK yet."""
        return sum(line.endpoint.pending for line in self._lines.values()) + sum(each.pending for each in self._leaving)

    def unsettled(self) -> list[str]:
        """Return what is not as it should be at rest."""
        found = []
        if not self.is_over:
            if not self._is_running:
                found.append("is not running")
            if len(self.core.legs) != 1:
                found.append(f"has legs {[(leg.gateway, leg.role.name) for leg in self.core.legs.values()]}")
            elif not self.core.home.core.is_served(partly=True):
                found.append(f"is {self.core.home.core.state.name} at {self.core.home.gateway}")
        if self.pending:
            found.append(f"has {self.pending} messages without PUBACK")
        return found

    def start(self) -> None:
        """Connect for the first time, or after it was killed."""
        self._is_running = True
        self._lines[HOME_LEG].endpoint.open()

    def start_again(self) -> None:
        """Begin the next life, if it was killed."""
        if self._was_killed and not self._is_running and not self.is_over:
            self.start()

    def close(self) -> None:
        """The user has had enough; what an earlier life has written is deleted only by one that is served."""
        self._is_closing = True
        is_served = self._is_running and len(self.core.legs) == 1 and self.core.home.core.is_served(partly=True)
        if not is_served or self._has_asked:
            return
        self._has_asked = True
        self._withdraw()
        self._happen(CloseRequested())

    def want_nothing(self) -> None:
        """The user unsubscribes from everything, and goes on; not in a life that has not read what the one before left.

        That would be one that wants nothing from the first, and has no reason to look where else it has a session.
        """
        if self.is_over or self._is_closing or not self._is_running or not self.core.home.core.has_read:
            return
        self._tell(self.name, "unsubscribes from everything")
        self._withdraw()
        names, self._wishes = list(self._wishes), {}
        for name in names:
            self._happen(WishRemoved(name=name))

    def _withdraw(self) -> None:
        if self.life.withdrawn_at is None:
            self.life.withdrawn_at = self._clock.now
            self.life.under_way = self._look.under_way()

    def kill(self, broker_notice_s: float) -> None:
        """Die without a word, with all that was not kept; `start` begins the next life.

        One that wants nothing lives on: the next life would have no reason to look what this one has left.
        """
        if self.is_over or not self._is_running or not self._wishes:
            return
        self._tell(self.name, "is killed")
        for endpoint in [*(line.endpoint for line in self._lines.values()), *self._leaving]:
            endpoint.manner.on_messages = lambda _: None
            endpoint.manner.on_published = lambda _: None
            endpoint.manner.on_up = lambda _: None
            endpoint.manner.on_down = lambda: None
            endpoint.crash(broker_notice_s)
        self._leaving.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._is_running, self._was_killed = False, True
        self._seen.holds_floors = False
        self._begin()

    def vanish(self, broker_notice_s: float) -> None:
        """Lose the connections until `come_back`."""
        for line in list(self._lines.values()):
            line.endpoint.vanish(broker_notice_s)

    def come_back(self) -> None:
        """Connect again."""
        if not self.is_over and self._is_running:
            for line in list(self._lines.values()):
                line.endpoint.open()

    def check(self) -> None:
        """State the invariants."""
        if not self.is_over:
            self.core.check()

    # ---- a life --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.incarnations += 1
        self._has_asked = False
        self._lines.clear()
        self._opening.clear()
        client = ClientId(self.name)
        self.core = Traveller(
            client,
            self._wishes,
            incarnation=self.incarnation,
            desk=OrderDesk(client=client, incarnation=self.incarnation, keys=[ORDER_KEY.public]),
            manner=Asking(lease_s=LEASE_S),
            seen=self._seen,
        )
        self._connect(HOME_LEG, self.gateway)

    def _connect(self, leg: int, gateway: GatewayId) -> _Line:
        manner = Manner(client_id=self.mqtt_client_id, clean=False, on_published=lambda _: self._go_on())
        line = self._lines[leg] = _Line(Endpoint(self._place_of(gateway), manner), gateway)
        manner.on_up = partial(self._up, leg, line)
        manner.on_down = partial(self._down, leg, line)
        manner.on_messages = partial(self._received, leg, line)
        manner.on_subscribed = partial(self._confirmed, leg, line)
        return line

    def _up(self, leg: int, line: _Line, session_present: bool) -> None:
        if self._lines.get(leg) is line:
            self._happen(OnLeg(leg=leg, event=Connected(resumed=session_present)))

    def _down(self, leg: int, line: _Line) -> None:
        line.awaits = None
        line.effects = deque(each for each in line.effects if isinstance(each, Publish))
        while line.events and self._lines.get(leg) is line:  # they came before the end; nobody waits for a PUBACK
            self._happen(OnLeg(leg=leg, event=line.events.popleft()[0]))
        if self._lines.get(leg) is line:
            self._happen(OnLeg(leg=leg, event=ConnectionLost()))

    def _received(self, leg: int, line: _Line, messages: list[packets.Publish]) -> None:
        for each in messages:
            event = MessageReceived(topic=each.topic, payload=each.payload, qos=each.qos, retain=each.retain)
            line.events.append((event, each.packet))
        self._work(leg, line)

    def _confirmed(self, leg: int, line: _Line, number: int) -> None:
        if number == line.awaits:
            line.awaits = None
            self._work(leg, line)

    def _happen(self, event: TravelEvent) -> None:
        for effect in self.core.handle(event, self._clock.now, self._clock.now):
            self._carry_out(effect)
        for leg, line in list(self._lines.items()):
            self._work(leg, line)
        self._go_on()
        if self._is_closing:
            self.close()

    def _work(self, leg: int, line: _Line) -> None:
        """Carry out what is to go by a line, then take what has come by it."""
        while line.endpoint.is_up and line.awaits is None and self._lines.get(leg) is line:
            if line.effects:
                effect = line.effects.popleft()
                if isinstance(effect, Subscribe):
                    line.awaits = line.endpoint.subscribe(effect.topic, effect.qos)
                else:
                    line.endpoint.publish(packets.Publish(effect.topic, effect.payload, effect.qos, effect.retain))
            elif line.events and not line.is_closing:
                event, packet = line.events.popleft()
                self._listen(event, line)
                self._happen(OnLeg(leg=leg, event=event))
                if packet:
                    line.endpoint.acknowledge((packet,))
            else:
                return

    def _listen(self, message: MessageReceived, line: _Line) -> None:
        """Note what a gateway promises: the checkers lean on its answers, not on the core."""
        if message.topic != layout.control(line.gateway, ClientId(self.name)) or is_order(message.payload):
            return
        try:
            answer = decode_answer(message.payload)
        except RecordError:
            return
        self._tell(self.name, f"is answered {answer.answer} {answer.name} by {line.gateway}")
        if answer.answer == "established" and not answer.partly:
            self.life.established.setdefault(answer.name, []).append(self._clock.now)
        elif answer.answer == "ended" and self.life.withdrawn_at is not None:
            self.life.ended.setdefault(answer.name, self._clock.now)

    # ---- outward -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: TravelEffect) -> None:
        match effect:
            case Deliver():
                number = self._look.number_of(effect.publication.payload)
                self.life.delivered.append((self._clock.now, number, effect.names))
                self._tell(self.name, f"gets p{number} {effect.publication.id}")
            case ForLeg() | OpenLeg() | CloseLeg():
                self._plan(effect)
            case WakeAt():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._clock.timer_at(effect.at, lambda: self._happen(Woke()))
            case Migrated():
                self.moved.append((self._clock.now, effect.source, effect.to))
                self._tell(self.name, f"has moved from {effect.source} to {effect.to}")
            case Stayed():
                self.stayed.append((self._clock.now, effect.problem))
                self._tell(self.name, f"stays: {effect.problem}")
            case Finished():
                self.life.over_at = self._clock.now
                self._tell(self.name, "has finished")
            case _:
                pass

    def _plan(self, effect: ForLeg | OpenLeg | CloseLeg) -> None:
        """Note what is to be done when its turn comes."""
        if isinstance(effect, OpenLeg):
            self._opening.append(effect)
            return
        line = self._lines.get(effect.leg)
        if line is None:  # it was never opened
            return
        if isinstance(effect, CloseLeg):
            line.is_closing, line.forgets = True, effect.forget
        elif line.endpoint.is_up or isinstance(effect.effect, Publish):
            line.effects.append(effect.effect)

    def _go_on(self) -> None:
        """Open and close connections, when what was written before is on its broker."""
        for leg, line in list(self._lines.items()):
            if line.is_closing and (line.is_quiet or not line.endpoint.is_up):
                del self._lines[leg]
                if self._timer is not None and not self._lines:
                    self._timer.cancel()
                self._leave(leg, line)
        while self._opening and all(line.is_quiet for line in self._lines.values()):
            effect = self._opening.popleft()
            if effect.leg in self.core.legs:
                assert effect.gateway is not None  # there are no strangers here
                self._connect(effect.leg, effect.gateway).endpoint.open()

    def _forgotten(self, leg: int, core: Traveller) -> None:
        if core is self.core and not self.is_over:
            self._happen(OnLeg(leg=leg, event=Forgotten()))

    def _leave(self, leg: int, line: _Line) -> None:
        self._leaving = [each for each in self._leaving if each.is_open]
        if line.forgets:
            for effect in line.effects:  # what could not go by the connection that is gone
                if isinstance(effect, Publish):
                    message = packets.Publish(effect.topic, effect.payload, effect.qos, effect.retain)
                    line.endpoint.publish(message)
            self._leaving.append(line.endpoint)
            Leaving(line.endpoint, partial(self._forgotten, leg, self.core))
        else:
            line.endpoint.close()
