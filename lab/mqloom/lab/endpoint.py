"""An MQTT client in virtual time: it dials, subscribes, publishes, and comes back when its connection is lost.

It is to the lab what paho is to production. QoS 1 messages survive a reconnection: those without PUBACK are sent again,
in order and with DUP, then the others. What it receives it acknowledges when its owner says so, and never for an
earlier connection.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqloom.lab.broker_model import Broker
from mqloom.lab.clock import Clock, Timer
from mqloom.lab.network import Connection, Path, Traffic
from mqloom.lab.packets import Connack, Connect, Disconnect, Packet, Puback, Publish, Suback, Subscribe

RETRY_S: Final = (1.0, 15.0)
"""The first and the longest pause between two tries; each is twice as long as the one before."""

DIAL_S: Final = 5.0
"""How long an answer to a connection is waited for."""

WINDOW: Final = 100
"""QoS 1 messages without PUBACK; the others wait."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an endpoint is: its clock, its way to a broker, and the counters of the world."""

    clock: Clock
    path: Path
    broker: Broker
    traffic: Traffic
    randomness: random.Random
    watch: Callable[[Connection, str], None] | None = None


@dataclass(slots=True)
class Manner:
    """How an endpoint connects, and whom it tells what."""

    client_id: str
    clean: bool
    subscriptions: Sequence[tuple[str, int]] = ()
    will: Publish | None = None
    on_up: Callable[[bool], None] = field(default=lambda session_present: None)
    on_down: Callable[[], None] = field(default=lambda: None)  # after on_up only
    on_lost: Callable[[], None] = field(default=lambda: None)  # whenever messages may have come
    on_messages: Callable[[list[Publish]], None] = field(default=lambda messages: None)
    on_published: Callable[[list[int]], None] = field(default=lambda numbers: None)
    on_taken: Callable[[Publish, list[str]], None] | None = None
    on_subscribed: Callable[[int], None] = field(default=lambda number: None)


