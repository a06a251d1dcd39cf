"""The connections of one client: the application's own, and while it is moved to another broker, more in background.

Each is a *leg*, by a number that the core gives. The application's own connection is leg 0 at first. A background leg
has a thread of its own, which reads, writes, comes back when it is lost, and leaves what it hears as events for the
loop of the application's client: the core, and every callback, are in that one thread.

When the core has done with the leg that the application's own connection is, or that is lost while another serves us,
the application's connection *takes over* the other: the background one leaves, and the same MQTT client id connects to
the same broker again, whose session has kept everything meanwhile. What it sends a second time the core drops.
So the application publishes by the broker that serves it, and its loop, socket and last will are where they should be.

All of this but the threads of background legs is called by the application's loop, and `settle` only between two
packets: a connection must not be exchanged while one of its packets is being handled.
"""

import contextlib
import logging
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from mqloom.client.farewells import Farewells, Identity, Parting
from mqloom.client.legs import Forgotten, Referred, TurnedAway
from mqloom.client.limits import CONNECT_S, HAND_OVER_S, LEAVE_S, RECONNECT_S_MAX
from mqloom.client.vocabulary import Connected, ConnectionLost, MessageReceived, Publish, Subscribe
from mqloom.client.wired import OURS, Address, Wired
from mqloom.core.ids import GatewayId

logger: Final = logging.getLogger("mqloom.client")


Happening = Connected | ConnectionLost | MessageReceived | Referred | TurnedAway | Forgotten
"""What can happen on a leg."""


@dataclass(frozen=True, slots=True)
class StrayReceived:
    """A message has come in the background for a subscription of the application's own, at the one broker.

    The session there has it since the application's connection was there, or since an earlier life.
    """

    message: MQTTMessage


Tidings = Callable[[int, Happening | StrayReceived, int], None]
"""Takes what a leg has heard: its number, the event, and of a message above QoS 0 its packet id; from any thread."""


class Movable(Protocol):
    """The application's own connection, as far as it can be led to another broker."""

    @property
    def leg_address(self) -> Address:
        """Where it is connected to, or tries to be."""
        ...

    @property
    def own_tls(self) -> ssl.SSLContext | None:
        """With what the application has set up TLS, wherever it is."""
        ...

    @property
    def leg_identity(self) -> Identity:
        """As whom."""
        ...

    def is_connected(self) -> bool:
        """Whether it is."""
        ...

    def order(self, effect: Subscribe | Publish) -> None:
        """Send something."""
        ...

    @property
    def has_unacknowledged(self) -> bool:
        """Whether something that MQLoom has published waits for its acknowledgement, or to be sent."""
        ...

    def last_words(self) -> list[Publish]:
        """Return what MQLoom has published, and is not acknowledged."""
        ...

    def hold(self) -> None:
        """Let what the application publishes from now on wait for another broker."""
        ...

    @property
    def is_handed_over(self) -> bool:
        """Whether the broker has acknowledged all that the application published before."""
        ...

    def take_half(self) -> "OrderedDict[int, MQTTMessage]":
        """Return what has come at QoS 2 and is not released yet."""
        ...

    def give_half(self, half: "OrderedDict[int, MQTTMessage]") -> None:
        """Have what an earlier connection of the session has got by half."""
        ...

    def go_to(self, address: Address) -> bool:
        """Leave the broker, and connect to another, with a session that it has kept; return whether that was done."""
        ...


def referred_at(address: Address, reference: str) -> Referred:
    """Return what has happened: the broker at an address has named another."""
    return Referred(reference=reference, host=address.host, port=address.port, tls=address.tls is not None)


class Background(Wired):
    """A leg in the background: it acknowledges nothing by itself, and leaves all that comes to the loop."""

    def __init__(self, number: int, address: Address, identity: Identity, tell: Tidings) -> None:
        is_new = identity.protocol == MQTTProtocolVersion.MQTTv5
        super().__init__(
            CallbackAPIVersion.VERSION2,
            identity.client_id,
            None if is_new else False,
            protocol=identity.protocol,
            manual_ack=True,
        )
        self.number = number
        self.address = address
        self.life = 0  # of the connection: packet ids of an earlier one mean nothing
        self._tell = tell
        self.wire(self)
        self.connect_timeout = CONNECT_S
        self.reconnect_delay_set(1, RECONNECT_S_MAX)
        identity.introduce(self, address)
        self.connect_async(
            address.host,
            address.port,
            identity.keepalive_s,
            bind_address=identity.bind_address,
            clean_start=False,
            properties=identity.properties_for(identity.session_s),
        )

    def connected(self, *, resumed: bool) -> None:
        """Listener: leave it as an event."""
        self.life += 1
        self._tell(self.number, Connected(resumed=resumed), 0)

    def lost(self) -> None:
        """Listener: leave it as an event."""
        self.life += 1
        self.forget_orders()
        self._tell(self.number, ConnectionLost(), 0)

    def referred(self, reference: str) -> None:
        """Listener: leave it as an event."""
        self._tell(self.number, referred_at(self.address, reference), 0)

    def turned_away(self, reason: str) -> None:
        """Listener: leave it as an event."""
        self._tell(self.number, TurnedAway(reason=reason), 0)

    def received(self, message: MQTTMessage) -> bool:
        """Listener: leave it as an event; it is acknowledged when that was handled, and not yet."""
        event = MessageReceived(
            topic=message.topic, payload=bytes(message.payload), qos=message.qos, retain=message.retain
        )
        self._tell(self.number, event, self._packet_of(message))
        return False

    def barred(self, topic: str) -> None:
        """Listener: the core will see that nothing comes."""
        logger.error("the broker at %s does not let this client subscribe to %s", self.address.host, topic)

    def turn(self) -> None:
        """Listener: nothing is due here."""

    def settle(self) -> None:
        """Listener: nothing is to be exchanged here."""

    def patience(self, timeout: float) -> float:
        """Listener: as long as it likes."""
        return timeout

    def _packet_of(self, message: MQTTMessage) -> int:
        return (self.life << 16) + message.mid if message.qos else 0

    def _handle_on_message(self, message: MQTTMessage) -> None:
        """Leave what is not for MQLoom as an event, too: unacknowledged it would fill the broker's window."""
        if message._topic.startswith(OURS.encode()):
            self.received(message)
        else:
            self._tell(self.number, StrayReceived(message), self._packet_of(message))

    def _handle_pubrel(self) -> MQTTErrorCode:
        """Let paho release a message of QoS 2; one that has come by an earlier connection is done with."""
        mid = int.from_bytes(self._in_packet["packet"][:2], "big")
        is_known = mid in self._in_messages
        result = super()._handle_pubrel()
        return result if is_known else self.ack(mid, 2)

    def acknowledge(self, packet: int, qos: int = 1) -> MQTTErrorCode:
        """Acknowledge a message, unless the connection by which it came is gone."""
        if packet >> 16 != self.life:
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return self.ack(packet & 0xFFFF, qos)

    def end(self) -> list[Publish]:
        """Leave; the session stays. Waits, for LEAVE_S at most, until what was published is acknowledged.

        Returns what is not.
        """
        deadline = time.monotonic() + LEAVE_S
        while self.has_unacknowledged and self.is_connected() and time.monotonic() < deadline:
            time.sleep(0.005)
        words = self.last_words()
        self.disconnect()
        self.loop_stop()
        return words