class Endpoint:
    """One client of one broker; closed until it is opened."""

    def __init__(self, place: Place, manner: Manner) -> None:
        self.place = place
        self.manner = manner
        self.is_open = False
        self.is_up = False
        self.connections = 0
        self.unacknowledged: dict[int, tuple[Publish, int]] = {}
        self.waiting: deque[tuple[Publish, int]] = deque()
        self._connection: Connection | None = None
        self._present = False
        self._accepted = False
        self._retry_s = RETRY_S[0]
        self._timer: Timer | None = None
        self._packet = 0
        self._subscription = 0

    # ---- up and down ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connect, and stay connected."""
        if not self.is_open:
            self.is_open = True
            self._retry_s = RETRY_S[0]
            self._dial()

    def close(self) -> None:
        """Leave in order; the broker keeps the session if it is not a clean one."""
        if self._connection is not None and self._accepted:
            self._connection.to_broker.send(Disconnect())
        elif self._connection is not None:
            self._connection.break_off(None, 0.0)
        self._leave()

    def crash(self, broker_notice_s: float) -> None:
        """Be gone without a word, and with everything that was in memory."""
        if self._connection is not None:
            self._connection.break_off(None, broker_notice_s)
        self._leave()
        self.unacknowledged.clear()
        self.waiting.clear()

    def vanish(self, broker_notice_s: float) -> None:
        """Lose the connection now, and do not come back before `open`."""
        if self._connection is not None:
            self._connection.break_off(None, broker_notice_s)
        was_up, was_accepted = self.is_up, self._accepted
        self._leave()
        self._tell_of_loss(was_up=was_up, was_accepted=was_accepted)

    def _leave(self) -> None:
        self._connection, self._accepted, self.is_open, self.is_up = None, False, False, False
        if self._timer is not None:
            self._timer.cancel()

    def _dial(self) -> None:
        place, manner = self.place, self.manner
        self._accepted = False
        self._connection = Connection(place.clock, place.path, self, place.broker, place.traffic)
        self._connection.on_taken = manner.on_taken
        if place.watch is not None:
            place.watch(self._connection, manner.client_id)
        if place.path.is_cut:
            self._connection.break_off(DIAL_S * place.randomness.random(), None)
            return
        self._connection.to_broker.send(Connect(manner.client_id, manner.clean, manner.will))

    def lose(self, connection: Connection) -> None:
        """Our connection is found to be broken."""
        if connection is not self._connection:
            return
        was_up, was_accepted = self.is_up, self._accepted
        self._connection, self._accepted, self.is_up = None, False, False
        pause, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_S[1])
        pause *= 0.5 + self.place.randomness.random() / 2
        self._timer = self.place.clock.timer_at(self.place.clock.now + pause, self._dial)
        self._tell_of_loss(was_up=was_up, was_accepted=was_accepted)

    def _tell_of_loss(self, *, was_up: bool, was_accepted: bool) -> None:
        if was_accepted:
            self.manner.on_lost()
        if was_up:
            self.manner.on_down()

    def _rise(self) -> None:
        self.is_up = True
        self._retry_s = RETRY_S[0]
        self.manner.on_up(self._present)

    # ---- inward --------------------------------------------------------------------------------------------------

    def receive(self, connection: Connection, packets: list[Packet]) -> None:
        """Packets have come; those of an earlier connection are nobody's."""
        messages: list[Publish] = []
        for packet in packets:
            if connection is not self._connection:
                return
            if type(packet) is Publish:
                messages.append(packet)
                continue
            if messages:
                self.manner.on_messages(messages)
                messages = []
            if type(packet) is Puback:
                self._published(packet)
            else:
                self._control(packet)
        if messages and connection is self._connection:
            self.manner.on_messages(messages)

    def _control(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self._accept(packet)
        elif isinstance(packet, Suback):
            if packet.number:
                self.manner.on_subscribed(packet.number)
            else:
                self._rise()

    def _accept(self, packet: Connack) -> None:
        self.connections += 1
        self._accepted = True
        self._present = packet.session_present
        if self.manner.subscriptions:
            self._send(Subscribe(0, tuple(self.manner.subscriptions)))
        for number, (message, _) in self.unacknowledged.items():
            self._send(Publish(message.topic, message.payload, message.qos, message.retain, number, True))
        self._launch()
        if not self.manner.subscriptions:
            self._rise()

    def _published(self, packet: Puback) -> None:
        done = [self.unacknowledged.pop(each) for each in packet.packets if each in self.unacknowledged]
        self._launch()
        self.manner.on_published([number for _, number in done])

    # ---- outward -------------------------------------------------------------------------------------------------

    def publish(self, message: Publish, number: int = 0) -> bool:
        """Hand a message over; `on_published` names its number. False: QoS 0, and there is no connection."""
        if message.qos:
            self.waiting.append((message, number))
            self._launch()
            return True
        if self._accepted:
            self._send(message)
        return self._accepted

    def acknowledge(self, packets: tuple[int, ...]) -> None:
        """Acknowledge messages of the present connection."""
        if packets and self._accepted:
            self._send(Puback(packets))

    def subscribe(self, topics: str, qos: int) -> int:
        """Subscribe to one more filter; `on_subscribed` gives the number that is returned."""
        self._subscription += 1
        self._send(Subscribe(self._subscription, ((topics, qos),)))
        return self._subscription

    @property
    def pending(self) -> int:
        """How many messages have no PUBACK yet."""
        return len(self.unacknowledged) + len(self.waiting)

    def _launch(self) -> None:
        while self._accepted and self.waiting and len(self.unacknowledged) < WINDOW:
            message, number = self.waiting.popleft()
            packet = self._packet % 65_535 + 1
            while packet in self.unacknowledged:
                packet = packet % 65_535 + 1
            self._packet = packet
            launched = Publish(message.topic, message.payload, message.qos, message.retain, packet)
            self.unacknowledged[packet] = (launched, number)
            self._send(launched)

    def _send(self, packet: Packet) -> None:
        if self._connection is not None:
            self._connection.to_broker.send(packet)