class Ways:
    """All legs of one client."""

    def __init__(
        self, application: Movable, tell: Tidings, is_held: Callable[[int], bool], farewells: Farewells
    ) -> None:
        self.own = 0
        """The leg that the application's own connection is."""
        self._application = application
        self._tell = tell
        self._is_held = is_held  # whether the application has not taken all that came by a leg
        self._left: dict[int, Background] = {}  # closed, but the application may still acknowledge
        self._others: dict[int, Background] = {}
        self._opening: dict[int, Address] = {}
        self._gateways: dict[int, GatewayId | None] = {}  # whose brokers all these are, as far as that is known
        self._home = 0
        self._closing: bool | None = None  # the application's own leg: None as long as it is needed, then `forget`
        self._take_over_by: float | None = None
        self._hand_over_by: float | None = None
        self._farewells = farewells
        self._lock = threading.RLock()  # of `settle` and `at_rest`; whoever has it waits for nothing of the shim's
        self._is_paused = False
        self._is_left = False
        self._is_over = False

    def __len__(self) -> int:
        return 1 + len(self._others) + len(self._opening)

    def open(self, number: int, address: Address, gateway: GatewayId | None) -> None:
        """Connect to another broker, as soon as all that was published before is acknowledged."""
        self._gateways[number] = gateway
        self._opening[number] = address

    def serve_by(self, number: int, gateway: GatewayId | None = None) -> None:
        """This leg is the one that counts, from now on; it is at the broker of that gateway, if this is known."""
        self._home = number
        self._gateways[number] = gateway

    def order(self, number: int, effect: Subscribe | Publish) -> None:
        """Send something by one leg; by one that is not open, nothing."""
        if number == self.own:
            self._application.order(effect)
        elif number in self._others:
            self._others[number].order(effect)

    def acknowledge(self, number: int, packet: int, qos: int = 1) -> MQTTErrorCode:
        """Acknowledge a message that has come by a background leg."""
        other = self._others.get(number) or self._left.get(number)
        return MQTTErrorCode.MQTT_ERR_SUCCESS if other is None else other.acknowledge(packet, qos)

    def close(self, number: int, *, forget: bool) -> None:
        """Leave a broker for good, when all that was published there is acknowledged; `forget`: our session too."""
        address = self._opening.pop(number, None)
        if address is not None and forget:
            self._part(number, address, list, forget=True)
        elif number == self.own:
            self._closing = forget
        elif number in self._others:
            other = self._left[number] = self._others.pop(number)
            self._part(number, other.address, other.end, forget=forget)

    def _part(self, number: int, address: Address, end: Callable[[], list[Publish]], *, forget: bool) -> None:
        """Leave a broker in the background, when the application has taken all that came from there."""

        def ended() -> list[Publish]:
            words = end()
            self._left.pop(number, None)
            return words

        forgotten = partial(self._tell, number, Forgotten(), 0)
        parting = Parting(partial(self._is_held, number), ended, forgotten if forget else None)
        gateway = self._gateways.pop(number, None)
        self._farewells.begin(address, self._application.leg_identity, parting, gateway)

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[bool]:
        """The application disconnects: begin no exchange of connections any more; in any thread.

        Yields whether none is under way until the end, either. It is waited for, for LEAVE_S at most.
        """
        self._is_paused = True
        is_at_rest = self._lock.acquire(timeout=LEAVE_S)
        try:
            yield is_at_rest
        finally:
            if is_at_rest:
                self._lock.release()

    def end(self) -> None:
        """The application has had enough: leave all brokers but its own, where nothing is to remember us."""
        self._is_over = True
        self.pause()

    def pause(self) -> None:
        """The application disconnects, and its sessions are kept: leave all brokers, until it is back; in any thread.

        Should the loop be busy with connections for longer than LEAVE_S, it leaves those in the background itself.
        """
        self._is_left = True
        with self.at_rest() as is_at_rest:
            if is_at_rest:
                self._leave_all()

    def resume(self) -> None:
        """The application is back."""
        self._is_paused = self._is_left = False

    def _leave_all(self) -> None:
        """Leave all brokers but the application's own: for good, or for now."""
        if self._is_over:
            for number in [*self._opening, *self._others]:
                self.close(number, forget=True)
        for number, other in list(self._others.items()):
            del self._others[number]
            self._opening[number] = other.address
            parting = Parting(lambda: False, other.end, None)
            self._farewells.begin(other.address, self._application.leg_identity, parting, self._gateways.get(number))

    def settle(self) -> None:
        """Open what waits, and let the application's own connection be the leg that counts; between two packets."""
        with self._lock:
            if not self._is_paused:
                self._open_all()
                self._exchange()
            if self._is_left:  # meanwhile, by who could not wait for so long
                self._leave_all()

    def _open_all(self) -> None:
        if self._opening and not any(each.has_unacknowledged and each.is_connected() for each in self._connections()):
            for number, address in list(self._opening.items()):
                if not self._farewells.is_busy(address, self._gateways.get(number)):
                    del self._opening[number]
                    self._begin(number, address)

    def _exchange(self) -> None:
        if self._home != self.own and self._home in self._others:
            is_left = self._closing is not None and not self._application.has_unacknowledged
            if not self._application.is_connected():
                is_free = True
            elif is_left:
                is_free = self._is_handed_over()
            else:
                is_free = False
            if is_free and self._is_quiet(self._others[self._home]):
                self._take_over()

    def _connections(self) -> "list[Movable | Background]":
        return [self._application, *self._others.values()]

    def _begin(self, number: int, address: Address, half: "OrderedDict[int, MQTTMessage] | None" = None) -> None:
        other = self._others[number] = Background(number, address, self._application.leg_identity, self._tell)
        other.give_half(half or OrderedDict())
        other.loop_start()

    def _is_handed_over(self) -> bool:
        """Whether the application's connection may be exchanged: what it sends meanwhile waits for the next broker."""
        now = time.monotonic()
        if self._hand_over_by is None:
            self._hand_over_by = now + HAND_OVER_S
        self._application.hold()
        return self._application.is_handed_over or now >= self._hand_over_by

    def _is_quiet(self, other: Background) -> bool:
        """Whether a leg has nothing that it would leave behind; waits for that for LEAVE_S at most."""
        now = time.monotonic()
        if self._take_over_by is None:
            self._take_over_by = now + LEAVE_S
        return not other.has_unacknowledged or not other.is_connected() or now >= self._take_over_by

    def _take_over(self) -> None:
        """Let the application's own connection go where the leg is that counts."""
        self._take_over_by = self._hand_over_by = None
        before, was_number = self._application.leg_address, self.own
        other = self._others[self._home]
        other.end()
        if self._is_paused:  # the application has disconnected meanwhile: its connection goes nowhere any more
            return
        words = self._application.last_words()
        half = self._application.take_half()
        # A callback of this may disconnect: until it is over, the session there is that of the leg in the background.
        if not self._application.go_to(other.address):
            self._application.give_half(half)
            return
        self._others.pop(other.number, None)  # one that disconnects when it is too late for that has left it already
        self._opening.pop(other.number, None)
        self._application.give_half(other.take_half())
        self.own = other.number
        if self._closing is None:  # what is under way there is still to come
            self._begin(was_number, before, half)
        elif self._closing:
            self._part(was_number, before, lambda: words, forget=True)
        self._closing = None
